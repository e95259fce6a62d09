"""Reads across rows: units that take elements of many rows at once, and the cycles that the banks need for that.

A systolic array takes a vector a step. Where the vector runs along the rows in which an operand lies, it is a few
words of neighbouring banks. Where it runs across them, each element comes from a row of its own, and rows a multiple
of the banks apart meet in the same bank (docs/scratchpad.md). A transposing buffer hides that; without one it is
charged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.sections import Scratchpad
from accelsim.arch.spec import Arch
from accelsim.compile.requests import Requests
from accelsim.compile.work import MatmulWork
from accelsim.hardware.scratchpad import padded_pitch, transposed_cycles
from accelsim.trace.matmul import Layout
from accelsim.trace.model import Operand

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

_DIMENSIONS = {"a": ("m", "k", "n"), "b": ("k", "n", "m")}  # row, column, and the one that does not index the operand
_SIDES = {  # the dimensions that lie on the array, and where
    "ws": {"k": "rows", "n": "cols"},
    "is": {"k": "rows", "m": "cols"},
    "os": {"m": "rows", "n": "cols"},
}


@dataclass(frozen=True)
class ReadAcross:
    """An operand of a matmul that the array reads `lanes` elements at a time, each from another row.

    rows, columns: the dimensions that index the rows in which it lies, and the elements of a row. other: the third,
    along which a moving operand is read anew for every `fold`; None for a stationary one. pitch_bytes: from row to row
    of a tensor on chip, None in a slot, where rows lie packed or, if `padded`, as `padded_pitch` says.
    """

    banks: int
    bank_width_bytes: int
    ports: int
    operand: str
    rows: str
    columns: str
    other: str
    fold: int | None
    lanes: int
    element_bytes: int
    pitch_bytes: int | None
    padded: bool

    def pitch(self, columns: Int64) -> Int64:
        """Bytes from row to row of tiles of so many columns."""
        packed = columns * self.element_bytes
        if self.pitch_bytes is not None:
            return np.full_like(packed, self.pitch_bytes)
        return padded_pitch(packed, self.banks, self.bank_width_bytes) if self.padded else packed

    def slot_bytes(self, tile: Mapping[str, Int64]) -> Int64:
        """Bytes of a slot for tiles of the given sizes along m, n and k."""
        size: Int64 = tile[self.rows] * self.pitch(tile[self.columns])
        return size

    def passes(self, other: Int64) -> Int64:
        """How often a tile is read whose third dimension has the given size."""
        return np.ones_like(other) if self.fold is None else -(-other // self.fold)

    def cycles(self, rows: Int64, columns: Int64, corner: tuple[int, int] | None = None) -> Int64:
        """Cycles of reading each tile once, or only its first `corner` rows and columns."""
        rows, columns = np.broadcast_arrays(rows, columns)
        span = int(columns.max(initial=0)) + 1
        distinct, place = np.unique(rows * span + columns, return_inverse=True)
        sizes = np.divmod(distinct, span)
        most = corner or (span * int(rows.max(initial=0)), span)
        cycles = [
            transposed_cycles(
                self.banks, self.bank_width_bytes, self.ports, pitch, self.element_bytes,
                min(row, most[0]), min(column, most[1]), self.lanes,
            )
            for row, column, pitch in zip(*(part.tolist() for part in (*sizes, self.pitch(sizes[1]))), strict=True)
        ]  # fmt: skip
        result: Int64 = np.array(cycles, np.int64)[place.reshape(rows.shape)]
        return result

    def matmul_cycles(self, sizes: Mapping[str, tuple[int, Int64]]) -> Float64:
        """Cycles of all reads of one batch; sizes: of each dimension the total and the tile."""
        total: Float64 = np.zeros(())
        for row_tiles, rows in parts(*sizes[self.rows]):
            for column_tiles, columns in parts(*sizes[self.columns]):
                total = total + row_tiles.astype(np.float64) * column_tiles * self.cycles(rows, columns)
        return total * summed(*sizes[self.other], self.passes)


def parts(total: int, tile: Int64) -> tuple[tuple[Int64, Int64], tuple[Int64, Int64]]:
    """(how many, their size) of the whole tiles of a dimension and of the ragged last one."""
    whole, rest = total // tile, total % tile
    size = np.minimum(tile, total)
    return (whole, size), (np.minimum(rest, 1), np.where(rest > 0, rest, size))


def summed(total: int, tile: Int64, function: Callable[[Int64], Int64]) -> Int64:
    """Sum of function(size) over the tiles of a dimension."""
    (whole, size), (ragged, rest) = parts(total, tile)
    return whole * function(size) + ragged * function(rest)


def reads_across(arch: Arch, work: MatmulWork, places: Sequence[str]) -> tuple[ReadAcross, ...]:
    """The reads across rows that the banks of a machine without a transposing buffer feel; `places`: of a and b."""
    if arch.scratchpad.transpose == "buffer":
        return ()
    found = (_read_across(arch, work, operand, place) for operand, place in zip("ab", places, strict=False))
    return tuple(read for read in found if read is not None)


def _read_across(arch: Arch, work: MatmulWork, operand: str, place: str) -> ReadAcross | None:
    """None where the operand is read along its rows."""
    layout, width = (work.view.a, work.a_bytes) if operand == "a" else (work.view.b, work.b_bytes)
    *own, other = _DIMENSIONS[operand]
    rows, columns = own if _lies_by_rows(layout) else reversed(own)
    sides = _SIDES[work.array.dataflow]
    length = {"rows": work.array.rows, "cols": work.array.cols}
    vector = max((name for name in own if name in sides), key=lambda name: sides[name] == "cols")
    if vector != rows:
        return None
    pad = arch.scratchpad
    pitch = _pitch_on_chip(pad, max(layout.row_stride if rows == own[0] else layout.column_stride, 1) * width)
    return ReadAcross(
        banks=pad.banks, bank_width_bytes=pad.bank_width_bytes, ports=pad.ports, operand=operand, rows=rows,
        columns=columns, other=other, fold=length[sides[other]] if other in sides else None,
        lanes=length[sides[vector]], element_bytes=width, pitch_bytes=pitch if place == "scratchpad" else None,
        padded=pad.transpose == "padding",
    )  # fmt: skip


def _pitch_on_chip(pad: Scratchpad, stride_bytes: int) -> int:
    """Bytes from row to row of a tensor on chip whose rows follow one another so many bytes apart without padding."""
    if pad.transpose != "padding":
        return stride_bytes
    return int(padded_pitch(stride_bytes, pad.banks, pad.bank_width_bytes))


def _lies_by_rows(layout: Layout) -> bool:
    """True where the elements of a row are neighbours. What has no neighbours is fetched row by row."""
    return layout.column_stride == 1 or layout.row_stride != 1


def strided_pass_cycles(arch: Arch, view: Operand, width: int, requests: Requests, place: str) -> Int64:
    """Cycles that the banks need for the vector unit to read tiles of a strided view in the view's own order.

    `requests` tell the rows in which the tiles lie; in a slot those are packed. Where the view runs along them, as in
    a transpose of heads, a group of lanes takes whole rows; where it runs across, a column or several.
    """
    pad, lanes = arch.scratchpad, arch.vector.lanes if arch.vector is not None else 1
    along = view.strides[-1:] in ((), (1,))
    if pad.transpose == "buffer" or (along and place != "scratchpad"):
        return np.zeros_like(requests.rows)
    shapes = np.stack([requests.rows, requests.row_bytes, requests.pitch])
    distinct, index = np.unique(shapes, axis=1, return_inverse=True)
    cycles = []
    for rows, run, pitch in distinct.T.tolist():
        if along:
            element, columns, group = run, 1, max(1, lanes * width // run)
        else:
            wide = min(max(1, lanes // rows), run // width)  # columns that a group takes side by side
            element, columns, group = wide * width, -(-run // (wide * width)), lanes
        distance = max(_pitch_on_chip(pad, pitch), run) if place == "scratchpad" else run
        cycles.append(
            transposed_cycles(pad.banks, pad.bank_width_bytes, pad.ports, distance, element, rows, columns, group)
        )
    return np.array(cycles, np.int64)[index.ravel()]
