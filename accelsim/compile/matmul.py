"""Lowers a matmul group: weights, stream and drain (or epilogue) tasks of all its tiles, with their edges."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import reads_across
from accelsim.compile.assemble import Scratch, assemble
from accelsim.compile.attach import is_contiguous
from accelsim.compile.feed import Feed
from accelsim.compile.further import further_feed
from accelsim.compile.loads import PHASES
from accelsim.compile.machine import Machine
from accelsim.compile.mapper import Tiling, roomy_accumulator_slots, single_candidate, slot_bytes
from accelsim.compile.matmul_times import MatmulTimes
from accelsim.compile.outputs import Grid, Outputs, Target
from accelsim.compile.plan import MatmulWork
from accelsim.compile.points import Points, points_of
from accelsim.compile.program import DONE, DRAIN, RELEASED, START, STREAM, WEIGHTS
from accelsim.compile.requests import Tiles, packed_requests, tile_requests
from accelsim.compile.template import ArrayBegin, ArrayEnd, Block, Claim, Ports, Template, last_by_unit, pieces_of
from accelsim.compile.unit_times import UnitTimes, attached_times, unit_times
from accelsim.errors import InternalError
from accelsim.hardware import systolic

Int64 = NDArray[np.int64]
_WEIGHTS_PHASE, _STREAM_PHASE, _DRAIN_PHASE, _EPILOGUE_PHASE = range(4)


def lower_matmul(machine: Machine, work: MatmulWork, tiling: Tiling, ports: Ports) -> Template:
    """The tasks of a matmul group."""
    return _Lowering(machine, work, tiling, ports).template()


class _Lowering:
    """One group. Arrays over points are [T], over outputs [outputs] in the order of their first points."""

    def __init__(self, machine: Machine, work: MatmulWork, tiling: Tiling, ports: Ports) -> None:
        self.machine = machine
        self.work = work
        self.array = work.array
        self.ports = ports
        self.points: Points = points_of(work.view, tiling, work.array, machine.arch.array.count)
        self.candidate = single_candidate(work, tiling, machine.arch.array.count)
        self.across = reads_across(machine.arch, work, ports.inputs)
        self.times = MatmulTimes(machine, work, self.points, self.across)
        self.stationary = {"ws": "b", "is": "a", "os": ""}[self.array.dataflow]
        self.block = Block()
        self.ends: dict[int, ArrayEnd] = {}  # by positions, until the block is closed
        self.begins: dict[int, ArrayBegin] = {}
        self.finishing = np.flatnonzero(self.points.last_k)  # points that finish an output, in order
        self.finish_index = np.searchsorted(self.finishing, self.points.last_point)  # [outputs]

    def template(self) -> Template:
        self._emit_compute()
        self._connect_arrays()
        self._connect_accumulator()
        first, second = "ab" if self.stationary == "a" else "ba"  # what is shifted in first is loaded first
        feeds = [self._feed(first), self._feed(second), *self._bias_feed(), *self._further_feeds()]
        template, ids = assemble(self.machine, self.block, feeds, self._outputs(), self.stream, self._scratch())
        template.claims += self._accumulator_claims(ids)
        template.chunks["accumulator"] = self._accumulator_bytes()
        template.begins = {a: replace(b, task=int(ids[b.task])) for a, b in self.begins.items()}
        template.ends = {a: replace(e, task=int(ids[e.task]), last=int(ids[e.last])) for a, e in self.ends.items()}
        return template

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def _emit_compute(self) -> None:
        key = np.arange(self.points.size) * PHASES
        self.weights = self._emit_weights(key + _WEIGHTS_PHASE)
        self.stream = self._emit_streams(key + _STREAM_PHASE)
        self.drain = self._emit_drains(key + _DRAIN_PHASE)
        self.epilogue, self.epilogue_times = self._emit_epilogue(key[self.finishing] + _EPILOGUE_PHASE)

    def _emit_weights(self, key: Int64) -> Int64:
        """[T] positions of the `weights` tasks, -1 where the array holds the point's fold already."""
        at, t = self._weights_needed(), self.times
        result = np.full(self.points.size, -1, np.int64)
        result[at] = self.block.add(
            WEIGHTS, self._units("weights")[at], key[at], tile=self.points.labels[at],
            occupy=(t.weights + t.weights_extra)[at], latency=(t.weights + t.weights_extra)[at],
            useful=t.weights[at], scratchpad=t.weights_extra[at], scratchpad_read_bytes=t.first_fold_bytes[at],
        )  # fmt: skip
        return result

    def _weights_needed(self) -> Int64:
        """Points whose (single) fold their array does not hold already."""
        if not self.stationary:
            return np.zeros(0, np.int64)
        p, key = self.points, self._tile_id(self.stationary)
        single = systolic.fold_count(self.array, p.tm, p.tk, p.tn) == 1
        needed = np.ones(p.size, bool)
        for array in range(self.machine.arch.array.count):
            own = np.flatnonzero(p.array == array)
            needed[own[1:]] = (key[own[1:]] != key[own[:-1]]) | ~single[own[1:]]
        return np.flatnonzero(needed)

    def _emit_streams(self, key: Int64) -> Int64:
        p, t = self.points, self.times
        past = p.last_k & (
            not self.work.epilogue
        )  # an os result goes past the accumulator unless a pass reads it there
        sums = systolic.accumulator_accesses(self.array, p.tm, p.tk, p.tn, p.first_k, past)
        return self.block.add(
            STREAM, self._units("stream"), key, tile=p.labels, macs=p.tm * p.tk * p.tn,
            occupy=t.stream.occupy + t.stream_extra, latency=t.stream.latency + t.stream_extra,
            useful=t.stream.useful, weights_in_stream=t.stream.weights_in_stream, fill=t.stream.fill,
            scratchpad=t.stream_extra, scratchpad_read_bytes=t.streamed_bytes + t.later_fold_bytes,
            accumulator_reads=sums.reads, accumulator_writes=sums.writes,
        )  # fmt: skip

    def _emit_drains(self, key: Int64) -> Int64:
        """[T] positions of drains, -1 for none: of finished outputs in ws and is (an epilogue reads the rows itself),
        of every K tile in os, where all but the last add into the accumulator."""
        p, t, os = self.points, self.times, self.array.dataflow == "os"
        at = np.arange(p.size) if os else self.finishing if not self.work.epilogue else self.finishing[:0]
        elements = (p.tm * p.tn)[at]
        final = p.last_k[at] & (not self.work.epilogue)
        summed = final & ~p.first_k[at] if os else final  # os adds the last K tile to what the accumulator holds
        result = np.full(p.size, -1, np.int64)
        result[at] = self.block.add(
            DRAIN, self._units("drain")[at], key[at], tile=p.labels[at],
            occupy=(t.drain.occupy + t.drain_extra)[at], latency=(t.drain.latency + t.drain_extra)[at],
            useful=t.drain.occupy[at], scratchpad=t.drain_extra[at], accumulator_drain_reads=elements * summed,
            scratchpad_write_bytes=elements * final * sum(self.work.out_bytes),
        )  # fmt: skip
        self.block.edge(result[at], self.stream[at], START, (t.drain.lag + t.stream_extra)[at])
        return result

    def _emit_epilogue(self, key: Int64) -> tuple[list[Int64], UnitTimes | None]:
        """Vector passes over finished outputs; the first reads accumulator rows once they are all there. A dedicated
        unit takes them while they come."""
        p, at, times = self.points, self.finishing, None
        if self.work.attached:
            return self._emit_attached(key)
        before = self.drain[at] if self.array.dataflow == "os" else self.stream[at]
        emitted: list[Int64] = []
        for index, step in enumerate(self.work.epilogue):
            times = unit_times(self.machine, step, p.tm[at] * p.tn[at], 1)
            positions = self.block.add(
                times.kind, times.unit, key + index, tile=p.labels[at],
                accumulator_drain_reads=(p.tm * p.tn)[at] * (index == 0), **times.columns,
            )  # fmt: skip
            self.block.edge(positions, before, DONE)
            before = positions
            emitted.append(positions)
        return emitted, times

    def _emit_attached(self, key: Int64) -> tuple[list[Int64], UnitTimes]:
        p, at, step = self.points, self.finishing, self.work.epilogue[0]
        times, lag = attached_times(self.machine, step, self.array, p.tm[at], p.tk[at], p.tn[at])
        positions = self.block.add(
            times.kind, times.unit, key, tile=p.labels[at], accumulator_drain_reads=(p.tm * p.tn)[at], **times.columns
        )
        self.block.edge(positions, self.stream[at], START, lag + self.times.stream_extra[at])
        return [positions], times

    def _units(self, kind: str) -> Int64:
        return self.machine.array_units(kind)[self.points.array]

    def _tile_id(self, operand: str) -> Int64:
        """[T] a number that tells the operand's tiles apart."""
        p, loops = self.points, self.candidate.loops
        batch = p.batch if self.candidate.batches(operand) > 1 else np.zeros_like(p.batch)
        first, second, names = {"a": (p.m, p.k, "mk"), "b": (p.k, p.n, "kn")}[operand]
        tile: Int64 = (batch * int(loops[names[0]]) + first) * int(loops[names[1]]) + second
        return tile

    # ---- operands ----------------------------------------------------------------------------------------------------

    def _feed(self, role: str) -> Feed:
        p, view, work = self.points, self.work.view, self.work
        number, width = (0, work.a_bytes) if role == "a" else (1, work.b_bytes)
        layout, tiles, place = view.a if role == "a" else view.b, p.tiles(role), self.ports.inputs[number]
        columns = view.k if role == "a" else view.n
        rows = view.m if role == "a" else view.k
        requests = (
            packed_requests(tiles, rows, columns, width)
            if self.ports.packed[number]
            else tile_requests(tiles, layout, width)
        )
        return Feed(
            role=role, input=number, place=place, operand=self.ports.operand(number, place),
            requests=requests, offset=layout.offset, spans=tiles.spans(layout),
            tile_id=self._tile_id(role),
            held_whole=role in p.tiling.resident, slots=int(self.candidate.slots(role)),
            slot_bytes=int(slot_bytes(self.candidate, self.across, role, width)),
            labels=p.labels, points=np.arange(p.size),
            reader=self.weights if role == self.stationary else self.stream, last_reader=self.stream,
            lane=self._units("stream"),
        )  # fmt: skip

    def _bias_feed(self) -> list[Feed]:
        """The bias is kept whole: one load, which the first task that reads finished sums waits for."""
        if not self.work.bias_bytes:
            return []
        at = self.finishing
        one = np.zeros(at.size, np.int64)
        tiles = Tiles(one, one, one + 1, one, np.full(at.size, self.work.view.n))
        first, units = self._finish_writer()
        layout, place = self.work.bias_layout, self.ports.inputs[2]
        return [
            Feed(
                role="bias", input=2, place=place, operand=self.ports.operand(2, place),
                requests=tile_requests(tiles, layout, self.work.bias_bytes), offset=layout.offset,
                spans=tiles.spans(layout), tile_id=one, held_whole=True, slots=1,
                slot_bytes=self.work.view.n * self.work.bias_bytes, labels=self.points.labels[at], points=at,
                reader=first, last_reader=first, lane=units,
            )
        ]  # fmt: skip

    def _further_feeds(self) -> list[Feed]:
        """What a unit at the array's output reads beside the rows: a mask, a residual, LayerNorm's parameters."""
        p, at, view = self.points, self.finishing, self.work.view
        if not self.work.further:
            return []
        first, units = self._finish_writer()
        begin, length = (p.batch * view.m + p.m * p.tiling.tm)[at] * view.n, (p.tm * p.tn)[at]
        common = {"labels": p.labels[at], "points": at, "reader": first, "last_reader": first, "lane": units}
        size, capacity = p.tiling.tm * p.tiling.tn, self.machine.scratchpad_bytes
        inputs = range(len(self.work.group.head.inputs), len(self.work.group.inputs))
        return [
            further_feed(self.ports, number, item, self.work.shape, (begin, length, size), capacity, common)
            for number, item in zip(inputs, self.work.further, strict=True)
        ]

    def _scratch(self) -> list[Scratch]:
        """What an epilogue of several passes keeps in the scratchpad, for one tile at a time."""
        kept = self.work.epilogue_scratch_bytes * self.points.tiling.tm * self.points.tiling.tn
        if not kept:
            return []
        return [Scratch(kept, int(self.epilogue[0][0]), int(self.epilogue[-1][-1]), self._epilogue_unit())]

    def _finish_writer(self) -> tuple[Int64, Int64]:
        """Positions and units of the tasks that first write the destinations, at the finishing points."""
        if self.epilogue:
            return self.epilogue[0], np.full(self.finishing.size, self._epilogue_unit(), np.int64)
        return self.drain[self.finishing], self._units("drain")[self.finishing]

    def _epilogue_unit(self) -> int:
        if self.epilogue_times is None:
            raise InternalError("a matmul without an epilogue has no unit for one")
        return self.epilogue_times.unit

    def _outputs(self) -> Outputs:
        p, index, at = self.points, self.finish_index, self.points.last_point
        writer, units = (part[index] for part in self._finish_writer())
        finisher = self.epilogue[-1][index] if self.epilogue else writer
        finisher_unit = units
        if self.array.dataflow == "os" and not self.epilogue:  # the stream takes the slot, so that no drain waits
            writer, units = self.stream[at], self._units("stream")[at]
        if self.epilogue_times is not None:
            occupy, latency = self.epilogue_times.occupy[index], self.epilogue_times.latency[index]
        else:
            occupy, latency = (part[at] for part in self.times.drained)
        tiles, grid = p.tiles("out").take(at), self._grid(at)
        size, layout = p.tiling.tm * p.tiling.tn, self.work.view.out
        return Outputs(
            ports=self.ports, labels=p.labels[at], point=at, writers=self.candidate.arrays,
            targets=tuple(Target(width, size, layout, tiles, grid) for width in self.work.out_bytes),
            writer=writer, writer_unit=units, finisher=finisher, finisher_unit=finisher_unit,
            finisher_occupy=occupy, finisher_latency=latency,
        )  # fmt: skip

    def _grid(self, at: Int64) -> Grid:
        """Blocks of the result as [batch x m, n]; one block where it does not lie contiguous."""
        p, view = self.points, self.work.view
        if not is_contiguous(view):
            zero = np.zeros(1, np.int64)
            return Grid(view.n, zero, zero, np.zeros(at.size, np.int64), np.zeros(at.size, np.int64))
        tiles_m, tiles_n = int(self.candidate.loops["m"]), int(self.candidate.loops["n"])
        starts = np.arange(view.batch)[:, None] * view.m + np.arange(tiles_m) * p.tiling.tm
        return Grid(view.n, starts.ravel(), np.arange(tiles_n) * p.tiling.tn, p.batch[at] * tiles_m + p.m[at], p.n[at])

    # ---- order on the arrays -----------------------------------------------------------------------------------------

    def _connect_arrays(self) -> None:
        """Weights before their stream, and when the next weights (in os: the next stream) may start."""
        at = np.flatnonzero(self.weights >= 0)
        self.block.edge(self.stream[at], self.weights[at], DONE)
        for array in range(self.machine.arch.array.count):
            own = np.flatnonzero(self.points.array == array)
            if own.size and self.stationary:
                self._connect_weights(array, own)
            elif own.size:
                self._connect_streams(array, own)

    def _connect_weights(self, array: int, own: Int64) -> None:
        """The next weights wait for the stream that frees the registers: the first one on the current weights where
        there are shadow registers, the last one where there are none."""
        shadow = self.array.fold_overlap and self.array.weight_double_buffer
        event = START if shadow else RELEASED if self.array.fold_overlap else DONE
        needs = own[self.weights[own] >= 0]
        frees = needs[:-1] if shadow else own[np.searchsorted(own, needs[1:]) - 1]
        lag = self.times.next_weights_lag if shadow else np.zeros(self.points.size, np.int64)
        self.block.edge(self.weights[needs[1:]], self.stream[frees], event, lag[frees])
        last = int(needs[-1] if shadow else own[-1])
        empty = int(self.stream[own[-1]])
        self.begins[array] = ArrayBegin(int(self.weights[needs[0]]), 0, self.array)
        self.ends[array] = ArrayEnd(int(self.stream[last]), event, int(lag[last]), empty, self.array, (1, 1, 1))

    def _connect_streams(self, array: int, own: Int64) -> None:
        """os: the next stream waits until its results will find the output registers free."""
        p, before, after = self.points, own[:-1], own[1:]
        lag = systolic.next_stream_lag(self.array, p.tm[before], p.tk[before], p.tn[before], p.tk[after])
        self.block.edge(self.stream[after], self.stream[before], START, lag + self.times.shift_extra[before])
        first, last = int(own[0]), int(own[-1])
        tile = (int(p.tm[last]), int(p.tk[last]), int(p.tn[last]))
        extra = int(self.times.shift_extra[last])
        self.begins[array] = ArrayBegin(int(self.stream[first]), int(p.tk[first]), self.array)
        self.ends[array] = ArrayEnd(int(self.stream[last]), START, extra, int(self.drain[last]), self.array, tile)

    # ---- accumulator -------------------------------------------------------------------------------------------------

    @cached_property
    def _sum_slots(self) -> int:
        """Accumulator slots of each array; 0 where results go past it."""
        used = self.array.dataflow != "os" or self.epilogue or int(self.candidate.loops["k"]) > 1
        tile_bytes = self.points.tiling.tm * self.points.tiling.tn * self.machine.arch.accumulator.width_bytes
        return roomy_accumulator_slots(self.candidate, tile_bytes, self.machine.accumulator_bytes) if used else 0

    def _accumulator_bytes(self) -> int:
        tile = self.points.tiling.tm * self.points.tiling.tn * self.machine.arch.accumulator.width_bytes
        return self._sum_slots * self.machine.arch.array.count * tile

    def _left(self) -> Int64:
        """[outputs] position of the task after which an output's accumulator slot is free."""
        return (self.epilogue[-1] if self.epilogue else self.drain[self.finishing])[self.finish_index]

    def _outputs_of(self, array: int) -> Int64:
        return np.flatnonzero(self.points.array[self.points.first_point] == array)

    def _connect_accumulator(self) -> None:
        """A tile of sums waits until the output that had its slot has left."""
        slots = self._sum_slots
        for array in range(self.machine.arch.array.count if slots else 0):
            outputs = self._outputs_of(array)
            first = self.stream[self.points.first_point[outputs[slots:]]]
            self.block.edge(first, self._left()[outputs[: outputs.size - slots]][: first.size], RELEASED)

    def _accumulator_claims(self, ids: Int64) -> list[Claim]:
        slots, claims = self._sum_slots, []
        if not slots:
            return []
        arrays = self.machine.arch.array.count
        each, pieces = pieces_of(slots)
        size = self._accumulator_bytes() // (arrays * slots)
        units = self._finish_writer()[1][self.finish_index]
        for array in range(arrays):
            outputs = self._outputs_of(array)
            piece_of = np.arange(outputs.size) % slots // each
            for piece in range(pieces):
                own = outputs[piece_of == piece]
                if own.size:
                    first = int(ids[self.stream[self.points.first_point[own]]].min())
                    last = last_by_unit(units[own], ids[self._left()[own]])
                    begin, end = piece * each, min((piece + 1) * each, slots)
                    place = (end - begin) * size, (array * slots + begin) * size
                    claims.append(Claim("accumulator", f"array{array}.sums{piece}", *place, -1, [first], first, last))
        return claims
