"""The search over candidates: the heuristic choice, the best by estimate for an objective, and a diverse few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.candidates import (
    DEPTH,
    Candidates,
    MatmulCosts,
    Tiling,
    buffer_bytes,
    fits,
    operands,
    single_candidate,
    with_dataflow,
)
from accelsim.compile.energy_estimate import moved_pj
from accelsim.compile.estimate import Estimate, Tiles, estimate_cycles, traffic_bytes
from accelsim.compile.score import Prices
from accelsim.compile.work import MatmulWork
from accelsim.errors import InputError

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

ORDERS = (("m", "n", "k"), ("n", "m", "k"), ("m", "k", "n"), ("n", "k", "m"))  # searched; outer to inner
DEPTHS = (1, 2, 3, 4)  # searched, of a and of b
_DEPTH_PAIRS = np.array([(a, b) for a in DEPTHS for b in DEPTHS], np.int64).T  # [2, pairs]
ALL_BELOW = 16
_TILES_WANTED = 8  # fewer are no better: neighbours overlap with an operator tile by tile
HEURISTIC_STEPS = 64  # of a doubling, of the scale on which the heuristic compares times: 1.1 %
STEPS = 64  # of a doubling, of the scale on which estimates are compared: 1.1 %
ONE_STEP = 2 ** (1 / STEPS)
_ALWAYS_TRIED = 8  # of an order and residency that is looked at: they tell what can be reached


@dataclass(frozen=True)
class Choice:
    """A mapping with its estimate: cycles, energy (0 where nobody knows prices), and what it is ranked by."""

    tiling: Tiling
    cycles: float
    energy_pj: float
    rank: tuple[float, ...]

    @property
    def metric(self) -> float:
        """What the objective makes small."""
        return self.rank[-1]

    def as_good_as(self, other: Choice) -> bool:
        """True where metrics (to a step) and what neighbours are kept from are no worse."""
        return self.rank[:3] <= other.rank[:3]


@dataclass(frozen=True)
class Aim:
    """What is to be made small: time, energy or edp, at these prices for operands of these dtypes."""

    objective: str = "time"
    prices: Prices | None = None
    dtypes: tuple[str, str] = ("", "")

    def moved(self, c: Candidates, costs: MatmulCosts) -> Float64:
        """[candidates...] pJ whatever the time, and so at any depth; 0 without prices."""
        return np.zeros(c.outputs.shape) if self.prices is None else moved_pj(c, costs, self.prices, self.dtypes)

    def energy(self, moved: Float64, cycles: Float64) -> Float64:
        """[candidates...] pJ in so many cycles."""
        return moved if self.prices is None else moved + cycles * self.prices.static

    def metric(self, cycles: Float64, energy: Float64) -> Float64:
        """What is compared first."""
        return cycles if self.objective == "time" else energy if self.objective == "energy" else energy * cycles


def candidates_of(work: MatmulWork, costs: MatmulCosts, all_below: int = ALL_BELOW) -> Iterator[Candidates]:
    """All candidates for a matmul: products of tile sizes, orders and residencies; independent of capacities.

    all_below: dimensions up to this are cut in every size.
    """
    view, p = work.view, work.array
    units = {"ws": (1, p.cols, p.rows), "is": (p.cols, 1, p.rows), "os": (p.rows, p.cols, 1)}[p.dataflow]
    sizes = [_tile_sizes(size, unit, all_below) for size, unit in zip((view.m, view.n, view.k), units, strict=True)]
    tm, tn, tk = sizes[0][:, None, None], sizes[1][None, :, None], sizes[2][None, None, :]
    loaded = [operand for operand, on_chip in (("a", costs.a_on_chip), ("b", costs.b_on_chip)) if not on_chip]
    held = [frozenset[str](), *(frozenset({operand}) for operand in loaded)]
    for order in ORDERS:
        for resident in [*held, frozenset(loaded)] if len(loaded) > 1 else held:
            yield Candidates(work, tm, tn, tk, order, resident, costs.arrays)


def _tile_sizes(total: int, unit: int, all_below: int) -> Int64:
    """Sizes tried along a dimension: the whole, even cuts rounded up to the array, and powers of two; all of a small
    one."""
    if total <= all_below:
        return np.arange(1, total + 1, dtype=np.int64)
    even = [_round_up(-(-total // parts), unit) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)]
    powers = [2**power for power in range(total.bit_length())]
    return np.array(sorted({min(size, total) for size in (*even, *powers, total)}), np.int64)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


# ---- the heuristic ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """All candidates of a matmul in one dataflow, in blocks of one order and residency, and what their tiles take."""

    work: MatmulWork
    costs: MatmulCosts
    blocks: tuple[Candidates, ...]
    tiles: Tiles

    @classmethod
    def of(cls, work: MatmulWork, costs: MatmulCosts, all_below: int = ALL_BELOW) -> Space:
        """The candidates of a matmul; dimensions up to `all_below` are cut in every size."""
        blocks = tuple(candidates_of(work, costs, all_below))
        return cls(work, costs, blocks, Tiles(blocks[0], costs))


def heuristic_mapping(space: Space, where: str) -> tuple[Tiling, int]:
    """What a heuristic takes, and its estimated cycles: two slots for each reader, memory as bytes over bandwidth.

    The least time wins; times in one step of a scale of about 1 % count as equal, and then the least DRAM traffic wins,
    the fewest tiles down to eight, the smallest buffers. Small dimensions are cut as large ones are. Raises InputError,
    at `where`, when nothing fits.
    """
    view = space.work.view
    if min(view.m, view.n, view.k) <= ALL_BELOW:
        space = Space.of(space.work, space.costs, all_below=0)
    tiles = space.tiles.priced(replace(space.costs, runs=None, level2=frozenset()))
    found = [best for c in space.blocks if (best := _heuristic_of(c, tiles)) is not None]
    if not found:
        raise _nothing_fits(space, where)
    rank, tiling = min(found, key=lambda each: each[0])
    return tiling, rank[-1]


def _heuristic_of(c: Candidates, tiles: Tiles) -> tuple[tuple[int, ...], Tiling] | None:
    """Rank (time step, bytes loaded, tiles, buffer bytes, cycles) and Tiling of the best that fits."""
    feasible = fits(c, tiles.costs)
    if not feasible.any():
        return None
    cycles = Estimate(c, tiles).cycles
    step = np.where(feasible, np.ceil(np.log2(cycles) * HEURISTIC_STEPS), np.inf)
    tied = np.nonzero(step == step.min())
    few = _taken(c, tied, step.shape)
    ranks = [traffic_bytes(few, tiles.costs)[0], _tiles(few), buffer_bytes(few, tiles.costs), cycles[tied]]
    first = int(np.lexsort(ranks[::-1])[0])
    return (int(step.min()), *(int(rank[first]) for rank in ranks)), _tiling(few, first)


def _taken(c: Candidates, index: tuple[Int64, ...], shape: tuple[int, ...]) -> Candidates:
    """Only the candidates at `index` of their broadcast `shape`, as [n]."""
    tm, tn, tk = (np.broadcast_to(size, shape)[index] for size in (c.tm, c.tn, c.tk))
    return replace(c, tm=tm, tn=tn, tk=tk)


def _tiles(c: Candidates) -> Int64:
    tiles: Int64 = np.maximum(c.loops["m"] * c.loops["n"] * c.loops["k"], _TILES_WANTED)
    return tiles


def _hindrance(c: Candidates, costs: MatmulCosts) -> Int64:
    """Bytes that a mapping keeps neighbours in the run from: of loads that wait for a slot (the load queue goes on to
    the next operator after them), and of buffers beyond half of the room (where the next operator's are filled)."""
    total: Int64 = np.maximum(0, buffer_bytes(c, costs) - costs.scratchpad_bytes // 2)
    for operand, on_chip, width in operands(c.work, costs):
        if not on_chip:
            total = total + np.maximum(0, c.fetches(operand) - c.slots(operand)) * c.tile(operand) * width
    return total


def _tiling(c: Candidates, index: int, depth: tuple[int, int] = DEPTH) -> Tiling:
    return Tiling(
        int(c.tm[index]), int(c.tn[index]), int(c.tk[index]), c.order, c.resident, c.work.array.dataflow, depth
    )


def _nothing_fits(space: Space, where: str) -> InputError:
    work, costs = space.work, space.costs
    head = work.group.head
    return InputError(
        f"no tile of matmul {head.id} '{head.name}' fits {costs.scratchpad_bytes} bytes of free scratchpad "
        f"and {costs.accumulator_bytes} of accumulator",
        where=where,
        value=f"m={work.view.m}, n={work.view.n}, k={work.view.k}",
        remedy="enlarge scratchpad.capacity_kib or accumulator.capacity_kib",
    )


# ---- the best by estimate --------------------------------------------------------------------------------------------


def ranked_mappings(spaces: Sequence[Space], aim: Aim, where: str, few: int = 1) -> list[Choice]:
    """The best by estimate, then the best of some other dataflows, orders and residencies, `few` in all if there are.

    spaces: of each dataflow that the array may take. What an objective makes small is
    compared in steps of about 0.5 %; then the other metric decides, the fewest tiles down to eight, the smallest
    buffers. Raises InputError, at `where`, when not even the smallest tile fits.

    Depth changes nothing but the turns of the slots, and those never get longer with more of them. So what a candidate
    takes without any turns is a bound, and only those whose bound is not above what is reached are tried at all depths.
    """
    blocks = sorted(_blocks(spaces, aim), key=lambda block: block.bound)
    if not blocks:
        raise _nothing_fits(spaces[0], where)
    each = -(-few // len(blocks))
    found: list[Choice] = []
    enough = np.inf
    for block in blocks:
        if block.bound > enough * ONE_STEP and len(found) >= few:
            break
        found += block.best(enough, each)
        enough = min(enough, *(choice.metric for choice in found))
    return sorted(found, key=lambda choice: choice.rank)


def _blocks(spaces: Sequence[Space], aim: Aim) -> Iterator[_Block]:
    """The blocks of candidates some of which fit."""
    for space in spaces:
        for c in space.blocks:
            feasible = fits(c.at_depth(DEPTHS[0], DEPTHS[0]), space.costs)
            if feasible.any():
                yield _Block(c, feasible, space.tiles, aim)


class _Block:
    """Candidates of one dataflow, order and residency; `bound` is what none of those that fit goes below."""

    def __init__(self, c: Candidates, feasible: NDArray[np.bool_], tiles: Tiles, aim: Aim) -> None:
        self.c = c
        self.tiles = tiles
        self.aim = aim
        cycles = np.broadcast_to(Estimate(c, tiles).least_cycles, feasible.shape)
        metric = (
            cycles if aim.objective == "time" else aim.metric(cycles, aim.energy(aim.moved(c, tiles.costs), cycles))
        )
        self.least = np.where(feasible, metric, np.inf)
        self.bound = float(self.least.min())

    def best(self, enough: float, few: int) -> list[Choice]:
        """The best `few` tiles, each at its best depth, among those whose bound is not above `enough`; among the best
        of the block where those are fewer."""
        limit = enough * ONE_STEP
        if few > 1 or not self.bound <= limit < np.inf:
            some = min(max(few, _ALWAYS_TRIED), self.least.size) - 1
            nearest = np.argpartition(self.least, some, axis=None)[: some + 1]
            first = self._at_best_depth(nearest, few)
            limit = min(limit, first[0].metric * ONE_STEP)
            if self.bound > limit or np.count_nonzero(self.least <= limit) <= nearest.size:
                return first
        return self._at_best_depth(np.flatnonzero(self.least <= limit), few)

    def _at_best_depth(self, chosen: Int64, few: int) -> list[Choice]:
        """The best few of the candidates at flat indices `chosen`, each at the best of all depths."""
        shape, costs = self.least.shape, self.tiles.costs
        index = np.unravel_index(chosen[np.isfinite(self.least.ravel()[chosen])], shape)
        tm, tn, tk = (np.broadcast_to(size, shape)[index][:, None] for size in (self.c.tm, self.c.tn, self.c.tk))
        deep = replace(self.c, tm=tm, tn=tn, tk=tk, depth_a=_DEPTH_PAIRS[0], depth_b=_DEPTH_PAIRS[1])
        feasible = np.broadcast_to(fits(deep, costs), (index[0].size, _DEPTH_PAIRS.shape[1]))
        cycles = np.broadcast_to(Estimate(deep, self.tiles.at(deep, index, shape)).cycles, feasible.shape)
        return self._first(deep, feasible, cycles, few)

    def _first(self, deep: Candidates, feasible: NDArray[np.bool_], cycles: Float64, few: int) -> list[Choice]:
        moved = self.aim.moved(deep, self.tiles.costs)
        energy = np.broadcast_to(self.aim.energy(moved, cycles), cycles.shape)
        keys = _keys(deep, self.tiles.costs, self.aim, cycles, moved)
        keys = [np.broadcast_to(key, cycles.shape) for key in keys]
        tiles, depths = np.nonzero(feasible)
        order = np.lexsort([key[feasible] for key in reversed(keys)])
        firsts = np.sort(np.unique(tiles[order], return_index=True)[1])[:few] if few > 1 else (0,)
        flat = replace(deep, tm=deep.tm[:, 0], tn=deep.tn[:, 0], tk=deep.tk[:, 0])
        found = []
        for at in (order[first] for first in firsts):
            row, column = tiles[at], depths[at]
            depth = int(_DEPTH_PAIRS[0, column]), int(_DEPTH_PAIRS[1, column])
            rank = tuple(float(key[row, column]) for key in keys)
            estimate = float(cycles[row, column]), float(energy[row, column])
            found.append(Choice(_tiling(flat, row, depth), *estimate, rank))
        return found


def _keys(c: Candidates, costs: MatmulCosts, aim: Aim, cycles: Float64, moved: Float64) -> list[NDArray[Any]]:
    """What candidates are ranked by, first things first: the metric and the other one in steps, what they keep others
    from, tiles, buffers, and the metric itself. Of equal times static energy is equal too: what is moved decides."""
    metric = aim.metric(cycles, aim.energy(moved, cycles))
    saved = moved if aim.prices else traffic_bytes(c, costs)[0] + 1
    second = saved if aim.objective == "time" else cycles
    steps = [np.ceil(np.log2(value) * STEPS) for value in (metric, second)]
    return [*steps, _hindrance(c, costs), _tiles(c), buffer_bytes(c, costs), metric]


def choice_of(tiling: Tiling, space: Space, aim: Aim) -> Choice:
    """A given mapping with its estimate."""
    c, costs = single_candidate(with_dataflow(space.work, tiling.dataflow), tiling, space.costs.arrays), space.costs
    cycles = np.asarray(estimate_cycles(c, costs), np.float64)
    moved = aim.moved(c, costs)
    rank = tuple(float(key) for key in _keys(c, costs, aim, cycles, moved))
    return Choice(tiling, float(cycles), float(aim.energy(moved, cycles)), rank)
