"""Closed forms of one buffer tile on a systolic array: cycles of its three tasks, and its access counts.

A tile [tm, tk] x [tk, tn] is cut in folds of the array. In the weight-stationary dataflow (ws) the reduction k lies on
the rows and n on the columns; column folds are outer, k folds inner, so that the partial sums of a column fold are
complete before the next one begins. Input-stationary (is) is the same with m and n exchanged. In the output-stationary
dataflow (os) m lies on the rows and n on the columns; row folds are outer, column folds inner.

Times are counted in PE steps first and turned into cycles last: at a rate of r steps a cycle, s steps take ceil(s / r)
cycles. The forms with `fold_overlap` equal the per-cycle model in `pe_array` for every size; those without are the
convention of SCALE-Sim (Samajdar et al., ISPASS 2020), which charges all rows and columns and no os drain.

Every function takes tile sizes as integers or int64 arrays that broadcast together, and returns int64 arrays of the
broadcast shape. A size below 1, or one whose counts could leave int64, raises InternalError.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import InputError, InternalError

Int64: TypeAlias = NDArray[np.int64]
Sizes: TypeAlias = int | Int64
Dataflow = Literal["ws", "os", "is"]
Count = TypeVar("Count", int, Int64)
Float = TypeVar("Float", float, NDArray[np.float64])

COUNT_LIMIT = 2.0**62


@dataclass(frozen=True, slots=True)
class ArrayParameters:
    """The array as plain numbers, for one pair of operand types.

    rate: PE steps a cycle, exact. drain_elements_per_cycle: accumulator elements read out a cycle, None for unlimited;
    unused by os, whose results shift out of the columns. weight_double_buffer is unused by os, output_double_buffer by
    ws and is. Raises InputError for sizes or rates that are not positive, for an unknown dataflow, and for shadow
    weight registers on strictly serial folds.
    """

    rows: int
    cols: int
    dataflow: Dataflow = "ws"
    weight_double_buffer: bool = True
    output_double_buffer: bool = True
    fold_overlap: bool = True
    rate: Fraction = Fraction(1)
    drain_elements_per_cycle: Fraction | None = None

    def __post_init__(self) -> None:
        if self.dataflow not in ("ws", "os", "is"):
            raise InputError("unknown dataflow", where="array.dataflow", value=self.dataflow, remedy="use ws, os or is")
        for name in ("rows", "cols", "rate", "drain_elements_per_cycle"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError("not positive", where=f"array.{name}", value=value, remedy="give a number above 0")
        if self.dataflow != "os" and self.weight_double_buffer and not self.fold_overlap:
            raise InputError(
                "weight_double_buffer has no effect on strictly serial folds",
                where="array.weight_double_buffer",
                value=True,
                remedy="set it to false, or fold_overlap to true",
            )


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """Cycles of `stream` tasks; useful + weights_in_stream + fill = occupy.

    latency: start to the last result in the accumulator (in os: to the last multiply-accumulate).
    weights_in_stream: cycles spent shifting weights of the tile's later folds.
    fill: skew of serial folds; in os also the wait for output registers between folds.
    next_weights_lag: from this start to the earliest start of the next tile's `weights` task: the start of the last
    fold with shadow registers, `occupy` without, `latency` with serial folds; 0 in os, which has no such task.
    """

    occupy: Int64
    latency: Int64
    useful: Int64
    weights_in_stream: Int64
    fill: Int64
    next_weights_lag: Int64


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """Cycles of `drain` tasks. lag: from the start of the stream (of the last K tile) to the earliest start."""

    occupy: Int64
    latency: Int64
    lag: Int64


@dataclass(frozen=True, slots=True)
class OperandReads:
    """Elements of A and of B that a tile reads from the scratchpad."""

    a: Int64
    b: Int64


@dataclass(frozen=True, slots=True)
class AccumulatorAccesses:
    """Elements of partial sums that a tile reads from and writes to the accumulator."""

    reads: Int64
    writes: Int64


@dataclass(frozen=True, slots=True)
class _Folds:
    """A tile cut in folds. Arrays of one shape; `last_*` are the sizes of the last, possibly ragged, fold.

    steps: inputs streamed per fold (m in ws, n in is, k in os). row_folds run along k (ws, is) or m (os).
    """

    steps: Int64
    row_folds: Int64
    col_folds: Int64
    last_rows: Int64
    last_cols: Int64
    period: Int64

    @property
    def count(self) -> Int64:
        return self.row_folds * self.col_folds

    @property
    def last_start(self) -> Int64:
        """Steps from the stream's start to the start of its last fold."""
        return (self.count - 1) * self.period


