"""Candidates for a matmul's mapping: how often each fetches its operands, and the buffers that it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import ReadAcross
from accelsim.compile.work import MatmulWork
from accelsim.hardware.dram.system import DramSystem
from accelsim.hardware.systolic import Dataflow
from accelsim.trace.matmul import Layout

Int64 = NDArray[np.int64]

DEPTH = (2, 2)  # slots of a and of b for each reader, where nobody asks for another number
_MOST_ACCUMULATOR_SLOTS = 8  # of an array, beyond what its unfinished sums need
NAMES = {"a": ("m", "k"), "b": ("k", "n")}


@dataclass(frozen=True)
class Tiling:
    """A matmul's mapping: tile sizes, loop order outer to inner (batch always outermost), operands held whole.

    dataflow: None for that of the matmul's array. depth: tiles of a and of b that wait in slots for each reader: with
    one, loading and computing take turns.
    """

    tm: int
    tn: int
    tk: int
    order: tuple[str, ...]
    resident: frozenset[str] = frozenset()
    dataflow: Dataflow | None = None
    depth: tuple[int, int] = DEPTH


@dataclass(frozen=True)
class DramRuns:
    """How loads and stores are estimated: by the runs of bytes that tiles are made of, on a DRAM of commands.

    system: None where bytes over bandwidth are all that the memory knows. Queues are those of each direction.
    """

    system: DramSystem | None
    load_queues: int = 1
    store_queues: int = 1


@dataclass(frozen=True)
class MatmulCosts:
    """Machine numbers for the estimate. `*_on_chip` operands need no loads.

    staged_bytes and stored_bytes: of an element of the result, through a staging slot and to DRAM; scratch_bytes: of an
    element of what an epilogue's passes keep between them; kept_bytes: of operands kept whole; column_bytes: of a bias
    for each column of a tile. Rates are bytes a cycle, None for unlimited; latency and issue are cycles of one load;
    `epilogue_cycles` are those of the whole result on the unit that computes it. Shares are bytes a cycle of the
    scratchpad for one array's streams and weights; `across` are the operands whose reads meet in its banks, `packed`
    those that lie in DRAM tile after tile, `level2` those that come from the second level, at `level2_rate`. runs: None
    for bytes over bandwidth, short runs as whole bursts.
    epilogue_counts: (counter, how often) of the epilogue, for its energy.
    """

    scratchpad_bytes: int
    accumulator_bytes: int
    accumulator_width: int
    arrays: int
    a_on_chip: bool
    b_on_chip: bool
    staged_bytes: int
    stored_bytes: int
    kept_bytes: int
    load_rate: Fraction | None
    store_rate: Fraction | None
    latency: int
    issue: int
    epilogue_cycles: int
    stream_share: int | None
    weights_share: int | None
    scratch_bytes: int = 0
    column_bytes: int = 0
    across: tuple[ReadAcross, ...] = ()
    packed: frozenset[str] = frozenset()
    level2: frozenset[str] = frozenset()
    level2_rate: Fraction | None = None
    runs: DramRuns | None = None
    epilogue_counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Candidates:
    """Tile sizes and depths tried with one loop order and residency: they broadcast together to [candidates...]."""

    work: MatmulWork
    tm: Int64
    tn: Int64
    tk: Int64
    order: tuple[str, ...]
    resident: frozenset[str]
    arrays: int
    depth_a: Int64 | int = DEPTH[0]
    depth_b: Int64 | int = DEPTH[1]

    def at_depth(self, a: Int64 | int, b: Int64 | int) -> Candidates:
        """The same candidates at other depths; nothing that is kept of them depends on depth."""
        other = replace(self, depth_a=a, depth_b=b)
        other.__dict__.update({name: value for name, value in self.__dict__.items() if not name.startswith("depth")})
        return other

    @cached_property
    def loops(self) -> dict[str, Int64]:
        """Tiles along m, n and k."""
        view = self.work.view
        return {"m": -(-view.m // self.tm), "n": -(-view.n // self.tn), "k": -(-view.k // self.tk)}

    @cached_property
    def outputs(self) -> Int64:
        """Output tiles of all batches."""
        return self.loops["m"] * self.loops["n"] * self.work.view.batch

    def tile(self, operand: str) -> Int64:
        """Elements of a tile of a or b."""
        return (self.tm if operand == "a" else self.tn) * self.tk

    def batches(self, operand: str) -> int:
        """Distinct batches of the operand: 1 where all share it."""
        view = self.work.view
        layout = view.a if operand == "a" else view.b
        return view.batch if layout.batch_stride else 1

    def tiles(self, operand: str) -> Int64:
        """Tiles of one batch of the operand."""
        first, second = NAMES[operand]
        return self.loops[first] * self.loops[second]

    def fetches(self, operand: str) -> Int64:
        """Tiles of an operand that are fetched in all."""
        return self._fetches_a if operand == "a" else self._fetches_b

    @cached_property
    def _fetches_a(self) -> Int64:
        return self._fetches("a")

    @cached_property
    def _fetches_b(self) -> Int64:
        return self._fetches("b")

    def _fetches(self, operand: str) -> Int64:
        """Tiles fetched in all: once each where held whole; else again for each trip of the loop that does not index
        the operand, where that runs outside a loop (of more than one trip) that does."""
        tiles = self.tiles(operand)
        if operand in self.resident:
            return tiles * self.batches(operand)
        (other,) = set("mnk") - set(NAMES[operand])
        changes = np.ones_like(tiles)
        for name in self.order[self.order.index(other) + 1 :]:
            changes = np.maximum(changes, self.loops[name])
        again = np.where(changes > 1, self.loops[other], 1)
        batches = np.where(tiles * again > 1, self.work.view.batch, self.batches(operand))
        return tiles * again * batches

    def slots(self, operand: str) -> Int64:
        """Tiles of an operand that the scratchpad holds at once: `depth` for each array that reads one of its own, or
        as many whole operands."""
        tiles, batch = self.tiles(operand), self.batches(operand)
        depth = self.depth_a if operand == "a" else self.depth_b
        held = tiles * np.minimum(batch, depth) if operand in self.resident else depth * self.readers(operand)
        return np.minimum(held, tiles * batch)

    def readers(self, operand: str) -> Int64:
        """Different tiles of the operand that the arrays, side by side on as many outputs, read at once: one each where
        the innermost output loop indexes the operand, else one for each of its sweeps that the outputs spread over."""
        trips = self.loops[self.innermost]
        if self.innermost in NAMES[operand]:
            return np.full_like(trips, self.arrays)
        sweeps = np.where(self.arrays % trips == 0, self.arrays // trips, (self.arrays + trips - 2) // trips + 1)
        return np.where(trips % self.arrays == 0, 1, sweeps)

    @property
    def innermost(self) -> str:
        """The inner one of the loops over m and n."""
        return next(name for name in reversed(self.order) if name != "k")

    @cached_property
    def rounds(self) -> Int64:
        """Turns in which the arrays compute all outputs: with a loop inside k they begin anew with each sweep of it."""
        trips = self.loops[self.innermost]
        if self.order[-1] == "k":
            return -(-self.outputs // self.arrays)
        return np.where(
            self.loops["k"] > 1, self.outputs // trips * -(-trips // self.arrays), -(-self.outputs // self.arrays)
        )

    @cached_property
    def live_outputs(self) -> Int64:
        """Output tiles whose sums are unfinished at once: those of the loops inside the k loop, if k has trips."""
        live = np.ones_like(self.outputs)
        for name in self.order[self.order.index("k") + 1 :]:
            live = live * self.loops[name]
        return np.where(self.loops["k"] > 1, live, 1)


def accumulator_slots(c: Candidates) -> Int64:
    """Output tiles of accumulator that each array needs: two sets of the live ones, or all there are."""
    per_array = -(-c.live_outputs // c.arrays)
    return np.minimum(2 * per_array, np.maximum(per_array, -(-c.outputs // c.arrays)))


def roomy_accumulator_slots(c: Candidates, tile_bytes: int, capacity_bytes: int) -> int:
    """Slots that each array gets: as many as it needs, and more where they fit half of the accumulator.

    A slot is held from the start of its stream until its drain has left, which is longer than a tile's turn on the
    array where tiles are small; the other half is for the next operator's first tiles.
    """
    needed, all_of_them = int(accumulator_slots(c)), int(-(-c.outputs // c.arrays))
    room = capacity_bytes // 2 // (c.arrays * tile_bytes)
    return max(needed, min(all_of_them, room, _MOST_ACCUMULATOR_SLOTS))


def buffer_bytes(c: Candidates, costs: MatmulCosts) -> Int64:
    """Scratchpad bytes that the tiles of a and b, the staged output, a bias and what is kept whole take."""
    tile, staged = c.tm * c.tn, np.minimum(2 * c.arrays, c.outputs)
    total: Int64 = tile * (staged * costs.staged_bytes + costs.scratch_bytes) + costs.kept_bytes
    if costs.column_bytes:
        total = total + bias_slots(c) * c.tn * costs.column_bytes
    for operand, on_chip, width in operands(c.work, costs):
        if not on_chip:
            total = total + c.slots(operand) * slot_bytes(c, costs.across, operand, width)
    return total


def bias_slots(c: Candidates) -> Int64:
    """Parts of a bias, one for the columns of a tile, that are held at once."""
    return np.minimum(2 * c.arrays, c.loops["n"])


def slot_bytes(c: Candidates, across: tuple[ReadAcross, ...], operand: str, width: int) -> Int64:
    """Bytes of a slot for tiles of a or b, of elements of `width` bytes, with the padding of its rows."""
    for read in across:
        if read.operand == operand:
            return read.slot_bytes({"m": c.tm, "n": c.tn, "k": c.tk})
    return c.tile(operand) * width


def sum_bytes(c: Candidates, costs: MatmulCosts) -> Int64:
    """Accumulator bytes that the candidate needs. An os result of one K tile without an epilogue goes past it."""
    sums = accumulator_slots(c) * c.arrays * c.tm * c.tn * costs.accumulator_width
    if c.work.array.dataflow == "os" and not c.work.epilogue:
        return np.where(c.loops["k"] > 1, sums, 0)
    return sums


def fits(c: Candidates, costs: MatmulCosts) -> NDArray[np.bool_]:
    """True where scratchpad and accumulator hold the candidate's tiles, of whole rows where a unit wants them."""
    rows = c.tn >= c.work.view.n if c.work.whole_rows else True
    held = (buffer_bytes(c, costs) <= costs.scratchpad_bytes) & (sum_bytes(c, costs) <= costs.accumulator_bytes)
    return held & rows


