"""The points of a matmul's loop nest: one buffer tile each, in the order in which the array computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.candidates import Tiling
from accelsim.compile.requests import Tiles
from accelsim.hardware import systolic
from accelsim.hardware.systolic import ArrayParameters
from accelsim.trace.matmul import MatmulView

Int64 = NDArray[np.int64]
MOST_TILES = 2_000_000  # of one operator: some gigabytes of tasks, and a minute


@dataclass(frozen=True)
class Points:
    """T points: tile indices and sizes, the output tile and the array of each, whether K begins or ends there.

    Outputs are numbered in the order of their first point.
    """

    batch: Int64
    m: Int64
    n: Int64
    k: Int64
    tm: Int64
    tn: Int64
    tk: Int64
    output: Int64
    array: Int64
    first_k: NDArray[np.bool_]
    last_k: NDArray[np.bool_]
    first_point: Int64  # [outputs]
    last_point: Int64  # [outputs]
    tiling: Tiling

    @property
    def size(self) -> int:
        return int(self.m.size)

    @property
    def labels(self) -> NDArray[np.int32]:
        """[T, 4] batch, m, n, k index."""
        return np.stack([self.batch, self.m, self.n, self.k], axis=1).astype(np.int32)

    def tiles(self, operand: str) -> Tiles:
        """The block of operand a, b or out at each point."""
        t = self.tiling
        m, n, k = (self.m * t.tm, self.tm), (self.n * t.tn, self.tn), (self.k * t.tk, self.tk)
        rows, columns = {"a": (m, k), "b": (k, n), "out": (m, n)}[operand]
        return Tiles(self.batch, *rows, *columns)


def points_of(view: MatmulView, tiling: Tiling, array: ArrayParameters, arrays: int) -> Points:
    """All points of a matmul, output tiles dealt to the arrays."""
    sizes = {"m": (view.m, tiling.tm), "n": (view.n, tiling.tn), "k": (view.k, tiling.tk)}
    trips = {name: -(-total // tile) for name, (total, tile) in sizes.items()}
    shape = (view.batch, *(trips[name] for name in tiling.order))
    indices = np.unravel_index(np.arange(int(np.prod(shape)), dtype=np.int64), shape)
    index: dict[str, Int64] = dict(zip(("batch", *tiling.order), indices, strict=True))
    if arrays > 1 and tiling.order[-1] == "k" and trips["k"] > 1:
        order = _side_by_side(int(np.prod(shape)) // trips["k"], trips["k"], arrays)
        index = {name: values[order] for name, values in index.items()}
    return points_at(view, tiling, index, lambda output, size: _deal(output, size, array, arrays))


def points_at(
    view: MatmulView, tiling: Tiling, index: Mapping[str, Int64], deal: Callable[[Int64, dict[str, Int64]], Int64]
) -> Points:
    """The points with tile indices `index` (batch, m, n, k; [T] each), in that order. `deal` gives the array of each
    output, from the output of each point and the sizes of its tile."""
    sizes = {"m": (view.m, tiling.tm), "n": (view.n, tiling.tn), "k": (view.k, tiling.tk)}
    trips = {name: -(-total // tile) for name, (total, tile) in sizes.items()}
    size = {name: np.minimum(tile, total - index[name] * tile) for name, (total, tile) in sizes.items()}
    output, first_point, last_point = _outputs((index["batch"] * trips["m"] + index["m"]) * trips["n"] + index["n"])
    dealt = deal(output, size)
    return Points(
        batch=index["batch"], m=index["m"], n=index["n"], k=index["k"],
        tm=size["m"], tn=size["n"], tk=size["k"],
        output=output, array=dealt[output],
        first_k=index["k"] == 0, last_k=index["k"] == trips["k"] - 1,
        first_point=first_point, last_point=last_point, tiling=tiling,
    )  # fmt: skip


def _outputs(key: Int64) -> tuple[Int64, Int64, Int64]:
    """Output number of each point, and the first and the last point of each output."""
    unique, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    output = rank[inverse.ravel()]
    last = np.empty(unique.size, np.int64)
    last[output] = np.arange(key.size)
    return output, first[order], last


def _side_by_side(outputs: int, k_trips: int, arrays: int) -> Int64:
    """Order of points, given output after output, in which the arrays work on as many outputs at a time, K tile by K
    tile: otherwise each array would wait for the loads of all K tiles of the output before."""
    output, k = np.divmod(np.arange(outputs * k_trips, dtype=np.int64), k_trips)
    return np.lexsort((output % arrays, k, output // arrays))


def _deal(output: Int64, size: dict[str, Int64], array: ArrayParameters, arrays: int) -> Int64:
    """The array of each output: the least loaded one, by summed occupy; in turn where all outputs cost the same, or
    where outputs of several K tiles are computed side by side."""
    count = int(output.max()) + 1
    in_turn = np.arange(count, dtype=np.int64) % arrays
    if arrays == 1 or output.size > count:
        return in_turn
    occupy = systolic.stream_times(array, size["m"], size["k"], size["n"]).occupy
    work = np.bincount(output, weights=occupy).astype(np.int64)
    return in_turn if np.all(work == work[0]) else _least_loaded(work, arrays)


def _least_loaded(work: Int64, arrays: int) -> Int64:
    from accelsim.compile.deal import least_loaded

    return least_loaded(work, arrays)