def ceil_div(dividend: Count, divisor: Count | int) -> Count:
    """Ceiling division of integers or int64 arrays."""
    return -(-dividend // divisor)


def fold_count(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> Int64:
    """Folds of each tile."""
    return _cut(p, tm, tk, tn).count


def fold_period(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> Int64:
    """PE steps from the start of one fold of a tile to the start of the next."""
    return _cut(p, tm, tk, tn).period


def weights_times(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> Int64:
    """Cycles, both occupy and latency, of the `weights` task: the shift of the first fold through all rows; 0 in os."""
    folds = _cut(p, tm, tk, tn)
    steps = np.full_like(folds.steps, 0 if p.dataflow == "os" else p.rows)
    return _cycles(p, steps)


def stream_times(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> StreamTimes:
    """Cycles of the `stream` task of each tile."""
    folds = _cut(p, tm, tk, tn)
    useful = folds.count * folds.steps
    weights_in_stream, fill = _waits(p, folds)
    occupy = useful + weights_in_stream + fill
    latency = _last_result(p, folds) if p.fold_overlap else occupy
    to_useful, to_weights, to_end = (
        _cycles(p, steps) for steps in (useful, useful + weights_in_stream, occupy)
    )  # rounded as running sums, so that the parts still sum to occupy
    return StreamTimes(
        occupy=to_end,
        latency=_cycles(p, latency),
        useful=to_useful,
        weights_in_stream=to_weights - to_useful,
        fill=to_end - to_weights,
        next_weights_lag=_cycles(p, _next_weights_steps(p, folds, occupy)),
    )


def drain_times(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> DrainTimes:
    """Cycles of the `drain` task of each tile.

    In ws and is it follows the last K tile and reads accumulator rows, each when its last element is complete, column
    fold after column fold. In os every K tile has one: it shifts the results of each fold out of the columns. Serial
    folds charge no drain, and lag is then the stream's latency.

    At a rate of at least `cols` elements a cycle (and rate 1) it ends one cycle after the stream's last result, but up
    to cols - n cycles later when the last column fold is ragged with n columns: rows leave whole and in order.
    """
    folds = _cut(p, tm, tk, tn)
    if not p.fold_overlap:
        zero = np.zeros_like(folds.steps)
        return DrainTimes(zero, zero, stream_times(p, tm, tk, tn).latency)
    if p.dataflow == "os":
        return _output_shift_times(p, folds)
    return _accumulator_drain_times(p, folds)


def next_stream_lag(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes, k_next: Sizes) -> Int64:
    """Cycles from a stream's start to the earliest start of the next tile's stream on the array, of k_next steps.

    In ws and is this is `occupy` (the weights task holds the next stream back where needed). In os the next tile's
    results need free output registers; with this lag its drain never waits. Both tiles run at the rate of `p`: where
    the rate changes, a faster wave would overtake a slower one, and the next tile must wait for an empty array.
    """
    stream = stream_times(p, tm, tk, tn)
    following = np.array(k_next, dtype=np.int64)
    if p.dataflow != "os" or not p.fold_overlap:
        return stream.occupy + np.zeros_like(following)
    folds = _cut(p, tm, tk, tn)
    wait = np.maximum(0, p.rows - following) if p.output_double_buffer else np.full_like(following, p.rows - 1)
    registers_free = _cycles(p, folds.last_start + folds.steps + wait)
    drain = _output_shift_times(p, folds)
    drain_free = drain.lag + drain.occupy - _cycles(p, following + p.rows - 1)  # later only by rounding
    lag: Int64 = np.maximum(registers_free, drain_free)
    return lag


def isolated_cycles(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> Int64:
    """Cycles of a tile alone on the array: weights, stream and drain, operands and destination being there."""
    stream, drain = stream_times(p, tm, tk, tn), drain_times(p, tm, tk, tn)
    last: Int64 = np.maximum(stream.latency, drain.lag + drain.latency)
    return weights_times(p, tm, tk, tn) + last


def operand_reads(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> OperandReads:
    """Scratchpad reads of each tile: a stationary operand once, a streamed one once per fold that it crosses."""
    m, k, n = _tiles(tm, tk, tn)
    a_passes = np.ones_like(n) if p.dataflow == "is" else ceil_div(n, p.cols)
    rows_of_b = {"ws": m, "os": np.full_like(m, p.rows), "is": np.full_like(m, p.cols)}[p.dataflow]
    return OperandReads(a=a_passes * m * k, b=ceil_div(m, rows_of_b) * k * n)


def accumulator_accesses(
    p: ArrayParameters,
    tm: Sizes,
    tk: Sizes,
    tn: Sizes,
    first_k: bool | NDArray[np.bool_] = True,
    last_k: bool | NDArray[np.bool_] = True,
) -> AccumulatorAccesses:
    """Partial sums of each tile; first_k, last_k tell whether it is the first and the last K tile of its output.

    ws and is write every k fold, and read it but for the first of the output. os adds within its PEs: only an output
    cut in several K tiles uses the accumulator, once a tile. The drain's reads are not among these.
    """
    m, k, n = _tiles(tm, tk, tn)
    first, last = np.asarray(first_k, dtype=bool), np.asarray(last_k, dtype=bool)
    k_folds = np.ones_like(k) if p.dataflow == "os" else ceil_div(k, p.rows)
    used = ~(first & last) | (p.dataflow != "os")
    return AccumulatorAccesses(reads=used * (k_folds - first) * m * n, writes=used * k_folds * m * n)


def _tiles(tm: Sizes, tk: Sizes, tn: Sizes) -> tuple[Int64, Int64, Int64]:
    """The sizes as int64 arrays of one shape, none below 1 and their product (all access counts) within int64."""
    m, k, n = (
        np.array(size, dtype=np.int64) for size in np.broadcast_arrays(np.asarray(tm), np.asarray(tk), np.asarray(tn))
    )
    if m.size and min(m.min(), k.min(), n.min()) < 1:
        raise InternalError("systolic tile has a size below 1")
    _require_in_range(m.astype(np.float64) * k * n)
    return m, k, n


def _cut(p: ArrayParameters, tm: Sizes, tk: Sizes, tn: Sizes) -> _Folds:
    m, k, n = _tiles(tm, tk, tn)
    steps, on_rows, on_cols = {"ws": (m, k, n), "os": (k, m, n), "is": (n, k, m)}[p.dataflow]
    row_folds, col_folds = ceil_div(on_rows, p.rows), ceil_div(on_cols, p.cols)
    folds = _Folds(
        steps=steps,
        row_folds=row_folds,
        col_folds=col_folds,
        last_rows=on_rows - (row_folds - 1) * p.rows,
        last_cols=on_cols - (col_folds - 1) * p.cols,
        period=_period(p, steps),
    )
    _require_in_range(_most_cycles(p, steps.astype(np.float64), (row_folds * col_folds).astype(np.float64)))
    return folds


def counts_fit(p: ArrayParameters, tm: int, tk: int, tn: int) -> bool:
    """True if no count of a tile could leave int64, so that the other functions take it."""
    m, k, n = float(tm), float(tk), float(tn)
    steps, on_rows, on_cols = {"ws": (m, k, n), "os": (k, m, n), "is": (n, k, m)}[p.dataflow]
    folds = -(-on_rows // p.rows) * -(-on_cols // p.cols)
    return max(m * k * n, _most_cycles(p, steps, folds)) < COUNT_LIMIT


def _most_cycles(p: ArrayParameters, steps: Float, folds: Float) -> Float:
    """Upper bound on every count of a tile's cycles."""
    return (steps + 2 * p.rows + p.cols) * folds * _largest_units_per_step(p)


def _largest_units_per_step(p: ArrayParameters) -> float:
    """Upper bound on what a count of steps or rows is multiplied with on its way to cycles."""
    drain = p.drain_elements_per_cycle
    row = 0.0 if drain is None else float(p.cols) * drain.denominator + p.rate.numerator * (p.cols / float(drain) + 1)
    return p.rate.denominator + p.rate.numerator + row


def _period(p: ArrayParameters, steps: Int64) -> Int64:
    if not p.fold_overlap:
        return steps + p.rows + p.cols - 2 + (0 if p.dataflow == "os" else p.rows)
    if p.dataflow == "os":
        return np.maximum(steps, p.rows) if p.output_double_buffer else steps + p.rows - 1
    return np.maximum(steps, p.rows) if p.weight_double_buffer else steps + p.rows


def _waits(p: ArrayParameters, folds: _Folds) -> tuple[Int64, Int64]:
    """(weights_in_stream, fill) of a tile, in steps."""
    between = (folds.count - 1) * (folds.period - folds.steps)
    none = np.zeros_like(between)
    if not p.fold_overlap:
        weights = none if p.dataflow == "os" else (folds.count - 1) * p.rows
        return weights, folds.count * (p.rows + p.cols - 2)
    return (none, between) if p.dataflow == "os" else (between, none)


def _next_weights_steps(p: ArrayParameters, folds: _Folds, occupy: Int64) -> Int64:
    if p.dataflow == "os":
        return np.zeros_like(occupy)
    return folds.last_start if p.weight_double_buffer else occupy


def _start(p: ArrayParameters, folds: _Folds, cols_back: Sizes) -> Int64:
    """Steps from the stream's start to the fold that lies so many column folds before the last one."""
    stride = 1 if p.dataflow == "os" else folds.row_folds
    return folds.last_start - cols_back * stride * folds.period


def _latest(p: ArrayParameters, folds: _Folds) -> Int64:
    """Largest start + columns of a fold: a full column fold may outlast the ragged one that follows it.

    A ragged row fold of os is always the last to end: it starts at least `rows` steps after the full one before it.
    """
    ragged = _start(p, folds, 0) + folds.last_cols
    full = _start(p, folds, 1) + p.cols
    return np.where(folds.col_folds > 1, np.maximum(ragged, full), ragged)


def _last_result(p: ArrayParameters, folds: _Folds) -> Int64:
    """Steps from the stream's start to the last result of any fold.

    A fold of m steps gives its last result m + rows + cols - 2 after its start. In ws and is the results run down all
    rows of the array; in os only the rows in use count.
    """
    rows = folds.last_rows if p.dataflow == "os" else p.rows
    return folds.steps + rows + _latest(p, folds) - 2


def _output_shift_times(p: ArrayParameters, folds: _Folds) -> DrainTimes:
    """os: column c of a fold shifts `rows` times from the step after its bottom row's last multiply-accumulate."""
    return DrainTimes(
        occupy=_cycles(p, folds.last_start + p.rows),
        latency=_cycles(p, _latest(p, folds) + p.rows - 1),
        lag=_cycles(p, folds.steps + p.rows - 1),
    )


def _accumulator_drain_times(p: ArrayParameters, folds: _Folds) -> DrainTimes:
    """ws and is, in units of 1/numerator(rate) cycle: a row leaves no faster than a step and its elements allow.

    Row i of column fold j is complete in step start_j + rows + cols_j - 2 + i and leaves with j full folds and i rows
    before it. Rows leave no faster than they come, so the first row of a fold decides; over the full folds the lag
    that it needs is linear in j, so the first and the last full fold and the last fold decide.
    """
    unit, step = p.rate.numerator, p.rate.denominator
    full_row = np.maximum(step, unit * _row_drain_cycles(p, np.full_like(folds.last_cols, p.cols)))
    last_row = np.maximum(step, unit * _row_drain_cycles(p, folds.last_cols))
    full_folds = folds.col_folds - 1

    def lag(cols_back: Sizes, cols: Int64) -> Int64:
        complete = _start(p, folds, cols_back) + p.rows + cols - 2
        return step * complete - (full_folds - cols_back) * folds.steps * full_row

    width = np.where(full_folds > 0, p.cols, folds.last_cols)
    candidates = lag(0, folds.last_cols), lag(np.minimum(full_folds, 1), width), lag(full_folds, width)
    occupy = ceil_div(folds.steps * (full_folds * full_row + last_row), unit)
    return DrainTimes(occupy=occupy, latency=occupy + 1, lag=ceil_div(np.maximum.reduce(candidates), unit))


def _row_drain_cycles(p: ArrayParameters, cols: Int64) -> Int64:
    """Cycles to read an accumulator row of `cols` elements, 0 when unlimited."""
    rate = p.drain_elements_per_cycle
    return np.zeros_like(cols) if rate is None else ceil_div(cols * rate.denominator, rate.numerator)


def _cycles(p: ArrayParameters, steps: Int64) -> Int64:
    return ceil_div(steps * p.rate.denominator, p.rate.numerator)


def _require_in_range(bound: NDArray[np.float64]) -> None:
    if bound.size and bound.max() >= COUNT_LIMIT:
        raise InternalError(f"a systolic tile's counts could leave int64: up to {bound.max():.3g}")
