"""Lowers fused attention: block after block of scores, softmax and context, in turns on the arrays.

A step is one block of rows and, in the online form, some keys of it. The scores of some steps ahead are issued before
the context of a step: otherwise the in-order arrays would wait for each softmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.array_tasks import EPILOGUE_PHASE, MADE_HERE, MatmulTasks, template_of
from accelsim.compile.assemble import Part, Scratch
from accelsim.compile.attention import ONLINE, SPILLED, AttentionWork
from accelsim.compile.candidates import Tiling, slot_bytes
from accelsim.compile.feed import Feed
from accelsim.compile.further import further_feeds
from accelsim.compile.loads import PHASES
from accelsim.compile.machine import Machine
from accelsim.compile.passes import emit_passes
from accelsim.compile.points import Points, points_at
from accelsim.compile.program import DONE, RELEASED
from accelsim.compile.template import Block, Claim, Ports, Template, first_by_unit, last_by_unit
from accelsim.compile.unit_times import UnitTimes, unit_times
from accelsim.compile.work import MatmulWork
from accelsim.errors import InternalError
from accelsim.trace.matmul import MatmulView

Int64 = NDArray[np.int64]
_SCORES, _SOFTMAX, _CONTEXT = range(3)  # parts of the group


@dataclass(frozen=True)
class AttentionTiling:
    """rows of a block; keys of a step (all of them unless online) and of a tile of scores (fewer if they are spilled);
    ahead: steps by which an array's scores are ahead of its context; held: all keys and values of a batch stay on chip
    while its blocks need them."""

    form: str
    rows: int
    keys: int
    score_keys: int
    ahead: int = 1
    held: bool = False

    def scores(self, view: MatmulView) -> Tiling:
        """The tiling of the scores, [rows, k] x [k, score_keys]."""
        return Tiling(self.rows, self.score_keys, view.k, ("m", "n", "k"), self._held)

    def context(self, view: MatmulView) -> Tiling:
        """The tiling of the context, [rows, keys] x [keys, n]."""
        return Tiling(self.rows, view.n, self.keys, ("m", "n", "k"), self._held)

    @property
    def _held(self) -> frozenset[str]:
        return frozenset("b" if self.held else "")

    @property
    def together(self) -> int:
        """Blocks that each array takes turns with: online, a step waits for the one before on the same block."""
        return 2 if self.form == ONLINE else 1

    @property
    def context_slots(self) -> int:
        """Blocks of context sums of each array: one that is computed and one that leaves."""
        return 2 * self.together

    @property
    def slots(self) -> int:
        """Blocks of scores that each array's part of the accumulator holds, and of what the softmax leaves."""
        return self.ahead + 1

    def accumulator_bytes(self, work: AttentionWork, arrays: int, width: int) -> int:
        """Bytes of sums that the arrays keep at once, `width` bytes each."""
        context = self.context_slots * work.context.view.n
        return arrays * self.rows * (self.slots * self.score_keys + context) * width


@dataclass(frozen=True)
class Slots:
    """A ring of `count` slots of `size` bytes for what one step leaves to a later task of it.

    writers, readers: positions [T] of the first task that writes a step's slot and of the last that reads it, with
    their units.
    """

    name: str
    count: int
    size: int
    writers: Int64
    writer_units: Int64
    readers: Int64
    reader_units: Int64

    @property
    def buffer_bytes(self) -> int:
        return self.count * self.size

    def connect(self, block: Block) -> None:
        """A slot is written again when it has been read."""
        block.edge(self.writers[self.count :], self.readers[: -self.count], RELEASED)

    def claims(self, ids: Int64, offset: int) -> list[Claim]:
        """One claim a slot."""
        return [self._claim(ids, offset + slot * self.size, slot) for slot in range(self.count)]

    def _claim(self, ids: Int64, offset: int, slot: int) -> Claim:
        own = np.arange(slot, self.writers.size, self.count)
        waits = first_by_unit(self.writer_units[own], ids[self.writers[own]])
        last = last_by_unit(self.reader_units[own], ids[self.readers[own]])
        first = int(ids[self.writers[own]].min())
        return Claim("scratchpad", f"{self.name}{slot}", self.size, offset, -1, list(waits.values()), first, last)


def lower_attention(machine: Machine, work: AttentionWork, tiling: AttentionTiling, ports: Ports) -> Template:
    """The tasks of an attention group."""
    return _Lowering(machine, work, tiling, ports).template()


