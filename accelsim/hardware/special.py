"""Closed-form times of the dedicated softmax, LayerNorm and GELU units. Numbers in, numbers out.

A softmax or LayerNorm unit takes the elements of one row after another, `elements_per_cycle` of them a cycle, no two
rows in one cycle. A one-pass unit keeps a running maximum and sum (Milakov and Gimelshein 2018, arXiv:1805.02867,
algorithm 3), or running sums, and takes the next row while a row's results leave; a two-pass unit holds the row and
goes through it a second time before it takes another. Either way nothing of a row leaves before `latency` cycles after
its last element has come, and results leave at the rate at which elements come. A GELU unit has no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.errors import InternalError

Int64 = NDArray[np.int64]

_MOST_CYCLES = 2**62


@dataclass(frozen=True, slots=True)
class SpecialUnit:
    """Numbers of a unit. by_rows: it needs whole rows (False: GELU). share_bytes_per_cycle: its part of the
    scratchpad's bandwidth, None for unlimited."""

    elements_per_cycle: Fraction
    passes: int = 1
    latency: int = 0
    by_rows: bool = True
    share_bytes_per_cycle: int | None = None


@dataclass(frozen=True, slots=True)
class SpecialTimes:
    """Times of tiles in cycles, int64 arrays of one shape: occupy = useful + scratchpad, latency >= occupy.

    row_cycles: from the begin of one row to that of the next, 0 for a unit without rows.
    """

    occupy: Int64
    latency: Int64
    useful: Int64
    scratchpad: Int64
    row_cycles: Int64


def special_times(rows: ArrayLike, cols: ArrayLike, moved_bytes: ArrayLike, unit: SpecialUnit) -> SpecialTimes:
    """Time tiles of `rows` x `cols` elements that move `moved_bytes` to and from the scratchpad (all broadcast).

    useful = rows x passes x ceil(cols / elements_per_cycle), or ceil(rows x cols / elements_per_cycle) without rows.
    The last result is there `latency` cycles after the last row's last element, and the rest of that row: in a
    two-pass unit it leaves during the second pass, so only `latency` is added. The excess of the scratchpad's time,
    ceil(bytes / share), is `scratchpad`. Raises InternalError for sizes or rates that are not positive.
    """
    rows, cols, moved = np.broadcast_arrays(*(np.asarray(each, np.int64) for each in (rows, cols, moved_bytes)))
    _check(rows, cols, moved, unit)
    if unit.by_rows:
        row = _over(cols, unit.elements_per_cycle)
        useful = rows * row * unit.passes
        last = row * (2 - unit.passes)
    else:
        row, last = np.zeros_like(cols), np.ones_like(cols)
        useful = _over(rows * cols, unit.elements_per_cycle)
    shared = useful if unit.share_bytes_per_cycle is None else -(-moved // unit.share_bytes_per_cycle)
    occupy = np.maximum(useful, shared)
    latency = np.maximum(occupy, occupy + unit.latency + last - 1)
    return SpecialTimes(occupy, latency, useful, occupy - useful, row * unit.passes)


def row_lag(stream_latency: Int64, rows: Int64, row_step: Fraction, row_cycles: Int64) -> Int64:
    """Cycles from a stream's start after which a unit that takes one of its rows every `row_cycles` is never early.

    The stream's last row is complete after `stream_latency` cycles, each earlier one `row_step` cycles before the next
    (one PE step). A unit slower than the array may begin with the first row; a faster one must be late enough for the
    last. All [n]; at most one cycle later than needed where a PE step is not a whole number of cycles.
    """
    behind = rows - 1
    first = stream_latency - behind * row_step.numerator // row_step.denominator
    last = stream_latency - behind * row_cycles
    lag: Int64 = np.maximum(np.maximum(first, last) + (row_step.denominator > 1), 0)
    return lag


def _over(count: Int64, rate: Fraction) -> Int64:
    return np.asarray(-(-(count * rate.denominator) // rate.numerator), np.int64)


def _check(rows: Int64, cols: Int64, moved: Int64, unit: SpecialUnit) -> None:
    share = unit.share_bytes_per_cycle
    sizes = min(int(rows.min(initial=1)), int(cols.min(initial=1)), 1 if share is None else share)
    if sizes < 1 or int(moved.min(initial=0)) < 0 or unit.elements_per_cycle <= 0 or unit.passes not in (1, 2):
        raise InternalError(f"a special unit needs rows, cols, rate and share >= 1; got {rows!r}, {cols!r}, {unit}")
    elements = int(rows.max(initial=1)) * int(cols.max(initial=1)) * unit.passes
    if elements * unit.elements_per_cycle.denominator > _MOST_CYCLES:
        raise InternalError(f"rows {rows!r} x cols {cols!r} on {unit} overflow int64")
