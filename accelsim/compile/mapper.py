"""The mapper: tile sizes, loop order and operand residency of each matmul.

A heuristic over some thousand candidates at once: the cycles of each are estimated by the closed forms plus bytes over
bandwidth. The least time wins; times in one step of a scale of about 1 % count as equal, and then the least DRAM
traffic wins, the fewest tiles down to eight, the smallest buffers. Each term of the estimate falls, or stays, as
capacity, bandwidth, lanes or rate grow, and the candidates do not depend on them, so the step of the chosen one never
gets worse with a better machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import ReadAcross, summed
from accelsim.compile.plan import MatmulWork
from accelsim.errors import InputError
from accelsim.hardware import systolic

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]  # estimated cycles: products of counts would leave int64

ORDERS = (("m", "n", "k"), ("n", "m", "k"), ("m", "k", "n"), ("n", "k", "m"))  # searched; outer to inner
_TILES_WANTED = 8  # fewer are no better: neighbours overlap with an operator tile by tile
_STEPS_PER_DOUBLING = 64  # of the scale on which estimated times are compared: 1.1 %
_MOST_ACCUMULATOR_SLOTS = 8  # of an array, beyond what its unfinished sums need
_BURST_BYTES = 64  # a shorter run of a tile's row still moves a whole DRAM burst
_NAMES = {"a": ("m", "k"), "b": ("k", "n")}


@dataclass(frozen=True)
class Tiling:
    """A matmul's mapping: tile sizes, loop order outer to inner (batch always outermost), operands held whole."""

    tm: int
    tn: int
    tk: int
    order: tuple[str, ...]
    resident: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MatmulCosts:
    """Machine numbers for the estimate. `*_on_chip` operands need no loads.

    staged_bytes and stored_bytes: of an element of the result, through a staging slot and to DRAM; scratch_bytes: of an
    element of what an epilogue's passes keep between them. Rates are bytes a cycle, None for unlimited; latency and
    issue are cycles of one load; `epilogue_cycles` are those of the whole result on the unit that computes it. Shares
    are bytes a cycle of the scratchpad for one array's streams and weights; `across`
    are the operands whose reads meet in its banks, `packed` those that lie in DRAM tile after tile.
    """

    scratchpad_bytes: int
    accumulator_bytes: int
    accumulator_width: int
    arrays: int
    a_on_chip: bool
    b_on_chip: bool
    staged_bytes: int
    stored_bytes: int
    bias_bytes: int
    load_rate: Fraction | None
    store_rate: Fraction | None
    latency: int
    issue: int
    epilogue_cycles: int
    stream_share: int | None
    weights_share: int | None
    scratch_bytes: int = 0
    across: tuple[ReadAcross, ...] = ()
    packed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Candidates:
    """Tile sizes tried with one loop order and residency: tm, tn, tk broadcast together to [candidates...]."""

    work: MatmulWork
    tm: Int64
    tn: Int64
    tk: Int64
    order: tuple[str, ...]
    resident: frozenset[str]
    arrays: int

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

    def burst_padded(self, operand: str, size: Int64, width: int, packed: frozenset[str]) -> Int64:
        """`size` bytes of an operand's tiles with each contiguous run of a tile rounded up to whole bursts."""
        if operand in packed:
            return size
        layout, along = (self.work.view.a, self.tm) if operand == "a" else (self.work.view.b, self.tk)
        across = self.tk if operand == "a" else self.tn
        run = (across if layout.column_stride == 1 else along if layout.row_stride == 1 else np.int64(1)) * width
        return size * (-(-run // _BURST_BYTES) * _BURST_BYTES) // run

    def batches(self, operand: str) -> int:
        """Distinct batches of the operand: 1 where all share it."""
        view = self.work.view
        layout = view.a if operand == "a" else view.b
        return view.batch if layout.batch_stride else 1

    def tiles(self, operand: str) -> Int64:
        """Tiles of one batch of the operand."""
        first, second = _NAMES[operand]
        return self.loops[first] * self.loops[second]

    def fetches(self, operand: str) -> Int64:
        """Tiles fetched in all: once each where held whole; else again for each trip of the loop that does not index
        the operand, where that runs outside a loop (of more than one trip) that does."""
        tiles = self.tiles(operand)
        if operand in self.resident:
            return tiles * self.batches(operand)
        (other,) = set("mnk") - set(_NAMES[operand])
        changes = np.ones_like(tiles)
        for name in self.order[self.order.index(other) + 1 :]:
            changes = np.maximum(changes, self.loops[name])
        again = np.where(changes > 1, self.loops[other], 1)
        batches = np.where(tiles * again > 1, self.work.view.batch, self.batches(operand))
        return tiles * again * batches

    def slots(self, operand: str) -> Int64:
        """Tiles of an operand that the scratchpad holds at once: two for each array that reads one of its own."""
        tiles, batch = self.tiles(operand), self.batches(operand)
        held = tiles * min(batch, 2) if operand in self.resident else 2 * self.readers(operand)
        return np.minimum(held, tiles * batch)

    def readers(self, operand: str) -> Int64:
        """Different tiles of the operand that the arrays, side by side on as many outputs, read at once: one each where
        the innermost output loop indexes the operand, else one for each of its sweeps that the outputs spread over."""
        trips = self.loops[self.innermost]
        if self.innermost in _NAMES[operand]:
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
    """Scratchpad bytes that the tiles of a and b, the staged output and a bias kept whole take."""
    tile = c.tm * c.tn
    total: Int64 = (
        tile * np.minimum(2 * c.arrays, c.outputs) * costs.staged_bytes + tile * costs.scratch_bytes + costs.bias_bytes
    )
    for operand, on_chip, width in _operands(c, costs):
        if not on_chip:
            total = total + c.slots(operand) * slot_bytes(c, costs.across, operand, width)
    return total


def slot_bytes(c: Candidates, across: tuple[ReadAcross, ...], operand: str, width: int) -> Int64:
    """Bytes of a slot for tiles of a or b, of elements of `width` bytes, with the padding of its rows."""
    for read in across:
        if read.operand == operand:
            return read.slot_bytes({"m": c.tm, "n": c.tn, "k": c.tk})
    return c.tile(operand) * width


def fits(c: Candidates, costs: MatmulCosts) -> NDArray[np.bool_]:
    """True where scratchpad and accumulator hold the candidate's tiles, of whole rows where a unit wants them. An os
    result of one K tile without an epilogue goes past the accumulator."""
    sums = accumulator_slots(c) * c.arrays * c.tm * c.tn * costs.accumulator_width
    if c.work.array.dataflow == "os" and not c.work.epilogue:
        sums = np.where(c.loops["k"] > 1, sums, 0)
    rows = c.tn >= c.work.view.n if c.work.whole_rows else True
    return (buffer_bytes(c, costs) <= costs.scratchpad_bytes) & (sums <= costs.accumulator_bytes) & rows


def traffic_bytes(c: Candidates, costs: MatmulCosts) -> tuple[Int64, int]:
    """Bytes loaded (each candidate), short runs counted as whole bursts, and bytes stored (all alike)."""
    view = c.work.view
    loads = np.zeros_like(c.outputs)
    for operand, on_chip, width in _operands(c, costs):
        if not on_chip:
            size = (view.m if operand == "a" else view.n) * view.k * width
            loads = loads + c.burst_padded(operand, c.fetches(operand) // c.tiles(operand) * size, width, costs.packed)
    return loads, view.batch * view.m * view.n * costs.stored_bytes


def estimate_cycles(c: Candidates, costs: MatmulCosts) -> Float64:
    """The busiest of array, drain, epilogue, DRAM and the turns of the slots, plus the first tiles' loads and the
    last one's way out."""
    p = c.work.array
    loads, stores = traffic_bytes(c, costs)
    streamed = _array_cycles(c, costs)
    compute = streamed * c.rounds / c.outputs  # outputs are dealt whole
    memory = _cycles(loads, costs.load_rate) + _cycles(np.full_like(loads, stores), costs.store_rate)
    busiest = np.maximum(np.maximum(compute, memory), np.maximum(_drain_cycles(c), costs.epilogue_cycles))
    busiest = np.maximum(busiest, _slot_turns(c, costs, streamed))
    start = np.full(loads.shape, 0.0 if costs.a_on_chip and costs.b_on_chip else costs.latency)
    for operand, on_chip, width in _operands(c, costs):
        start = start + (0 if on_chip else _cycles(c.tile(operand) * width, costs.load_rate))
    end = float((p.rows + p.cols) / p.rate) + costs.epilogue_cycles / c.outputs
    total: Float64 = busiest + start + end + _cycles(c.tm * c.tn * costs.stored_bytes, costs.store_rate)
    return total


def _operands(c: Candidates, costs: MatmulCosts) -> tuple[tuple[str, bool, int], tuple[str, bool, int]]:
    """(operand, on chip, bytes of an element) of a and b."""
    return ("a", costs.a_on_chip, c.work.a_bytes), ("b", costs.b_on_chip, c.work.b_bytes)


def _slot_turns(c: Candidates, costs: MatmulCosts, streamed: Float64) -> Float64:
    """Cycles that the slots' turns take: a slot is loaded (issue, latency, and the transfers for all arrays that work
    side by side) and computed on in turn, so f fetches through s slots take at least f / s of those."""
    result = np.zeros(c.outputs.shape)
    for operand, on_chip, width in _operands(c, costs):
        if on_chip:
            continue
        readers, fetches, slots = c.readers(operand), c.fetches(operand), c.slots(operand)
        size = c.burst_padded(operand, c.tile(operand) * width, width, costs.packed)
        load = readers * _cycles(size, costs.load_rate) + costs.latency + costs.issue
        rounds = -(-c.outputs // readers) * readers / c.outputs  # a last round of fewer outputs takes as long
        turns = (fetches * load + streamed * readers / c.arrays) * rounds / slots
        result = np.maximum(result, np.where(fetches > slots, turns, 0))
    return result


def _array_cycles(c: Candidates, costs: MatmulCosts) -> Float64:
    """Cycles that the streams of all tiles occupy one array: folds times period, separable in m, n and k; or that the
    banks take for reads across rows."""
    view, p = c.work.view, c.work.array
    sizes = {"m": (view.m, c.tm), "n": (view.n, c.tn), "k": (view.k, c.tk)}
    axis, rows, cols = {"ws": ("m", "k", "n"), "is": ("n", "k", "m"), "os": ("k", "m", "n")}[p.dataflow]
    row_folds = summed(*sizes[rows], lambda size: -(-size // p.rows))
    col_folds = summed(*sizes[cols], lambda size: -(-size // p.cols))
    height, width = min(p.rows, sizes[rows][0]), min(p.cols, sizes[cols][0])

    def period(size: Int64) -> Int64:
        tm, tk, tn = (size if axis == name else 1 for name in "mkn")
        steps = systolic.fold_period(p, tm, tk, tn)
        cycles = -(-steps * p.rate.denominator // p.rate.numerator)
        return np.maximum(cycles, _share_cycles(c.work, costs, size, height, width))

    folds = (view.batch * row_folds * col_folds).astype(np.float64)
    conflicts = (view.batch * read.matmul_cycles(sizes) for read in costs.across)
    return reduce(np.maximum, conflicts, folds * summed(*sizes[axis], period))


def _share_cycles(work: MatmulWork, costs: MatmulCosts, steps: Int64, height: int, width: int) -> Int64:
    """Cycles that a fold's operands take through the client's shares of the scratchpad's bandwidth."""
    a, b = work.a_bytes, work.b_bytes
    moving = {"ws": height * a, "is": height * b, "os": height * a + width * b}[work.array.dataflow]
    still = {"ws": height * width * b, "is": height * width * a, "os": 0}[work.array.dataflow]
    streamed = 0 if costs.stream_share is None else -(-steps * moving // costs.stream_share)
    shifted = 0 if costs.weights_share is None else -(-still // costs.weights_share)
    return np.maximum(streamed, shifted)


def _drain_cycles(c: Candidates) -> Float64:
    """Cycles that reading finished rows out of the accumulator takes one array: a row of a fold, however narrow, takes
    a PE step, and longer where the drain's rate is below its width."""
    view, p = c.work.view, c.work.array
    if not p.fold_overlap or p.dataflow == "os":
        return np.zeros(c.outputs.shape)
    rows, cols, tile = (view.m, view.n, c.tn) if p.dataflow == "ws" else (view.n, view.m, c.tm)
    step = float(1 / p.rate)
    rate = math.inf if p.drain_elements_per_cycle is None else float(p.drain_elements_per_cycle)

    def folds(size: Int64) -> Int64:
        return -(-size // p.cols)

    per_row = np.maximum(step, np.ceil(np.minimum(np.minimum(tile, cols), p.cols) / rate))
    total: Float64 = view.batch * rows * summed(cols, tile, folds) * per_row / c.arrays
    return total


def _cycles(size: Int64, rate: Fraction | None) -> Float64:
    return np.zeros(size.shape) if rate is None else size / float(rate)


def single_candidate(work: MatmulWork, tiling: Tiling, arrays: int) -> Candidates:
    """One tiling in the form that the functions above take."""
    tm, tn, tk = (np.array(getattr(tiling, name), np.int64) for name in ("tm", "tn", "tk"))
    return Candidates(work, tm, tn, tk, tiling.order, tiling.resident, arrays)


def candidates_of(work: MatmulWork, costs: MatmulCosts) -> Iterator[Candidates]:
    """All candidates for a matmul: products of tile sizes, orders and residencies; independent of capacities."""
    view, p = work.view, work.array
    units = {"ws": (1, p.cols, p.rows), "is": (p.cols, 1, p.rows), "os": (p.rows, p.cols, 1)}[p.dataflow]
    sizes = [_tile_sizes(size, unit) for size, unit in zip((view.m, view.n, view.k), units, strict=True)]
    tm, tn, tk = sizes[0][:, None, None], sizes[1][None, :, None], sizes[2][None, None, :]
    loaded = [operand for operand, on_chip in (("a", costs.a_on_chip), ("b", costs.b_on_chip)) if not on_chip]
    held = [frozenset[str](), *(frozenset({operand}) for operand in loaded)]
    for order in ORDERS:
        for resident in [*held, frozenset(loaded)] if len(loaded) > 1 else held:
            yield Candidates(work, tm, tn, tk, order, resident, costs.arrays)


def _tile_sizes(total: int, unit: int) -> Int64:
    """Sizes tried along a dimension: the whole, even cuts rounded up to the array, and powers of two."""
    even = [_round_up(-(-total // parts), unit) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)]
    powers = [2**power for power in range(total.bit_length())]
    return np.array(sorted({min(size, total) for size in (*even, *powers, total)}), np.int64)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def best_mapping(work: MatmulWork, costs: MatmulCosts, where: str) -> tuple[Tiling, int]:
    """The best candidate and its estimated cycles.

    Raises InputError, at `where`, when not even the smallest tile fits.
    """
    best: tuple[tuple[int, ...], Tiling] | None = None
    for c in candidates_of(work, costs):
        found = _best_of(c, costs)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    if best is None:
        raise _nothing_fits(work, costs, where)
    return best[1], best[0][-1]


def _best_of(c: Candidates, costs: MatmulCosts) -> tuple[tuple[int, ...], Tiling] | None:
    """Rank (time step, bytes loaded, tiles, buffer bytes, cycles) and Tiling of the best that fits."""
    feasible = fits(c, costs)
    if not feasible.any():
        return None
    cycles = estimate_cycles(c, costs)
    step = np.where(feasible, np.ceil(np.log2(cycles) * _STEPS_PER_DOUBLING), np.inf)
    tied = np.nonzero(step == step.min())
    tm, tn, tk = (np.broadcast_to(size, step.shape)[tied] for size in (c.tm, c.tn, c.tk))
    few = Candidates(c.work, tm, tn, tk, c.order, c.resident, c.arrays)
    tiles = np.maximum(few.loops["m"] * few.loops["n"] * few.loops["k"], _TILES_WANTED)
    ranks = [traffic_bytes(few, costs)[0], tiles, buffer_bytes(few, costs), cycles[tied]]
    first = int(np.lexsort(ranks[::-1])[0])
    tiling = Tiling(int(tm[first]), int(tn[first]), int(tk[first]), c.order, c.resident)
    return (int(step.min()), *(int(rank[first]) for rank in ranks)), tiling


def _nothing_fits(work: MatmulWork, costs: MatmulCosts, where: str) -> InputError:
    head = work.group.head
    return InputError(
        f"no tile of matmul {head.id} '{head.name}' fits {costs.scratchpad_bytes} bytes of free scratchpad "
        f"and {costs.accumulator_bytes} of accumulator",
        where=where,
        value=f"m={work.view.m}, n={work.view.n}, k={work.view.k}",
        remedy="enlarge scratchpad.capacity_kib or accumulator.capacity_kib",
    )
