"""Memory requests of tiles: which rows of DRAM a block of a strided operand is, all tiles at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.produced import Span
from accelsim.trace.matmul import Layout

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Tiles:
    """Blocks of a [batch, row, column] operand, n of them: first index and size along each dimension."""

    batch: Int64
    row: Int64
    rows: Int64
    column: Int64
    columns: Int64

    def spans(self, layout: Layout) -> list[Span]:
        """The tiles as index ranges of the operand's dimensions."""
        return [
            Span(layout.batch_stride, self.batch, self.batch + 1),
            Span(layout.row_stride, self.row, self.row + self.rows),
            Span(layout.column_stride, self.column, self.column + self.columns),
        ]

    def take(self, index: Int64) -> Tiles:
        """Only the tiles at `index`."""
        return Tiles(self.batch[index], self.row[index], self.rows[index], self.column[index], self.columns[index])


@dataclass(frozen=True)
class Requests:
    """n requests: `rows` runs of `row_bytes` bytes, `pitch` bytes apart, from byte `address`; all int64 [n]."""

    address: Int64
    rows: Int64
    row_bytes: Int64
    pitch: Int64

    @property
    def bytes(self) -> Int64:
        return self.rows * self.row_bytes

    def take(self, index: Int64) -> Requests:
        """Only the requests at `index`."""
        return Requests(self.address[index], self.rows[index], self.row_bytes[index], self.pitch[index])


def tile_requests(tiles: Tiles, layout: Layout, element_bytes: int) -> Requests:
    """The requests that fetch or store the tiles; addresses count from the start of the tensor.

    Runs follow whichever dimension is contiguous; an operand with neither is fetched element by element. Runs that
    touch one another (a pitch equal to their length) are one run.
    """
    first = (
        layout.offset
        + tiles.batch * layout.batch_stride
        + tiles.row * layout.row_stride
        + tiles.column * layout.column_stride
    )
    along_rows = _runs(tiles.rows, tiles.columns, layout.row_stride)
    along_columns = _runs(tiles.columns, tiles.rows, layout.column_stride)
    step = min(layout.row_stride, layout.column_stride)
    single = (tiles.rows * tiles.columns, np.ones_like(first), np.full_like(first, step))
    row_wise = (layout.column_stride == 1) | (tiles.columns == 1)
    column_wise = (layout.row_stride == 1) | (tiles.rows == 1)
    rows, length, pitch = (
        np.where(row_wise, by_row, np.where(column_wise, by_column, alone))
        for by_row, by_column, alone in zip(along_rows, along_columns, single, strict=True)
    )
    joined = (pitch == length) & (rows > 1)
    rows, length = np.where(joined, 1, rows), np.where(joined, rows * length, length)
    pitch = np.where(rows == 1, length, pitch)
    return Requests(first * element_bytes, rows, length * element_bytes, pitch * element_bytes)


def packed_requests(tiles: Tiles, rows: int, columns: int, element_bytes: int) -> Requests:
    """As `tile_requests`, for an operand of [batch, rows, columns] that lies tile after tile: each is one run."""
    before = (tiles.batch * rows + tiles.row) * columns + tiles.rows * tiles.column
    size = tiles.rows * tiles.columns * element_bytes
    return Requests(before * element_bytes, np.ones_like(size), size, size)


def _runs(count: Int64, length: Int64, stride: int) -> tuple[Int64, Int64, Int64]:
    return count, length, np.full_like(count, stride)
