"""Which task finishes which part of a tensor: lets a consumer's tile wait for just the producer tiles it reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """Index ranges [low, high) of one dimension of a view, for every tile [n], and the dimension's stride."""

    stride: int
    low: Int64
    high: Int64

    def take(self, index: Int64) -> Span:
        """Only the tiles at `index`."""
        return Span(self.stride, self.low[index], self.high[index])


@dataclass(frozen=True)
class Produced:
    """Writers of one tensor, seen as [rows, cols] cut into blocks that start at `row_starts` and `col_starts`.

    `grids` [units, row blocks, column blocks] holds, per writing unit, the id of the task that finishes the block
    (-1 where that unit writes nothing); `lags` alike: cycles to add to its `done` so that every earlier task of that
    unit is done as well.
    """

    cols: int
    row_starts: Int64
    col_starts: Int64
    grids: Int64
    lags: Int64

    def writers(self, offset: int, spans: list[Span]) -> tuple[Int64, Int64]:
        """Ids and lags [units, n] of the last writer, per unit, of what each of n tiles of a view touches."""
        row_low, row_high, col_low, col_high = self._rectangles(offset, spans)
        ids = _rectangle_maximum(
            self.grids,
            np.searchsorted(self.row_starts, row_low, "right") - 1,
            np.searchsorted(self.row_starts, row_high - 1, "right"),
            np.searchsorted(self.col_starts, col_low, "right") - 1,
            np.searchsorted(self.col_starts, col_high - 1, "right"),
        )
        return ids, self._lag_of(ids)

    def _lag_of(self, ids: Int64) -> Int64:
        lags = np.zeros_like(ids)
        for unit in np.flatnonzero(self.lags.any(axis=(1, 2))):
            order = np.argsort(self.grids[unit].ravel())
            where = np.searchsorted(self.grids[unit].ravel()[order], ids[unit])
            lags[unit] = self.lags[unit].ravel()[order][where]
        return lags

    def _rectangles(self, offset: int, spans: list[Span]) -> tuple[Int64, Int64, Int64, Int64]:
        """Rows and columns [low, high) that each tile touches; whole rows where a tile wraps past a row's end."""
        row_low: Int64 = np.full(1, offset // self.cols, np.int64)
        col_low: Int64 = np.full(1, offset % self.cols, np.int64)
        row_high, col_high = row_low + 1, col_low + 1
        for span in spans:
            rows, cols = divmod(span.stride, self.cols)
            row_low, row_high = row_low + rows * span.low, row_high + rows * (span.high - 1)
            col_low, col_high = col_low + cols * span.low, col_high + cols * (span.high - 1)
        wraps = col_high > self.cols
        last = ((row_high - 1) * self.cols + col_high - 1) // self.cols + 1
        return (
            np.where(wraps, row_low + col_low // self.cols, row_low),
            np.where(wraps, last, row_high),
            np.where(wraps, 0, col_low),
            np.where(wraps, self.cols, col_high),
        )


def _rectangle_maximum(grids: Int64, row_low: Int64, row_high: Int64, col_low: Int64, col_high: Int64) -> Int64:
    """[units, n] maxima of `grids` [units, rows, cols] over n rectangles given by half-open block ranges."""
    rows, row_index = np.unique(np.stack([row_low, row_high]), axis=1, return_inverse=True)
    cols, col_index = np.unique(np.stack([col_low, col_high]), axis=1, return_inverse=True)
    by_row = _range_maximum(grids, rows, axis=1)
    table = _range_maximum(by_row, cols, axis=2)
    result: Int64 = table[:, row_index.ravel(), col_index.ravel()]
    return result


def _range_maximum(grids: Int64, ranges: Int64, axis: int) -> Int64:
    """Maxima along `axis` over the half-open `ranges` [2, n] (none of them empty)."""
    shape = list(grids.shape)
    shape[axis] = 1
    padded = np.concatenate([grids, np.full(shape, -1, np.int64)], axis=axis)
    reduced = np.maximum.reduceat(padded, ranges.T.ravel(), axis=axis)
    result: Int64 = np.take(reduced, np.arange(0, 2 * ranges.shape[1], 2), axis=axis)
    return result


@dataclass(frozen=True)
class Finishers:
    """Tasks that finish blocks of a tensor, [n] each: writing unit, id, occupy and latency in cycles."""

    unit: Int64
    ids: Int64
    occupy: Int64
    latency: Int64


def produced_by(
    cols: int, row_starts: Int64, col_starts: Int64, row_block: Int64, col_block: Int64, tasks: Finishers
) -> Produced:
    """The Produced of a tensor whose block (row_block, col_block) [n] is finished by `tasks` [n].

    A later task of an in-order unit starts no earlier than the earlier ones' `released`, so waiting for its `done`
    plus the excess of their longest tail (latency - occupy) over its own latency waits for all of them.
    """
    names = np.unique(tasks.unit)
    grids = np.full((names.size, row_starts.size, col_starts.size), -1, np.int64)
    lags = np.zeros_like(grids)
    tail = tasks.latency - tasks.occupy
    for index, name in enumerate(names):
        own = np.flatnonzero(tasks.unit == name)
        own = own[np.argsort(tasks.ids[own], kind="stable")]
        longest_before = np.concatenate([[0], np.maximum.accumulate(tail[own])[:-1]])
        grids[index, row_block[own], col_block[own]] = tasks.ids[own]
        lags[index, row_block[own], col_block[own]] = np.maximum(0, longest_before - tasks.latency[own])
    return Produced(cols, row_starts, col_starts, grids, lags)
