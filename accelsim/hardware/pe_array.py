"""The systolic array itself, cycle by cycle: the truth that the closed forms in `systolic` are tested against.

Operands, tokens and partial sums move from register to register, one PE a cycle; the product is the array's own, in
int64. The environment only feeds the left and the top edge, row r delayed by r cycles and column c by c, from the
cycles that the caller asks for. What is asked for too early collides in the array and gives a wrong product, or leaves
results that never arrive; so the earliest start that gives the right product is the array's true least distance.

Input-stationary is weight-stationary on the transposed product: pass B transposed and A transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import InternalError
from accelsim.jit import kernel

Int64: TypeAlias = NDArray[np.int64]

NEVER = -1
_VALID, _FIRST, _LAST = 1, 2, 4


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """One fold: a [steps or m, k] times b [k, n], int64, added to rows `address`.. of the accumulator.

    ws: k <= rows, n <= cols, any m. os: m <= rows, n <= cols, any k.
    """

    a: Int64
    b: Int64
    address: int


@dataclass(frozen=True, slots=True, eq=False)
class PeRun:
    """What left the array. Arrays [accumulator rows, cols]; cycle t is the t-th, counted from 0.

    accumulator: sums. written_at: cycle of the last write, NEVER without one. writes: number of writes.
    computed_at: cycle of the last multiply-accumulate of this sum (in ws and is that of its write).
    first_input: cycle in which the first operand of a stream enters. last_result: cycle of the last write.
    """

    accumulator: Int64
    written_at: Int64
    writes: Int64
    computed_at: Int64
    first_input: int
    last_result: int


def weight_stationary_folds(a: Int64, b: Int64, rows: int, cols: int, address: int = 0) -> list[Fold]:
    """The folds of a [m, k] times b [k, n] in order: column folds outer, k folds inner; m accumulator rows each."""
    m, k = a.shape
    return [
        Fold(a[:, top : top + rows], b[top : top + rows, left : left + cols], address + left // cols * m)
        for left in range(0, b.shape[1], cols)
        for top in range(0, k, rows)
    ]


def output_stationary_folds(a: Int64, b: Int64, rows: int, cols: int, address: int = 0) -> list[Fold]:
    """The folds of a [m, k] times b [k, n] in order: row folds outer, column folds inner; `rows` result rows each."""
    corners = [(top, left) for top in range(0, a.shape[0], rows) for left in range(0, b.shape[1], cols)]
    return [
        Fold(a[top : top + rows], b[:, left : left + cols], address + index * rows)
        for index, (top, left) in enumerate(corners)
    ]


def run_weight_stationary(
    rows: int,
    cols: int,
    folds: Sequence[Fold],
    weight_starts: Sequence[int],
    stream_starts: Sequence[int],
    shadow: bool,
) -> PeRun:
    """Run folds whose weights begin to shift in, and whose first row of A enters, in the given cycles.

    shadow: weights shift through a chain of registers beside those in use. Without, they come down the wires of the
    partial sums, and a PE that shifts does not multiply. Either way the shift enable travels with the wave (row r
    starts r cycles later, column c another c), row r takes rows - r shifts, and all rows of a column end together.
    Raises InternalError for a fold that does not fit the array.
    """
    _check(folds, rows, cols, [fold.a.shape[1] for fold in folds], [*weight_starts, *stream_starts])
    longest = max(fold.a.shape[0] for fold in folds)
    cycles = max([*weight_starts, *stream_starts]) + longest + 2 * (rows + cols)
    a_feed, address = np.zeros((cycles, rows), np.int64), np.full((cycles, rows), NEVER, np.int64)
    swap, shift = np.zeros((cycles, rows), np.bool_), np.zeros((cycles, rows), np.bool_)
    weight_feed = np.zeros((cycles, cols), np.int64)
    token = np.ones((1, rows), np.bool_)
    for fold, weight_start, stream_start in zip(folds, weight_starts, stream_starts, strict=True):
        a = _padded(fold.a, fold.a.shape[0], rows)
        _feed(a_feed, stream_start, a)
        _feed(address, stream_start, fold.address + np.indices(a.shape)[0])
        _feed(swap, stream_start, token)
        _feed(shift, weight_start, token)
        _feed(weight_feed, weight_start, _padded(fold.b, rows, fold.b.shape[1])[::-1])
    results = _empty_results(max(fold.address + fold.a.shape[0] for fold in folds), cols)
    _weight_stationary_cycles(a_feed, address, swap, shift, weight_feed, shadow, *results)
    return PeRun(*results, results[1], min(stream_starts), int(results[1].max()))


def run_output_stationary(
    rows: int, cols: int, folds: Sequence[Fold], stream_starts: Sequence[int], second_output: bool
) -> PeRun:
    """Run folds whose first operands enter in the given cycles.

    second_output: results leave from a register beside the accumulating one. Column c shifts `rows` times, from the
    cycle after its bottom row's last multiply-accumulate; row r takes part in the first r + 1 of these shifts.
    Raises InternalError for a fold that does not fit the array.
    """
    _check(folds, rows, cols, [fold.a.shape[0] for fold in folds], stream_starts)
    longest = max(fold.a.shape[1] for fold in folds)
    cycles = max(stream_starts) + longest + 2 * (rows + cols)
    a_feed, address = np.zeros((cycles, rows), np.int64), np.full((cycles, rows), NEVER, np.int64)
    flag_feed, b_feed = np.zeros((cycles, rows), np.int64), np.zeros((cycles, cols), np.int64)
    for fold, start in zip(folds, stream_starts, strict=True):
        a = _padded(fold.a, rows, fold.a.shape[1]).T
        flags = np.full(a.shape, _VALID)
        flags[0] |= _FIRST
        flags[-1] |= _LAST
        _feed(a_feed, start, a)
        _feed(address, start, fold.address + np.indices(a.shape)[1])
        _feed(flag_feed, start, flags)
        _feed(b_feed, start, fold.b)
    results = _empty_results(max(fold.address for fold in folds) + rows, cols)
    computed_at = np.full_like(results[1], NEVER)
    _output_stationary_cycles(a_feed, address, flag_feed, b_feed, second_output, *results, computed_at)
    return PeRun(*results, computed_at, min(stream_starts), int(results[1].max()))


def _check(folds: Sequence[Fold], rows: int, cols: int, rows_used: Sequence[int], starts: Sequence[int]) -> None:
    if max(rows_used) > rows or max(fold.b.shape[1] for fold in folds) > cols:
        raise InternalError(f"a fold does not fit the array of {rows} rows and {cols} columns")
    if min(starts) < 0:
        raise InternalError(f"a fold starts before cycle 0: {min(starts)}")


def _padded(block: Int64, height: int, width: int) -> Int64:
    """`block` with zeros below and to the right."""
    return np.pad(block, ((0, height - block.shape[0]), (0, width - block.shape[1])))


def _feed(edge: NDArray[Any], start: int, block: NDArray[Any]) -> None:
    """Let `block` [cycles, lanes] enter at an edge [cycles, lanes] from `start` on, lane i delayed by i cycles."""
    for lane in range(block.shape[1]):
        begin = start + lane
        edge[begin : begin + block.shape[0], lane] = block[:, lane]


def _empty_results(height: int, cols: int) -> tuple[Int64, Int64, Int64]:
    shape = (height, cols)
    return np.zeros(shape, np.int64), np.full(shape, NEVER, np.int64), np.zeros(shape, np.int64)


@kernel
def _weight_stationary_cycles(
    a_feed: Int64,
    address_feed: Int64,
    swap_feed: NDArray[np.bool_],
    shift_feed: NDArray[np.bool_],
    weight_feed: Int64,
    shadow: bool,
    accumulator: Int64,
    written_at: Int64,
    writes: Int64,
) -> None:
    """Each cycle, each PE: (1) take operand and tokens from the left, (2) without shadow registers and while shifting,
    take the weight from above and pass it on, and nothing else, (3) swap in the shadow weight with the first operand,
    (4) add a * weight to the sum from above, (5) shift the shadow chain, (6) at the bottom, write the sum.

    PEs are visited from the last row and column back, so that left and upper neighbours still hold the last cycle.
    """
    cycles, rows = a_feed.shape
    cols = weight_feed.shape[1]
    a, address = np.zeros((rows, cols), np.int64), np.full((rows, cols), -1, np.int64)
    swap, shift = np.zeros((rows, cols), np.bool_), np.zeros((rows, cols), np.bool_)
    weight, partial = np.zeros((rows, cols), np.int64), np.zeros((rows, cols), np.int64)
    chain = np.zeros((rows, cols), np.int64)
    shifts_left = np.zeros((rows, cols), np.int64)
    for t in range(cycles):
        for r in range(rows - 1, -1, -1):
            for c in range(cols - 1, -1, -1):
                if c > 0:
                    a[r, c], address[r, c] = a[r, c - 1], address[r, c - 1]
                    swap[r, c], shift[r, c] = swap[r, c - 1], shift[r, c - 1]
                else:
                    a[r, c], address[r, c] = a_feed[t, r], address_feed[t, r]
                    swap[r, c], shift[r, c] = swap_feed[t, r], shift_feed[t, r]
                if shift[r, c]:
                    shifts_left[r, c] = rows - r
                shifting = shifts_left[r, c] > 0
                shifts_left[r, c] -= shifting
                above = partial[r - 1, c] if r > 0 else 0
                if not shadow and shifting:
                    weight[r, c] = partial[r, c] = above if r > 0 else weight_feed[t, c]
                    continue
                if swap[r, c] and shadow:
                    weight[r, c] = chain[r, c]
                partial[r, c] = above + a[r, c] * weight[r, c]
                if shifting:
                    chain[r, c] = chain[r - 1, c] if r > 0 else weight_feed[t, c]
                if r == rows - 1 and address[r, c] >= 0:
                    accumulator[address[r, c], c] += partial[r, c]
                    written_at[address[r, c], c] = t
                    writes[address[r, c], c] += 1


@kernel
def _output_stationary_cycles(
    a_feed: Int64,
    address_feed: Int64,
    flag_feed: Int64,
    b_feed: Int64,
    second_output: bool,
    accumulator: Int64,
    written_at: Int64,
    writes: Int64,
    computed_at: Int64,
) -> None:
    """Each cycle, each PE: (1) take operands from the left and from above, (2) shift the output chain, the bottom row
    writing what leaves, (3) multiply and accumulate, (4) with the last operand, hand the sum to the output chain.

    A PE holds its sum while the wave reaches the bottom row, and then shifts it and those of the rows above: `rows`
    cycles in all, the last r + 1 of them shifts. PEs are visited from the last row and column back.
    """
    cycles, rows = a_feed.shape
    cols = b_feed.shape[1]
    a, address = np.zeros((rows, cols), np.int64), np.full((rows, cols), -1, np.int64)
    flags, b = np.zeros((rows, cols), np.int64), np.zeros((rows, cols), np.int64)
    total = np.zeros((rows, cols), np.int64)
    output = np.zeros((rows, cols), np.int64) if second_output else total
    output_address, held = np.full((rows, cols), -1, np.int64), np.zeros((rows, cols), np.int64)
    for t in range(cycles):
        for r in range(rows - 1, -1, -1):
            for c in range(cols - 1, -1, -1):
                if c > 0:
                    a[r, c], address[r, c], flags[r, c] = a[r, c - 1], address[r, c - 1], flags[r, c - 1]
                else:
                    a[r, c], address[r, c], flags[r, c] = a_feed[t, r], address_feed[t, r], flag_feed[t, r]
                b[r, c] = b[r - 1, c] if r > 0 else b_feed[t, c]
                if 0 < held[r, c] <= r + 1:
                    if r == rows - 1 and output_address[r, c] >= 0:
                        accumulator[output_address[r, c], c] += output[r, c]
                        written_at[output_address[r, c], c] = t
                        writes[output_address[r, c], c] += 1
                    if r > 0:
                        output[r, c], output_address[r, c] = output[r - 1, c], output_address[r - 1, c]
                if held[r, c] > 0:
                    held[r, c] -= 1
                if flags[r, c] & _VALID:
                    kept = 0 if flags[r, c] & _FIRST else total[r, c]
                    total[r, c] = kept + a[r, c] * b[r, c]
                if flags[r, c] & _LAST:
                    output[r, c], output_address[r, c] = total[r, c], address[r, c]
                    held[r, c] = rows
                    computed_at[address[r, c], c] = t
