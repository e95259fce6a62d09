"""The energy of a candidate, estimated in closed form: what it moves and computes at given prices, and static power."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.across import summed
from accelsim.compile.candidates import Candidates, MatmulCosts, operands
from accelsim.compile.estimate import fetched_bytes
from accelsim.compile.score import Prices

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


def moved_pj(c: Candidates, costs: MatmulCosts, prices: Prices, dtypes: tuple[str, str]) -> Float64:
    """[candidates...] pJ of everything but static power; dtypes are those of a and b."""
    view = c.work.view
    results = view.batch * view.m * view.n
    total = np.full(c.outputs.shape, prices.mac(*dtypes, c.work.array.dataflow) * results * view.k)
    total = total + results * costs.stored_bytes * prices.dram_write
    for operand, on_chip, width in operands(c.work, costs):
        if not on_chip and operand not in costs.level2:
            total = total + fetched_bytes(c, operand, width).astype(np.float64) * prices.dram_read
    for counter, count in (*_counts(c, costs), *costs.epilogue_counts):
        total = total + np.asarray(count, np.float64) * prices.counters.get(counter, 0.0)
    return total


def _counts(c: Candidates, costs: MatmulCosts) -> Iterator[tuple[str, Int64 | int]]:
    """(counter, how often) of the array's tasks, loads and stores."""
    view, work = c.work.view, c.work
    results = view.batch * view.m * view.n
    reads_a, reads_b = _operand_reads(c)
    yield "scratchpad_read_bytes", reads_a * work.a_bytes + reads_b * work.b_bytes + results * costs.stored_bytes
    for operand, on_chip, width in operands(work, costs):
        if not on_chip:
            yield "scratchpad_write_bytes", fetched_bytes(c, operand, width)
            if operand in costs.level2:
                yield "level2_read_bytes", fetched_bytes(c, operand, width)
    if not work.epilogue:
        yield "scratchpad_write_bytes", results * sum(work.out_bytes)
    sums, drained = _partial_sums(c)
    yield "accumulator_writes", sums * results
    yield "accumulator_reads", (sums - 1) * (sums > 0) * results
    yield "accumulator_drain_reads", drained * results


def _operand_reads(c: Candidates) -> tuple[Int64, Int64]:
    """Elements of a and of b that the array reads: a moving one for each fold that it crosses, a stationary one for
    each tile along the third dimension, unless the array holds it still."""
    view, p, loops = c.work.view, c.work.array, c.loops
    size_a, size_b = view.batch * view.m * view.k, view.batch * view.k * view.n

    def folds(total: int, tile: Int64, length: int) -> Int64:
        return summed(total, tile, lambda size: -(-size // length))

    if p.dataflow == "is":
        return size_a * _shifts(c, "n", loops["n"]), size_b * folds(view.m, c.tm, p.cols)
    across = size_a * folds(view.n, c.tn, p.cols)
    return across, size_b * (folds(view.m, c.tm, p.rows) if p.dataflow == "os" else _shifts(c, "m", loops["m"]))


def _shifts(c: Candidates, other: str, trips: Int64) -> Int64:
    """How often each stationary tile is shifted in: once where it is one fold and its uses follow one another."""
    p, view = c.work.array, c.work.view
    on_cols = np.minimum(c.tn, view.n) if p.dataflow == "ws" else np.minimum(c.tm, view.m)
    single = (np.minimum(c.tk, view.k) <= p.rows) & (on_cols <= p.cols)
    changes = np.ones_like(c.outputs)
    for name in c.order[c.order.index(other) + 1 :]:
        changes = np.maximum(changes, c.loops[name])
    return np.where(single & (changes == 1), 1, trips)


def _partial_sums(c: Candidates) -> tuple[Int64, Int64 | int]:
    """Times that each result's sum is written to the accumulator, and read out of it when finished."""
    view, p, split = c.work.view, c.work.array, c.loops["k"]
    if p.dataflow == "os":
        written = np.where(split > 1, split, 0)
        return written, 1 if c.work.epilogue else np.minimum(written, 1)
    return summed(view.k, c.tk, lambda size: -(-size // p.rows)), 1
