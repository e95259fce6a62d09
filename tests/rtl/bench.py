"""Runs folds through the arrays of `arrays` and tells what left them, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from amaranth.hdl import Cat, Signal
from amaranth.sim import Simulator
from numpy.typing import NDArray

from tests.rtl.arrays import OutputStationary, WeightStationary

Int64 = NDArray[np.int64]
Operands = tuple[Int64, Int64]  # a [m, k] and b [k, n] of one fold


@dataclass(frozen=True)
class RtlRun:
    """Results of each fold [m, n] and the cycle after which a result register shows them; None if not all came.

    finished_at: os, [m, n] the cycle of a result's last multiply-accumulate.
    """

    products: list[Int64] | None
    left_at: list[Int64] | None
    finished_at: list[Int64] | None = None

    def is_right(self, folds: Sequence[Operands]) -> bool:
        """Every product is NumPy's."""
        return self.products is not None and all(
            np.array_equal(product, a @ b) for product, (a, b) in zip(self.products, folds, strict=True)
        )


class Bench:
    """One array in a simulator, used again and again: it feeds vectors and keeps what is seen in each cycle."""

    def __init__(self, design: WeightStationary | OutputStationary, inputs: Sequence[Signal], seen: list[Signal]):
        self.inputs, self.seen = inputs, [Cat(design.result_valid), *seen, *design.results]
        self.masks = 1 + len(seen)
        self.feed, self.log = [], []
        self.simulator = Simulator(design)
        self.simulator.add_clock(1e-6)
        self.simulator.add_testbench(self._drive)

    def run(self, feed: Int64) -> list[Int64]:
        """feed: [cycles, inputs]; returns bits [cycles, lanes] of each mask, then results [cycles, cols]."""
        if self.log:
            self.simulator.reset()
        self.feed, self.log = feed.tolist(), []
        self.simulator.run()
        masks = [[row[index] for row in self.log] for index in range(self.masks)]
        widths = [len(signal) for signal in self.seen]
        results = np.array([row[self.masks :] for row in self.log], np.int64)
        return [*(_bits(mask, width) for mask, width in zip(masks, widths, strict=False)), results]

    async def _drive(self, ctx) -> None:
        before = [0] * len(self.inputs)
        for values in self.feed:
            for signal, value, old in zip(self.inputs, values, before, strict=True):
                if value != old:
                    ctx.set(signal, value)
            before = values
            _, _, *seen = await ctx.tick().sample(*self.seen)
            self.log.append(seen)


@cache
def weight_stationary_bench(rows: int, cols: int, shadow: bool) -> Bench:
    design = WeightStationary(rows, cols, shadow)
    return Bench(design, [*design.a, *design.weights, design.valid, design.swap, design.load], [])


@cache
def output_stationary_bench(rows: int, cols: int, second_output: bool) -> Bench:
    design = OutputStationary(rows, cols, second_output)
    return Bench(design, [*design.a, *design.b, design.valid, design.first, design.last], [design.finished])


def run_weight_stationary(
    rows: int, cols: int, folds: Sequence[Operands], weight_starts: Sequence[int], starts: Sequence[int], shadow: bool
) -> RtlRun:
    """Weights of each fold begin to enter, and its first row of A enters, in the given cycles."""
    feed = _empty_feed(rows, cols, folds, starts)
    for (a, b), weight_start, start in zip(folds, weight_starts, starts, strict=True):
        weights = _padded(b, rows, cols)[::-1]
        feed[weight_start : weight_start + rows, rows : rows + cols] = weights
        feed[weight_start, -1] = 1
        feed[start : start + len(a), :rows] = _padded(a, len(a), rows)
        feed[start : start + len(a), -3] = 1
        feed[start, -2] = 1
    valid, results = weight_stationary_bench(rows, cols, shadow).run(feed)
    blocks = _blocks(valid, results, [len(a) for a, _ in folds])
    return _cropped(blocks, folds)


def run_output_stationary(
    rows: int, cols: int, folds: Sequence[Operands], starts: Sequence[int], second_output: bool
) -> RtlRun:
    """The first operands of each fold enter in the given cycles."""
    feed = _empty_feed(rows, cols, folds, starts)
    for (a, b), start in zip(folds, starts, strict=True):
        steps = slice(start, start + len(b))
        feed[steps, :rows] = _padded(a, rows, len(b)).T
        feed[steps, rows : rows + cols] = _padded(b, len(b), cols)
        feed[steps, -3] = 1
        feed[start, -2] = feed[steps.stop - 1, -1] = 1
    valid, finished, results = output_stationary_bench(rows, cols, second_output).run(feed)
    left = [(sums[::-1], cycles[::-1]) for sums, cycles in _blocks(valid, results, [rows] * len(folds))]
    done_at = _blocks(finished, None, [1] * len(folds))
    return _cropped(left, folds, [cycles.reshape(rows, cols) for _, cycles in done_at])


def _empty_feed(rows: int, cols: int, folds: Sequence[Operands], starts: Sequence[int]) -> Int64:
    """[cycles, inputs] of zeros, long enough for all results to leave."""
    longest = max(max(len(a), len(b)) for a, b in folds)
    return np.zeros((max(starts) + longest + 2 * rows + cols, rows + cols + 3), np.int64)


def _padded(block: Int64, height: int, width: int) -> Int64:
    return np.pad(block, ((0, height - block.shape[0]), (0, width - block.shape[1])))


def _bits(values: Sequence[int], width: int) -> Int64:
    return np.array([[value >> bit & 1 for bit in range(width)] for value in values], np.int64)


def _blocks(valid: Int64, values: Int64 | None, heights: Sequence[int]) -> list[tuple[Int64, Int64]]:
    """What each lane showed while valid, cut into blocks of these heights: (values, cycles), each [height, lanes].

    A register shows in cycle t + 1 what it took over at the end of cycle t: `cycles` has t. Empty if a lane showed
    more or less than there is to come.
    """
    if not np.all(valid.sum(axis=0) == sum(heights)):
        return []
    shown_in = np.stack([np.flatnonzero(lane) for lane in valid.T], axis=1)
    shown = shown_in if values is None else np.take_along_axis(values, shown_in, axis=0)
    cuts = np.cumsum(heights)[:-1]
    return list(zip(np.split(shown, cuts), np.split(shown_in - 1, cuts), strict=True))


def _cropped(
    blocks: Sequence[tuple[Int64, Int64]], folds: Sequence[Operands], finished_at: Sequence[Int64] | None = None
) -> RtlRun:
    """The part of each block that is in use; None where not all results came."""
    used = [np.s_[: len(a), : b.shape[1]] for a, b in folds]
    parts = [*zip(*blocks, strict=True)] or [[], []]
    products, left_at, done_at = (
        [block[part] for block, part in zip(whole, used, strict=True)] if whole else None
        for whole in (*parts, finished_at)
    )
    return RtlRun(products, left_at, done_at)