def operands(work: MatmulWork, costs: MatmulCosts) -> tuple[tuple[str, bool, int], tuple[str, bool, int]]:
    """(operand, on chip, bytes of an element) of a and b."""
    return ("a", costs.a_on_chip, work.a_bytes), ("b", costs.b_on_chip, work.b_bytes)


def runs_of(layout: Layout, rows: Int64, columns: Int64, width: int, *, packed: bool = False) -> tuple[Int64, int]:
    """Bytes of a contiguous run of blocks of rows x columns elements, and the pitch of runs in bytes."""
    whole: Int64 = rows * columns * width
    if packed:
        return whole, 0
    along, stride = (
        (columns, layout.row_stride)
        if layout.column_stride == 1
        else (rows, layout.column_stride)
        if layout.row_stride == 1
        else (np.ones_like(whole), min(layout.row_stride, layout.column_stride))
    )
    return np.where(along == stride, whole, along * width), stride * width


def single_candidate(work: MatmulWork, tiling: Tiling, arrays: int) -> Candidates:
    """One tiling in the form that the functions above take."""
    tm, tn, tk = (np.array(getattr(tiling, name), np.int64) for name in ("tm", "tn", "tk"))
    return Candidates(work, tm, tn, tk, tiling.order, tiling.resident, arrays, *tiling.depth)


def with_dataflow(work: MatmulWork, dataflow: Dataflow | None) -> MatmulWork:
    """The same matmul on the array in another dataflow."""
    if dataflow in (None, work.array.dataflow):
        return work
    return replace(work, array=replace(work.array, dataflow=dataflow))
