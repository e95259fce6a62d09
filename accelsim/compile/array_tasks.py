"""A matmul on its arrays: weights, streams and drains (or epilogue passes) of all its tiles, and its operands.

A matmul group is one such matmul (matmul.py); fused attention is two, which take turns (attention_op.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import reads_across
from accelsim.compile.array_order import ArrayQueue, connect_arrays
from accelsim.compile.assemble import Part, Scratch, assemble
from accelsim.compile.candidates import bias_slots, roomy_accumulator_slots, single_candidate, slot_bytes
from accelsim.compile.feed import Feed
from accelsim.compile.further import bias_by_column, further_feeds
from accelsim.compile.loads import PHASES
from accelsim.compile.machine import Machine
from accelsim.compile.matmul_times import MatmulTimes
from accelsim.compile.outputs import Grid, Outputs, Target
from accelsim.compile.passes import emit_passes
from accelsim.compile.points import Points
from accelsim.compile.program import DONE, DRAIN, RELEASED, START, STREAM, WEIGHTS
from accelsim.compile.requests import Tiles, packed_requests, tile_requests
from accelsim.compile.rows import is_contiguous
from accelsim.compile.template import Block, Claim, Ports, Template, last_by_unit, pieces_of
from accelsim.compile.unit_times import UnitTimes, attached_times
from accelsim.compile.work import MatmulWork
from accelsim.errors import InternalError
from accelsim.hardware import systolic

Int64 = NDArray[np.int64]
MADE_HERE = -1  # number of an operand that the group itself makes, block after block
_WEIGHTS_PHASE, _STREAM_PHASE, _DRAIN_PHASE, EPILOGUE_PHASE = range(4)


class MatmulTasks:
    """One matmul. Arrays over points are [T], over outputs [outputs] in the order of their first points.

    `numbers` [T] are the points' numbers in the group, which order its tasks; `inputs` those of a, b, the bias and the
    further operands among the group's inputs; `parts` the operators of the group that its own tasks and its epilogue's
    belong to. `sum_slots`: accumulator slots of each array where another matmul takes turns with it; None: it is alone.
    """

    def __init__(
        self,
        machine: Machine,
        work: MatmulWork,
        points: Points,
        ports: Ports,
        block: Block,
        *,
        inputs: tuple[int, ...],
        numbers: Int64,
        parts: tuple[int, int] = (0, 0),
        sum_slots: int | None = None,
    ) -> None:
        self.machine = machine
        self.work = work
        self.array = work.array
        self.points = points
        self.ports = ports
        self.block = block
        self.inputs = inputs
        self.numbers = numbers
        self.part, self.epilogue_part = parts
        self.sum_slots = sum_slots
        self.candidate = single_candidate(work, points.tiling, machine.arch.array.count)
        places = tuple("slot" if number == MADE_HERE else ports.inputs[number] for number in inputs)
        self.across = reads_across(machine.arch, work, places)
        self.times = MatmulTimes(machine, work, points, self.across)
        self.stationary = {"ws": "b", "is": "a", "os": ""}[self.array.dataflow]
        self.finishing = np.flatnonzero(points.last_k)  # points that finish an output, in order
        self.finish_index = np.searchsorted(self.finishing, points.last_point)  # [outputs]
        self._emit_compute()

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def _emit_compute(self) -> None:
        key = self.numbers * PHASES
        self.weights = self._emit_weights(key + _WEIGHTS_PHASE)
        self.stream = self._emit_streams(key + _STREAM_PHASE)
        self.drain = self._emit_drains(key + _DRAIN_PHASE)
        self.epilogue, self.epilogue_times = self._emit_epilogue(key[self.finishing] + EPILOGUE_PHASE)

    def _emit_weights(self, key: Int64) -> Int64:
        """[T] positions of the `weights` tasks, -1 where the array holds the point's fold already."""
        at, t = self._weights_needed(), self.times
        result = np.full(self.points.size, -1, np.int64)
        result[at] = self.block.add(
            WEIGHTS, self.units("weights")[at], key[at], tile=self.points.labels[at], part=self.part,
            occupy=(t.weights + t.weights_extra)[at], latency=(t.weights + t.weights_extra)[at],
            useful=t.weights[at], scratchpad=t.weights_extra[at], scratchpad_read_bytes=t.first_fold_bytes[at],
        )  # fmt: skip
        return result

    def _weights_needed(self) -> Int64:
        """Points whose (single) fold their array does not hold already."""
        if not self.stationary:
            return np.zeros(0, np.int64)
        if self.sum_slots is not None:
            return np.arange(self.points.size)
        p, key = self.points, self._tile_id(self.stationary)
        single = systolic.fold_count(self.array, p.tm, p.tk, p.tn) == 1
        needed = np.ones(p.size, bool)
        for array in range(self.machine.arch.array.count):
            own = np.flatnonzero(p.array == array)
            needed[own[1:]] = (key[own[1:]] != key[own[:-1]]) | ~single[own[1:]]
        return np.flatnonzero(needed)

    def _emit_streams(self, key: Int64) -> Int64:
        p, t = self.points, self.times
        past = p.last_k & (not self.work.epilogue)  # a finished os result goes past the accumulator, but for passes
        sums = systolic.accumulator_accesses(self.array, p.tm, p.tk, p.tn, p.first_k, past)
        return self.block.add(
            STREAM, self.units("stream"), key, tile=p.labels, part=self.part, macs=p.tm * p.tk * p.tn,
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
            DRAIN, self.units("drain")[at], key[at], tile=p.labels[at], part=self.part,
            occupy=(t.drain.occupy + t.drain_extra)[at], latency=(t.drain.latency + t.drain_extra)[at],
            useful=t.drain.occupy[at], scratchpad=t.drain_extra[at], accumulator_drain_reads=elements * summed,
            scratchpad_write_bytes=elements * final * sum(self.work.out_bytes),
        )  # fmt: skip
        self.block.edge(result[at], self.stream[at], START, (t.drain.lag + t.stream_extra)[at])
        return result

    def _emit_epilogue(self, key: Int64) -> tuple[list[Int64], UnitTimes | None]:
        """Vector passes over finished outputs; those that read accumulator rows do so once they are all there. A
        dedicated unit takes them while they come."""
        p, at = self.points, self.finishing
        if self.work.attached:
            return self._emit_attached(key)
        if not self.work.epilogue:
            return [], None
        elements = (p.tm * p.tn)[at]
        shape = (p.tm[at], p.tn[at]) if self.work.by_rows else (elements, 1)
        emitted, times = emit_passes(
            self.machine, self.block, self.work.epilogue, shape, key, tile=p.labels[at], part=self.epilogue_part,
            sums=elements,
        )  # fmt: skip
        self.block.edge(emitted[0], self.drain[at] if self.array.dataflow == "os" else self.stream[at], DONE)
        return emitted, times

    def _emit_attached(self, key: Int64) -> tuple[list[Int64], UnitTimes]:
        p, at, step = self.points, self.finishing, self.work.epilogue[0]
        times, lag = attached_times(self.machine, step, self.array, p.tm[at], p.tk[at], p.tn[at])
        positions = self.block.add(
            times.kind, times.unit, key, tile=p.labels[at], part=self.epilogue_part,
            accumulator_drain_reads=(p.tm * p.tn)[at], **times.columns,
        )  # fmt: skip
        self.block.edge(positions, self.stream[at], START, lag + self.times.stream_extra[at])
        return [positions], times

    @property
    def queue(self) -> ArrayQueue:
        """The tiles in the order of their points."""
        p, t = self.points, self.times
        return ArrayQueue(
            p.array, self.weights, self.stream, self.drain, t.next_weights_lag, t.shift_extra, p.tm, p.tk, p.tn
        )

    def units(self, kind: str) -> Int64:
        """[T] the unit of that kind of each point's array."""
        return self.machine.array_units(kind)[self.points.array]

    def _tile_id(self, operand: str) -> Int64:
        """[T] a number that tells the operand's tiles apart."""
        p, loops = self.points, self.candidate.loops
        batch = p.batch if self.candidate.batches(operand) > 1 else np.zeros_like(p.batch)
        first, second, names = {"a": (p.m, p.k, "mk"), "b": (p.k, p.n, "kn")}[operand]
        tile: Int64 = (batch * int(loops[names[0]]) + first) * int(loops[names[1]]) + second
        return tile

    # ---- operands ----------------------------------------------------------------------------------------------------

    def feeds(self) -> list[Feed]:
        """The operands from outside: what is shifted in first is loaded first."""
        first, second = "ab" if self.stationary == "a" else "ba"
        made = {"a": self.inputs[0] == MADE_HERE, "b": self.inputs[1] == MADE_HERE}
        own = [self._feed(role) for role in (first, second) if not made[role]]
        return [*own, *self._bias_feed(), *self._further_feeds()]

    def _feed(self, role: str) -> Feed:
        p, view, work = self.points, self.work.view, self.work
        number, width = (self.inputs[0], work.a_bytes) if role == "a" else (self.inputs[1], work.b_bytes)
        layout, tiles, place = view.a if role == "a" else view.b, p.tiles(role), self.ports.inputs[number]
        columns = view.k if role == "a" else view.n
        rows = view.m if role == "a" else view.k
        packed = self.sum_slots is None and self.ports.packed[number]
        requests = packed_requests(tiles, rows, columns, width) if packed else tile_requests(tiles, layout, width)
        return Feed(
            role=role, input=number, place=place, operand=self.ports.operand(number, place),
            requests=requests, offset=layout.offset, spans=tiles.spans(layout),
            tile_id=self._tile_id(role),
            held_whole=role in p.tiling.resident, slots=int(self.candidate.slots(role)),
            slot_bytes=int(slot_bytes(self.candidate, self.across, role, width)),
            labels=p.labels, points=self.numbers, part=self.part,
            reader=self.weights if role == self.stationary else self.stream, last_reader=self.stream,
            lane=self.units("stream"),
        )  # fmt: skip

    def _bias_feed(self) -> list[Feed]:
        """The bias, kept whole or a part of it for each tile's columns; the first task that reads finished sums waits
        for it."""
        if not self.work.bias_bytes:
            return []
        p, at, n = self.points, self.finishing, self.work.view.n
        by_column = bias_by_column(self.work, self.machine.scratchpad_bytes)
        width, none = p.tiling.tn if by_column else n, np.zeros(at.size, np.int64)
        index = p.n[at] if by_column else none
        tiles = Tiles(none, none, none + 1, index * width, np.minimum(width, n - index * width))
        first, units = self.finish_writer()
        number = self.inputs[2]
        layout, place = self.work.bias_layout, self.ports.inputs[number]
        return [
            Feed(
                role="bias", input=number, place=place, operand=self.ports.operand(number, place),
                requests=tile_requests(tiles, layout, self.work.bias_bytes), offset=layout.offset,
                spans=tiles.spans(layout), tile_id=index, held_whole=not by_column,
                slots=int(bias_slots(self.candidate)) if by_column else 1, slot_bytes=width * self.work.bias_bytes,
                labels=p.labels[at], points=self.numbers[at], part=self.part, reader=first, last_reader=first,
                lane=units,
            )
        ]  # fmt: skip

    def _further_feeds(self) -> list[Feed]:
        """What a unit at the array's output reads beside the rows: a mask, a residual, LayerNorm's parameters."""
        p, at, view = self.points, self.finishing, self.work.view
        if not self.work.further:
            return []
        first, units = self.finish_writer()
        begin, length = (p.batch * view.m + p.m * p.tiling.tm)[at] * view.n, (p.tm * p.tn)[at]
        common = {
            "labels": p.labels[at], "points": self.numbers[at], "part": self.epilogue_part, "reader": first,
            "last_reader": self.epilogue[-1], "lane": units,
        }  # fmt: skip
        inputs = self.inputs[len(self.inputs) - len(self.work.further) :]
        tiles = begin, length, p.tiling.tm * p.tiling.tn
        capacity = self.machine.scratchpad_bytes
        return further_feeds(self.ports, inputs, self.work.further, self.work.shape, tiles, capacity, common)

    def scratch(self) -> list[Scratch]:
        """What an epilogue of several passes keeps in the scratchpad, for one tile at a time."""
        kept = self.work.epilogue_scratch_bytes * self.points.tiling.tm * self.points.tiling.tn
        if not kept:
            return []
        return [Scratch(kept, int(self.epilogue[0][0]), int(self.epilogue[-1][-1]), self._epilogue_unit())]

    def finish_writer(self) -> tuple[Int64, Int64]:
        """Positions and units of the tasks that first write the destinations, at the finishing points."""
        if self.epilogue:
            return self.epilogue[0], np.full(self.finishing.size, self._epilogue_unit(), np.int64)
        return self.drain[self.finishing], self.units("drain")[self.finishing]

    def _epilogue_unit(self) -> int:
        if self.epilogue_times is None:
            raise InternalError("a matmul without an epilogue has no unit for one")
        return self.epilogue_times.unit

    def outputs(self) -> Outputs:
        """How the results leave."""
        p, index, at = self.points, self.finish_index, self.points.last_point
        writer, units = (part[index] for part in self.finish_writer())
        finisher = self.epilogue[-1][index] if self.epilogue else writer
        finisher_unit = units
        if self.array.dataflow == "os" and not self.epilogue:  # the stream takes the slot, so that no drain waits
            writer, units = self.stream[at], self.units("stream")[at]
        if self.epilogue_times is not None:
            occupy, latency = self.epilogue_times.occupy[index], self.epilogue_times.latency[index]
        else:
            occupy, latency = (part[at] for part in self.times.drained)
        tiles, grid = p.tiles("out").take(at), self._grid(at)
        size, layout = p.tiling.tm * p.tiling.tn, self.work.view.out
        return Outputs(
            ports=self.ports, labels=p.labels[at], point=self.numbers[at], part=self.part,
            writers=self.candidate.arrays,
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

    # ---- accumulator -------------------------------------------------------------------------------------------------

    @cached_property
    def _sum_slots(self) -> int:
        """Accumulator slots of each array; 0 where results go past it."""
        if self.sum_slots is not None:
            return self.sum_slots
        used = self.array.dataflow != "os" or self.epilogue or int(self.candidate.loops["k"]) > 1
        tile_bytes = self.points.tiling.tm * self.points.tiling.tn * self.machine.arch.accumulator.width_bytes
        return roomy_accumulator_slots(self.candidate, tile_bytes, self.machine.accumulator_bytes) if used else 0

    def accumulator_bytes(self) -> int:
        """Bytes of all slots."""
        tile = self.points.tiling.tm * self.points.tiling.tn * self.machine.arch.accumulator.width_bytes
        return self._sum_slots * self.machine.arch.array.count * tile

    def _left(self) -> Int64:
        """[outputs] position of the task after which an output's accumulator slot is free."""
        if not self.epilogue:
            return self.drain[self.finishing][self.finish_index]
        last = max(index for index, step in enumerate(self.work.epilogue) if step.reads_rows)
        return self.epilogue[last][self.finish_index]

    def _outputs_of(self, array: int) -> Int64:
        return np.flatnonzero(self.points.array[self.points.first_point] == array)

    def connect_accumulator(self) -> None:
        """A tile of sums waits until the output that had its slot has left."""
        slots = self._sum_slots
        for array in range(self.machine.arch.array.count if slots else 0):
            outputs = self._outputs_of(array)
            first = self.stream[self.points.first_point[outputs[slots:]]]
            self.block.edge(first, self._left()[outputs[: outputs.size - slots]][: first.size], RELEASED)

    def accumulator_claims(self, ids: Int64, offset: int) -> list[Claim]:
        """The slots' bytes, from `offset` on."""
        slots, claims = self._sum_slots, []
        if not slots:
            return []
        arrays = self.machine.arch.array.count
        each, pieces = pieces_of(slots)
        size = self.accumulator_bytes() // (arrays * slots)
        units = self.finish_writer()[1][self.finish_index]
        for array in range(arrays):
            outputs = self._outputs_of(array)
            piece_of = np.arange(outputs.size) % slots // each
            for piece in range(pieces):
                own = outputs[piece_of == piece]
                if own.size:
                    first = int(ids[self.stream[self.points.first_point[own]]].min())
                    last = last_by_unit(units[own], ids[self._left()[own]])
                    begin, end = piece * each, min((piece + 1) * each, slots)
                    place = (end - begin) * size, offset + (array * slots + begin) * size
                    claims.append(Claim("accumulator", f"array{array}.sums{piece}", *place, -1, [first], first, last))
        return claims


def template_of(
    machine: Machine,
    block: Block,
    tasks: Sequence[MatmulTasks],
    feeds: Sequence[Feed],
    compute_at: Int64,
    more: Sequence[Part],
) -> Template:
    """The Template of matmuls that take turns on the arrays in the order of their points; the last one's results leave.

    feeds: all operands. compute_at: [points] positions of the streams by the points' numbers. more: what else takes
    scratchpad bytes.
    """
    queue = ArrayQueue.merged([each.queue for each in tasks], [each.numbers for each in tasks])
    begins, ends = connect_arrays(block, tasks[0].array, queue)
    for each in tasks:
        each.connect_accumulator()
    template, ids = assemble(machine, block, feeds, tasks[-1].outputs(), compute_at, more)
    offset = 0
    for each in tasks:
        template.claims += each.accumulator_claims(ids, offset)
        offset += each.accumulator_bytes()
    template.chunks["accumulator"] = offset
    template.begins = {array: begin.renumbered(ids) for array, begin in begins.items()}
    template.ends = {array: end.renumbered(ids) for array, end in ends.items()}
    return template
