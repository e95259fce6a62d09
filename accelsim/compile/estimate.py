"""What a candidate takes, estimated in closed form: the cycles of a matmul alone on the machine.

The busiest of array, drain, epilogue and memory, and of the turns that the operands' slots take, plus what nothing
overlaps: the first tiles' loads and the last one's way out. Each term falls, or stays, as capacity, bandwidth, lanes or
rate grow.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import summed
from accelsim.compile.candidates import NAMES, Candidates, MatmulCosts, operands, runs_of
from accelsim.compile.work import MatmulWork
from accelsim.hardware import systolic
from accelsim.hardware.dram.runs import run_cycles

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]  # estimated cycles: products of counts would leave int64

_BURST_BYTES = 64  # a shorter run of a tile's row still moves a whole DRAM burst, where nothing better is known


def estimate_cycles(c: Candidates, costs: MatmulCosts) -> Float64:
    """Cycles of each candidate."""
    return Estimate(c, Tiles(c, costs)).cycles


def traffic_bytes(c: Candidates, costs: MatmulCosts) -> tuple[Int64, int]:
    """Bytes loaded (each candidate), short runs counted as whole bursts, and bytes stored (all alike)."""
    view = c.work.view
    loads = np.zeros_like(c.outputs)
    for operand, on_chip, width in operands(c.work, costs):
        if not on_chip:
            loads = loads + _in_bursts(c, costs, operand, fetched_bytes(c, operand, width), width)
    return loads, view.batch * view.m * view.n * costs.stored_bytes


def fetched_bytes(c: Candidates, operand: str, width: int) -> Int64:
    """Useful bytes of all fetches of an operand that is not on chip."""
    return c.fetches(operand) // c.tiles(operand) * _elements(c, operand) * width


def _elements(c: Candidates, operand: str) -> int:
    """Elements of a batch of the operand."""
    return (c.work.view.m if operand == "a" else c.work.view.n) * c.work.view.k


class Tiles:
    """What tile sizes take whatever the order of loops: computed once for all orders and residencies."""

    def __init__(self, c: Candidates, costs: MatmulCosts) -> None:
        self.c = c
        self.costs = costs
        self.loaded = {name: width for name, on_chip, width in operands(c.work, costs) if not on_chip}

    def priced(self, costs: MatmulCosts) -> Tiles:
        """The same tiles where loads and stores cost something else."""
        other = Tiles(self.c, costs)
        other.streamed, other.drained = self.streamed, self.drained
        return other

    def at(self, chosen: Candidates, index: tuple[Int64, ...], shape: tuple[int, ...]) -> Tiles:
        """Those of the tiles that are `chosen`, the ones at `index` of the candidates' broadcast `shape`, as [n, 1]."""

        def taken(part: Float64) -> Float64:
            return np.broadcast_to(part, shape)[index][:, None]

        other = Tiles(chosen, self.costs)
        other.streamed, other.drained, other.stored = taken(self.streamed), taken(self.drained), taken(self.stored)
        other.loads = {name: taken(cycles) for name, cycles in self.loads.items()}
        other.ends = taken(self.ends)
        return other

    @cached_property
    def streamed(self) -> Float64:
        """Cycles that the streams of all tiles occupy arrays, summed over them."""
        return _array_cycles(self.c, self.costs)

    @cached_property
    def drained(self) -> Float64:
        """Cycles that reading finished rows takes one array."""
        return _drain_cycles(self.c)

    @cached_property
    def loads(self) -> dict[str, Float64]:
        """Cycles of loading a tile of each operand that is not on chip."""
        return {name: self._load(name, width) for name, width in self.loaded.items()}

    @cached_property
    def stored(self) -> Float64:
        """Cycles of storing the whole result."""
        view = self.c.work.view
        return self._store(np.array(view.batch * view.m * view.n))

    @cached_property
    def ends(self) -> Float64:
        """The first tiles' loads, and the last one's drain and store."""
        c, costs, p = self.c, self.costs, self.c.work.array
        start = np.full(c.outputs.shape, float(costs.latency) if self.loaded else 0.0)
        for name, width in self.loaded.items():
            start = start + (_cycles(c.tile(name) * width, costs.load_rate) if costs.runs is None else self.loads[name])
        end = float((p.rows + p.cols) / p.rate) + costs.epilogue_cycles / c.outputs
        total: Float64 = start + end + self._store(c.tm * c.tn)
        return total

    @property
    def issue(self) -> float:
        """Cycles of a request that nothing hides, where its commands are known."""
        by = self.costs.runs
        return 0.0 if by is None or by.system is None else self.costs.issue / by.load_queues

    def _load(self, operand: str, width: int) -> Float64:
        c, costs = self.c, self.costs
        size = c.tile(operand) * width
        if operand in costs.level2:
            return _cycles(size, costs.level2_rate)
        if costs.runs is None:
            return _cycles(_in_bursts(c, costs, operand, size, width), costs.load_rate)
        layout = c.work.view.a if operand == "a" else c.work.view.b
        rows, columns = (c.tm, c.tk) if operand == "a" else (c.tk, c.tn)
        runs, pitch = runs_of(layout, rows, columns, width, packed=operand in costs.packed)
        return self._by_runs(size, runs, pitch, rate=costs.load_rate, write=False)

    def _store(self, elements: Int64) -> Float64:
        """Cycles of storing so many elements of the result's tiles."""
        c, costs = self.c, self.costs
        size = elements * costs.stored_bytes
        if costs.runs is None or not costs.stored_bytes:
            return _cycles(size, costs.store_rate)
        runs, pitch = runs_of(c.work.view.out, c.tm, c.tn, costs.stored_bytes)
        return self._by_runs(size, runs, pitch, rate=costs.store_rate, write=True)

    def _by_runs(self, size: Int64, runs: Int64, pitch: int, *, rate: Fraction | None, write: bool) -> Float64:
        """Cycles of `size` bytes that lie in runs: what the DRAM's commands take, and no less than the rate allows."""
        at_rate, by = _cycles(size, rate), self.costs.runs
        if by is None or by.system is None:
            return at_rate
        queues = by.store_queues if write else by.load_queues
        return np.maximum(at_rate, size / runs * run_cycles(by.system, queues, runs, pitch, write=write))


