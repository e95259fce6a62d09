"""What a vector operator's tiles touch of each operand: requests to fetch it, and spans to find its writers.

Tiles are ranges [begin, begin + length) of the operator's elements, counted row after row; all arrays are [T].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.fuse import contiguous, elements
from accelsim.compile.produced import Span
from accelsim.compile.requests import Requests
from accelsim.trace.model import Operand

Int64 = NDArray[np.int64]


_WHOLE_SHARE = 4  # at most a quarter of the scratchpad


@dataclass(frozen=True)
class Access:
    """Requests [T] that fetch each tile's part of an operand, spans [T] around it, and what tells the parts apart."""

    requests: Requests
    spans: list[Span]
    tile_id: Int64


def stream_access(view: Operand, width: int, begin: Int64, length: Int64) -> Access:
    """A range of the view's own elements: one run where the view is contiguous, else a run for each of its rows, or
    for each of its columns where those are what lies contiguous (a transposed matrix).

    Rows follow at the stride of the innermost leading dimension. Where a tile goes past the end of that dimension of a
    view that does not merge (a transpose of heads) rows and bytes are exact, later rows' addresses are not.
    """
    first = _first_address(view, begin)
    if contiguous(view, ignore_offset=True):
        return Access(
            _requests(width, first, np.ones_like(first), length, length), spans_of(view, begin, length), begin
        )
    columns, step = view.shape[-1], view.strides[-1]
    leading = [stride for size, stride in zip(view.shape[:-1], view.strides[:-1], strict=True) if size > 1]
    if step == 1:
        rows, run = np.maximum(1, length // columns), np.minimum(length, columns)
        pitch = np.full_like(first, leading[-1] if leading else columns)
    elif leading == [1] and not (length % columns).any():
        rows, run, pitch = np.full_like(first, columns), length // columns, np.full_like(first, step)
    else:
        rows, run, pitch = length, np.ones_like(first), np.full_like(first, step)
    return Access(_requests(width, first, rows, run, pitch), spans_of(view, begin, length), begin)


def whole_access(view: Operand, width: int, tiles: int) -> Access:
    """All of the view, for every tile."""
    none = np.zeros(tiles, np.int64)
    return stream_access(view, width, none, none + elements(view))


def block_access(view: Operand, width: int, full: tuple[int, ...], begin: Int64, length: Int64) -> Access:
    """The part of a broadcast operand that each tile reads, of an operator of shape `full`.

    That is a range of one of its blocks: the leading indices tell which. It waits for the writers of all of it.
    """
    block = block_elements(view, full)
    offset, index, inner = begin % block, begin // block, 1
    for axis in range(1, len(full) + 1):
        inner *= full[-axis]
        if inner > block:
            of_view = axis <= len(view.shape) and view.shape[-axis] > 1
            offset = offset + (index % full[-axis]) * (view.strides[-axis] if of_view else 0)
            index = index // full[-axis]
    requests = _requests(width, view.offset + offset, np.ones_like(begin), length, length)
    return Access(requests, _around(view, begin.size), offset)


def block_elements(view: Operand, full: tuple[int, ...]) -> int:
    """Elements over which a broadcast operand follows the operator's one by one: its trailing full dimensions."""
    count = 1
    for size, own in zip(reversed(full), reversed(view.shape), strict=False):
        if size != own:
            break
        count *= own
    return count


def is_blocked(view: Operand, element_bytes: int, scratchpad_bytes: int) -> bool:
    """True for a broadcast operand too large to be kept whole beside a matmul's tiles."""
    return too_large_to_keep(elements(view) * element_bytes, scratchpad_bytes)


def too_large_to_keep(size: int, scratchpad_bytes: int) -> bool:
    """True for `size` bytes that are more than may be kept whole beside a matmul's tiles."""
    return size > scratchpad_bytes // _WHOLE_SHARE


def gather_access(table: Operand, width: int, columns: int, begin: Int64, length: Int64) -> Access:
    """Some rows of a table, nobody knows which: as many as the tile has, after the writers of all of them."""
    run = np.full_like(begin, columns)
    pitch = np.full_like(begin, max(columns, table.strides[0]))
    requests = _requests(width, np.full_like(begin, table.offset), length // columns, run, pitch)
    return Access(requests, _around(table, begin.size), begin)


def reduce_access(view: Operand, width: int, axes: tuple[int, ...], cols: int, begin: Int64, length: Int64) -> Access:
    """What a tile of a reduction's results reads: rows of the view where its last axes are reduced, a strip of all its
    rows where its first ones are, else its elements as they come; the latter two after the writers of all of it."""
    rank = len(view.shape)
    reduced = sorted(axis % rank for axis in axes)
    if reduced == list(range(rank - len(reduced), rank)):
        return stream_access(view, width, begin, length)
    around = _around(view, begin.size)
    if reduced != list(range(len(reduced))):
        return Access(stream_access(view, width, begin, length).requests, around, begin)
    first, strip = begin // cols, length // cols
    pitch = np.full_like(begin, elements(view) // cols)
    return Access(_requests(width, view.offset + first, np.full_like(begin, cols), strip, pitch), around, begin)


def spans_of(view: Operand, begin: Int64, length: Int64) -> list[Span]:
    """Index ranges of each dimension that hold the elements [begin, begin + length) of the view."""
    inner = elements(view)
    low, high = begin, begin + length - 1
    spread = np.zeros(begin.shape, bool)  # the range covers several indices of an outer dimension
    spans = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        inner //= size
        first, last = np.where(spread, 0, low // inner), np.where(spread, size - 1, high // inner)
        spans.append(Span(stride, first, last + 1))
        spread = spread | (first != last)
        low, high = low % inner, high % inner
    return spans


def _around(view: Operand, tiles: int) -> list[Span]:
    none = np.zeros(tiles, np.int64)
    return spans_of(view, none, none + elements(view))


def _first_address(view: Operand, begin: Int64) -> Int64:
    """Element address of the view's element `begin`."""
    address, index = np.full_like(begin, view.offset), begin
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        address = address + (index % size) * stride
        index = index // size
    return address


def _requests(width: int, address: Int64, rows: Int64, run: Int64, pitch: Int64) -> Requests:
    pitch = np.where(rows == 1, run, pitch)
    return Requests(address * width, rows, run * width, pitch * width)
