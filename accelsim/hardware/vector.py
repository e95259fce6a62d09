"""Closed-form time of one pass of an operator's recipe on the vector unit. Numbers in, numbers out.

The unit has `lanes` lanes. A vector of `lanes` elements takes one slot (one cycle) for every simple elementary function
and 1/rate slots for every special one; a reduction along the row ends in a tree over the lanes. Lower bound of any
pass: elements / lanes cycles for each simple function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.errors import InputError, InternalError

Int64 = NDArray[np.int64]

SIMPLE_FUNCTIONS = frozenset({"add", "mul", "max", "compare", "convert", "move"})
"""One result per lane and cycle. `compare` also selects; `max` is also min; `move` carries data through the lanes."""

SPECIAL_FUNCTIONS = frozenset({"exp", "erf", "tanh", "rsqrt", "div", "log", "sqrt"})
"""Functions whose results per lane and cycle are keys of the machine (`vector.rate`)."""

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Numbers of the machine.

    rates: results per lane and cycle of each special function, exact. pipeline_depth: cycles from a pass's last slot
    to its result. share_bytes_per_cycle: the unit's part of the scratchpad's bandwidth, None for unlimited.
    """

    lanes: int
    rates: Mapping[str, Fraction]
    pipeline_depth: int = 0
    share_bytes_per_cycle: int | None = None