class Estimate:
    """The estimate for some candidates of one order and residency, each part computed once; all [candidates...]."""

    def __init__(self, c: Candidates, tiles: Tiles) -> None:
        self.c = c
        self.tiles = tiles

    @cached_property
    def cycles(self) -> Float64:
        """All of it, at the candidates' depths."""
        turns = [self._turns(operand) for operand in self.tiles.loads]
        total: Float64 = reduce(np.maximum, turns, self.busiest) + self.tiles.ends
        return total

    @cached_property
    def least_cycles(self) -> Float64:
        """What no depth goes below."""
        total: Float64 = self.busiest + self.tiles.ends
        return total

    @cached_property
    def busiest(self) -> Float64:
        """The longest of what works side by side."""
        c, tiles = self.c, self.tiles
        compute = tiles.streamed * c.rounds / c.outputs  # outputs are dealt whole
        found = np.maximum(np.maximum(compute, self._memory()), np.maximum(tiles.drained, tiles.costs.epilogue_cycles))
        for operand in c.resident & tiles.loads.keys() if tiles.costs.runs is not None else ():
            found = np.maximum(found, self._first_sweep(operand, compute))
        return np.maximum(found, self._fetched(level2=True)) if tiles.costs.level2 else found

    def _first_sweep(self, operand: str, compute: Float64) -> Float64:
        """An operand held whole, under an outermost loop that does not index it, is loaded in that loop's first trip;
        the others are computed after that."""
        c = self.c
        if c.order[0] in NAMES[operand] or c.batches(operand) > 1:
            return np.zeros(c.outputs.shape)
        loaded = self.tiles.loads[operand] / c.tile(operand) * _elements(c, operand)
        total: Float64 = loaded + compute * (1 - 1 / c.loops[c.order[0]])
        return np.where(c.loops[c.order[0]] > 1, total, 0.0)

    def _memory(self) -> Float64:
        """Cycles that the DRAM takes for all loads and stores."""
        return self._fetched(level2=False) + self.tiles.stored

    def _fetched(self, *, level2: bool) -> Float64:
        """Cycles of all loads from the second level, or from DRAM; ragged tiles count by their size."""
        c, tiles = self.c, self.tiles
        total = np.zeros(c.outputs.shape)
        for operand, cycles in tiles.loads.items():
            if (operand in tiles.costs.level2) is level2:
                fetches = c.fetches(operand)
                moved = fetches // c.tiles(operand) * _elements(c, operand)
                total = total + moved * (cycles / c.tile(operand))
                total = total + fetches * tiles.issue if tiles.issue and not level2 else total
        return total

    def _turns(self, operand: str) -> Float64:
        """Cycles that the slots' turns take: a slot is loaded (issue, latency, and the transfers for all arrays that
        work side by side) and computed on in turn, so f fetches through s slots take at least f / s of those."""
        c, tiles, costs = self.c, self.tiles, self.tiles.costs
        readers, fetches, slots = c.readers(operand), c.fetches(operand), c.slots(operand)
        load = readers * tiles.loads[operand] + costs.latency + costs.issue
        rounds = -(-c.outputs // readers) * readers / c.outputs  # a last round of fewer outputs takes as long
        turns = (fetches * load + tiles.streamed * readers / c.arrays) * rounds / slots
        return np.where(fetches > slots, turns, 0)


def _in_bursts(c: Candidates, costs: MatmulCosts, operand: str, size: Int64, width: int) -> Int64:
    """`size` bytes of an operand's tiles with each row of a tile rounded up to whole bursts."""
    if operand in costs.packed:
        return size
    layout, along = (c.work.view.a, c.tm) if operand == "a" else (c.work.view.b, c.tk)
    across = c.tk if operand == "a" else c.tn
    run = (across if layout.column_stride == 1 else along if layout.row_stride == 1 else np.int64(1)) * width
    return size * (-(-run // _BURST_BYTES) * _BURST_BYTES) // run


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