class _Lowering:
    """Arrays over steps are [T], in the order of the steps; a step's block runs on one array."""

    def __init__(self, machine: Machine, work: AttentionWork, tiling: AttentionTiling, ports: Ports) -> None:
        self.machine = machine
        self.work = work
        self.tiling = tiling
        self.ports = ports
        self.block = Block()
        self.arrays = machine.arch.array.count
        self._order()
        self.scores = self._scores()
        self.passes, self.pass_times = self._softmax()
        self.context = self._context()

    def template(self) -> Template:
        more: list[Part] = [*self._connect_steps(), *self._scratch()]
        feeds = [*self.scores.feeds(), *self._spilled_feeds(), *self.context.feeds()]
        return template_of(self.machine, self.block, [self.scores, self.context], feeds, self._compute_at(), more)

    # ---- order -------------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        """Steps side by side on blocks for all arrays, and the numbers of their points."""
        view = self.work.scores.view
        self.blocks_of_batch = -(-view.m // self.tiling.rows)
        count, keys = view.batch * self.blocks_of_batch, -(-view.n // self.tiling.keys)
        block, key = (index.ravel() for index in np.indices((count, keys)))
        side_by_side = self.arrays * self.tiling.together
        order = np.lexsort((block % side_by_side, key, block // side_by_side))
        self.block_of, self.key_of = block[order], key[order]
        steps = np.arange(self.block_of.size)
        self.of_scores = np.repeat(steps, self._tiles_of_scores)  # the step of each tile of scores
        sequence = np.concatenate([2 * self.of_scores, 2 * (steps + self.tiling.ahead * self.arrays) + 1])
        numbers = np.empty_like(sequence)
        numbers[np.argsort(sequence, kind="stable")] = np.arange(sequence.size)
        self.score_numbers, self.context_numbers = numbers[: self.of_scores.size], numbers[self.of_scores.size :]

    @cached_property
    def _tiles_of_scores(self) -> int:
        return -(-self.tiling.keys // self.tiling.score_keys)

    def _points(self, view: MatmulView, tiling: Tiling, step: Int64, n: Int64, k: Int64) -> Points:
        """A point for each of `step`, with its tile indices along n and k."""
        block = self.block_of[step]
        batch, m = np.divmod(block, self.blocks_of_batch)
        index = {"batch": batch, "m": m, "n": n, "k": k}

        def deal(output: Int64, size: dict[str, Int64]) -> Int64:
            dealt = np.empty(int(output.max()) + 1, np.int64)
            dealt[output] = block % self.arrays
            return dealt

        return points_at(view, tiling, index, deal)

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def _scores(self) -> MatmulTasks:
        work = self._scores_work()
        step, none = self.of_scores, np.zeros_like(self.of_scores)
        column = np.arange(step.size) % self._tiles_of_scores if self.tiling.form != ONLINE else self.key_of[step]
        points = self._points(work.view, self.tiling.scores(work.view), step, column, none)
        further = range(2, 2 + len(work.further))
        return MatmulTasks(
            self.machine, work, points, self.ports, self.block, inputs=(0, 1, *further), numbers=self.score_numbers,
            parts=(_SCORES, _SOFTMAX), sum_slots=self._few(self.tiling.slots, points),
        )  # fmt: skip

    def _scores_work(self) -> MatmulWork:
        if self.tiling.form == ONLINE and self.work.online is not None:
            return self.work.online[0]
        return self.work.two_pass if self.tiling.form != SPILLED and self.work.two_pass else self.work.scores

    def _context(self) -> MatmulTasks:
        online = self.work.online[2] if self.tiling.form == ONLINE and self.work.online else None
        work = online or self.work.context
        steps = np.arange(self.block_of.size)
        points = self._points(work.view, self.tiling.context(work.view), steps, np.zeros_like(steps), self.key_of)
        last = len(self.ports.inputs) - 1
        return MatmulTasks(
            self.machine, work, points, self.ports, self.block, inputs=(MADE_HERE, last),
            numbers=self.context_numbers, parts=(_CONTEXT, _SOFTMAX),
            sum_slots=self._few(self.tiling.context_slots, points),
        )  # fmt: skip

    def _few(self, slots: int, points: Points) -> int:
        """Accumulator slots of each array, no more than it has outputs."""
        return min(slots, -(-points.first_point.size // self.arrays))

    def _softmax(self) -> tuple[list[Int64], UnitTimes]:
        """Positions [T] of each pass, and the last one's times."""
        if self.tiling.form != SPILLED:
            if self.scores.epilogue_times is None:
                raise InternalError("scores in the accumulator have the softmax as their epilogue")
            return self.scores.epilogue, self.scores.epilogue_times
        first = self.scores.numbers.reshape(-1, self._tiles_of_scores)
        key, rows = first[:, -1] * PHASES + EPILOGUE_PHASE, self.scores.points.tm[:: self._tiles_of_scores]
        emitted, times = emit_passes(
            self.machine, self.block, self.work.softmax.passes, (rows, self.tiling.keys), key, tile=self._labels,
            part=_SOFTMAX,
        )  # fmt: skip
        for drain in self._drains.T:
            self.block.edge(emitted[0], drain, DONE)
        return emitted, times

    @property
    def _drains(self) -> Int64:
        """[T, tiles of scores] what leaves a step's scores in the scratchpad."""
        return self.scores.drain.reshape(-1, self._tiles_of_scores)

    @cached_property
    def _labels(self) -> NDArray[np.int32]:
        """[T, 4] batch and row block of each step."""
        batch, m = np.divmod(self.block_of, self.blocks_of_batch)
        return np.stack([batch, m, self.key_of, np.full_like(m, -1)], axis=1).astype(np.int32)

    def _compute_at(self) -> Int64:
        """Positions of the streams by the numbers of their points."""
        found = np.empty(self.scores.numbers.size + self.context.numbers.size, np.int64)
        for each in (self.scores, self.context):
            found[each.numbers] = each.stream
        return found

    # ---- between scores, softmax and context -------------------------------------------------------------------------

    def _connect_steps(self) -> list[Slots]:
        """What a step leaves for its next task, and the slots that it lies in."""
        reader = self.context.weights if self.context.stationary == "a" else self.context.stream
        self.block.edge(reader, self.passes[-1], DONE)
        if self.tiling.form == ONLINE:
            self._scale_sums()
        rings = [self._probabilities(), *([self._spilled_scores()] if self.tiling.form == SPILLED else [])]
        for ring in rings:
            ring.connect(self.block)
        return rings

    def _probabilities(self) -> Slots:
        """What the softmax leaves for the context."""
        width = sum(self.work.softmax.out_bytes)
        size = int(slot_bytes(self.context.candidate, self.context.across, "a", width))
        writers, unit = self.passes[0], self.pass_times.unit
        count = min(self.tiling.slots * self.arrays, writers.size)
        return Slots(
            "softmax", count, size, writers, np.full(writers.size, unit), self.context.stream,
            self.context.units("stream"),
        )  # fmt: skip

    def _spilled_scores(self) -> Slots:
        """What the drains leave for the softmax."""
        size = self.tiling.rows * self.tiling.keys * sum(self.work.scores.out_bytes)
        writers, units = self.scores.drain, self.scores.units("drain")
        if self.scores.array.dataflow == "os":  # the stream takes the slot, so that no drain waits
            writers, units = self.scores.stream, self.scores.units("stream")
        first = slice(None, None, self._tiles_of_scores)
        reader = self.passes[-1]
        count = min(2 * self.arrays, reader.size)  # a drain fills one while passes read the other
        unit = np.full(reader.size, self.pass_times.unit)
        return Slots("scores", count, size, writers[first], units[first], reader, unit)

    def _scale_sums(self) -> None:
        """Online: before a step adds to the context's sums of its block, these are scaled to the new maximum. In os the
        stream waits, so that no drain does: its results would be in the way of the next stream's."""
        if self.work.online is None:
            raise InternalError("the online form has passes of its own")
        at = np.flatnonzero(self.key_of > 0)
        if not at.size:
            return
        before = self._step_before[at]
        tasks, step = self.context, self.work.online[1]
        rows, columns = tasks.points.tm[at], tasks.points.tn[at]
        times = unit_times(self.machine, step, rows * columns, 1)
        positions = self.block.add(
            times.kind, times.unit, self._after(before, at), tile=self._labels[at], part=_SOFTMAX,
            accumulator_reads=rows * columns, accumulator_writes=rows * columns, **times.columns,
        )  # fmt: skip
        adds = tasks.drain if tasks.array.dataflow == "os" else tasks.stream
        self.block.edge(positions, adds[before], DONE)
        self.block.edge(positions, self.passes[-1][at], DONE)
        self.block.edge(tasks.stream[at], positions, DONE)

    def _after(self, before: Int64, at: Int64) -> Int64:
        """Keys right after the context of steps `before` and the softmax of steps `at`: as early as can be, since the
        unit does what comes behind later."""
        known = np.maximum(self.context.numbers[before], self.scores.numbers[at])
        return known * PHASES + EPILOGUE_PHASE + len(self.passes)

    @property
    def _step_before(self) -> Int64:
        """[T] the step before on the same block."""
        order = np.lexsort((self.key_of, self.block_of))
        before = np.full(order.size, -1, np.int64)
        before[order[1:]] = order[:-1]
        return before

    def _scratch(self) -> list[Scratch]:
        if self.tiling.form != SPILLED:
            return self.scores.scratch()
        kept = self.work.softmax.scratch_bytes * self.tiling.rows * self.tiling.keys
        return [Scratch(kept, int(self.passes[0][0]), int(self.passes[-1][-1]), self.pass_times.unit)] if kept else []

    def _spilled_feeds(self) -> list[Feed]:
        """What the softmax reads beside the scores, where its passes are no epilogue of the scores."""
        if self.tiling.form != SPILLED:
            return []
        items = self.work.softmax.inputs[1:]
        view, rows = self.work.scores.view, self.scores.points.tm[:: self._tiles_of_scores]
        batch, m = np.divmod(self.block_of, self.blocks_of_batch)
        begin = (batch * view.m + m * self.tiling.rows) * view.n
        tiles = begin, rows * view.n, self.tiling.rows * view.n
        common = {
            "labels": self._labels, "points": self.scores.numbers[self._tiles_of_scores - 1 :: self._tiles_of_scores],
            "part": _SOFTMAX, "reader": self.passes[0], "last_reader": self.passes[-1],
            "lane": np.full(rows.size, self.pass_times.unit),
        }  # fmt: skip
        capacity = self.machine.scratchpad_bytes
        return further_feeds(
            self.ports, range(2, 2 + len(items)), items, self.work.softmax.shape, tiles, capacity, common
        )