@dataclass(frozen=True, slots=True)
class PassWork:
    """Numbers of one pass: elementary functions and scratchpad bytes, each per element or once per row.

    A pass with `reduce` combines the elements of a row, so that its rows are aligned to vectors.
    """

    functions: Mapping[str, int] = field(default_factory=dict)
    row_functions: Mapping[str, int] = field(default_factory=dict)
    reduce: bool = False
    read_bytes_per_element: int = 0
    write_bytes_per_element: int = 0
    read_bytes_per_row: int = 0
    write_bytes_per_row: int = 0


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Times and counts of passes, each an int64 array of the broadcast shape of rows and cols.

    occupy = useful + reduction_tail + scratchpad and latency = occupy + pipeline depth, in cycles; read_bytes and
    write_bytes go to and from the scratchpad; simple_ops and special_ops are lane operations.
    """

    occupy: Int64
    latency: Int64
    useful: Int64
    reduction_tail: Int64
    scratchpad: Int64
    read_bytes: Int64
    write_bytes: Int64
    simple_ops: Int64
    special_ops: Int64


def pass_times(rows: ArrayLike, cols: ArrayLike, work: PassWork, unit: VectorUnit) -> PassTimes:
    """Time a pass over `rows` x `cols` elements (integers or int64 arrays that broadcast).

    useful = ceil(vectors x slots of an element + ceil(rows / lanes) x slots of a row), rounded once. The excess of
    the scratchpad's time, ceil(bytes / share), over useful + reduction_tail is `scratchpad`.

    Raises InputError for a function without a rate, InternalError for sizes that are not positive or overflow int64.
    """
    rows, cols = _sizes(rows, cols, work, unit)
    vectors = vector_count(rows, cols, unit.lanes, work.reduce)
    useful = _slots(vectors, work.functions, _ceil_div(rows, unit.lanes), work.row_functions, unit.rates)
    tail = reduction_tail(rows, cols, unit.lanes) if work.reduce else np.zeros_like(useful)
    read_bytes = rows * cols * work.read_bytes_per_element + rows * work.read_bytes_per_row
    write_bytes = rows * cols * work.write_bytes_per_element + rows * work.write_bytes_per_row
    occupy = np.maximum(useful + tail, _transfer_cycles(read_bytes + write_bytes, unit.share_bytes_per_cycle))
    return PassTimes(
        occupy=occupy,
        latency=occupy + unit.pipeline_depth,
        useful=useful,
        reduction_tail=tail,
        scratchpad=occupy - useful - tail,
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        simple_ops=_operations(rows, cols, work, special=False),
        special_ops=_operations(rows, cols, work, special=True),
    )


def vector_count(rows: Int64, cols: Int64, lanes: int, reduce: bool) -> Int64:
    """Vectors that hold rows x cols elements.

    Without a reduction elements are packed. With one a row starts a vector of its own, or, where it is shorter than
    the lanes, floor(lanes / cols) whole rows share a vector.
    """
    if not reduce:
        return _ceil_div(rows * cols, lanes)
    rows_per_vector = np.maximum(lanes // cols, 1)
    return _ceil_div(rows, rows_per_vector) * _ceil_div(cols, lanes)


def reduction_tail(rows: Int64, cols: Int64, lanes: int) -> Int64:
    """Exposed cycles of the reduction tree: its depth, once for each group of `lanes` rows.

    The tree is pipelined, a vector a cycle, so within a group only the last row's tree is exposed. A row is spread
    evenly over its vectors and the tree spans the lanes that takes, ceil(cols / vectors); counting all lanes instead
    would make 65 lanes slower than 64 for a row of 128.
    """
    width = _ceil_div(cols, _ceil_div(cols, lanes))
    depth = np.frexp(width - 1)[1].astype(np.int64)  # bits of width - 1 = ceil(log2(width)), exact below 2^53
    return depth * _ceil_div(rows, lanes)


def slots_per_vector(functions: Mapping[str, int], rates: Mapping[str, Fraction]) -> Fraction:
    """Exact slots that a vector takes for a mapping function -> count. Raises InputError for one without a rate."""
    return sum((count / _rate(name, rates) for name, count in functions.items()), Fraction(0))


def _rate(function: str, rates: Mapping[str, Fraction]) -> Fraction:
    if function in SIMPLE_FUNCTIONS:
        return Fraction(1)
    if function not in rates:
        raise InputError(
            f"the vector unit has no rate for {function!r}",
            where=f"vector.rate.{function}",
            remedy=f"add the results of {function!r} per lane and cycle, e.g. 1/4",
        )
    return Fraction(rates[function])


def _slots(
    vectors: Int64,
    functions: Mapping[str, int],
    row_vectors: Int64,
    row_functions: Mapping[str, int],
    rates: Mapping[str, Fraction],
) -> Int64:
    """ceil(vectors x slots + row_vectors x row slots) without rounding in between."""
    element, row = slots_per_vector(functions, rates), slots_per_vector(row_functions, rates)
    denominator = int(np.lcm.reduce(np.array([element.denominator, row.denominator], dtype=object)))
    element_units, row_units = int(element * denominator), int(row * denominator)
    largest = int(vectors.max(initial=0)) * element_units + int(row_vectors.max(initial=0)) * row_units + denominator
    if -(-largest // denominator) > _INT64_MAX:
        raise InternalError(f"a vector pass of {largest // denominator} cycles overflows int64")
    if largest > _INT64_MAX:  # rates like 0.123456789012: exact in Python integers
        vectors, row_vectors = vectors.astype(object), row_vectors.astype(object)
    total = vectors * element_units + row_vectors * row_units
    return np.asarray(-(-total // denominator), dtype=np.int64)


def _operations(rows: Int64, cols: Int64, work: PassWork, special: bool) -> Int64:
    def count(functions: Mapping[str, int]) -> int:
        return sum(times for name, times in functions.items() if (name not in SIMPLE_FUNCTIONS) == special)

    return rows * cols * count(work.functions) + rows * count(work.row_functions)


def _transfer_cycles(moved_bytes: Int64, share_bytes_per_cycle: int | None) -> Int64:
    return (
        np.zeros_like(moved_bytes) if share_bytes_per_cycle is None else _ceil_div(moved_bytes, share_bytes_per_cycle)
    )


def _sizes(rows: ArrayLike, cols: ArrayLike, work: PassWork, unit: VectorUnit) -> tuple[Int64, Int64]:
    """rows and cols as int64 arrays of one shape, once they are known to be positive and to fit."""
    rows_array, cols_array = np.broadcast_arrays(np.asarray(rows, np.int64), np.asarray(cols, np.int64))
    share = unit.share_bytes_per_cycle
    if min(int(rows_array.min(initial=1)), int(cols_array.min(initial=1)), unit.lanes, share or 1) < 1 or share == 0:
        raise InternalError(f"a vector pass needs rows, cols, lanes and share >= 1; got {rows!r}, {cols!r}, {unit}")
    per_element = max(
        sum(work.functions.values()) + sum(work.row_functions.values()),
        work.read_bytes_per_element + work.write_bytes_per_element + work.read_bytes_per_row + work.write_bytes_per_row,
        1,
    )
    largest = int(rows_array.max(initial=1)) * int(cols_array.max(initial=1)) * per_element
    if largest > _INT64_MAX:
        raise InternalError(f"a vector pass over {rows!r} x {cols!r} elements overflows int64")
    return rows_array, cols_array


def _ceil_div(a: Int64, b: Int64 | int) -> Int64:
    return np.asarray(-(-a // b), dtype=np.int64)
