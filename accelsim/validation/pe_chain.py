"""Tiles back to back on the per-cycle array, each started as early as the closed forms allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware import pe_array, systolic
from accelsim.hardware.pe_array import Fold, PeRun
from accelsim.hardware.systolic import ArrayParameters

Int64 = NDArray[np.int64]
Tile = tuple[int, int, int]
"""m, k, n."""

NO_DISTANCE = -1


@dataclass(frozen=True)
class Chain:
    """Folds of some tiles, when their weights and inputs start, and to which tile they belong."""

    p: ArrayParameters
    folds: list[Fold]
    tile_of: list[int]
    weight_starts: list[int]
    stream_starts: list[int]
    tile_starts: list[int]

    def run(self) -> PeRun:
        """What leaves the array."""
        if self.p.dataflow == "os":
            doubled = self.p.output_double_buffer
            return pe_array.run_output_stationary(self.p.rows, self.p.cols, self.folds, self.stream_starts, doubled)
        starts, shadow = (self.weight_starts, self.stream_starts), self.p.weight_double_buffer
        return pe_array.run_weight_stationary(self.p.rows, self.p.cols, self.folds, *starts, shadow)

    def is_right(self, run: PeRun) -> bool:
        """Every sum equals NumPy's product of the folds that add to it."""
        expected = np.zeros_like(run.accumulator)
        used = np.zeros(expected.shape, dtype=bool)
        for fold in self.folds:
            block = _block(fold)
            expected[block] += fold.a @ fold.b
            used[block] = True
        return bool(np.array_equal(run.accumulator[used], expected[used]))

    def of_tile(self, tile: int, values: Int64) -> Int64:
        """`values`, an array of the run, of the results of a tile, each once."""
        blocks = {f.address: _block(f) for f, owner in zip(self.folds, self.tile_of, strict=True) if owner == tile}
        return np.concatenate([values[block].ravel() for block in blocks.values()])

    def last_of_tile(self, tile: int, times: Int64) -> int:
        """Cycles from the start of a tile's stream to the end of the latest of `times`."""
        return int(self.of_tile(tile, times).max()) + 1 - self.tile_starts[tile]

    def later_from(self, tile: int, cycles: int, but_first_weights: bool = False) -> Chain:
        """All folds from a tile on moved by `cycles`; the weights of the first of them may stay where they are."""
        first = self.tile_of.index(tile)

        def moved(starts: list[int], begin: int) -> list[int]:
            return starts[:begin] + [start + cycles for start in starts[begin:]]

        return replace(
            self,
            weight_starts=moved(self.weight_starts, first + but_first_weights),
            stream_starts=moved(self.stream_starts, first),
            tile_starts=moved(self.tile_starts, tile),
        )

    def least_distance(self) -> int:
        """Cycles between the starts of the first two tiles below which the product is wrong, found by trying.

        NO_DISTANCE if it is wrong at any distance, because a tile is wrong in itself.
        """
        planned = self.tile_starts[1] - self.tile_starts[0]
        empty_after = 2 * (self.p.rows + self.p.cols) + max(fold.a.size for fold in self.folds)
        if not self._is_right_at(empty_after):
            return NO_DISTANCE
        later = next(cycles for cycles in range(empty_after + 1) if self._is_right_at(cycles))
        while later <= 0 and planned + later > 0 and self._is_right_at(later - 1):
            later -= 1
        return planned + later

    def _is_right_at(self, cycles: int) -> bool:
        """Whether some start of the second tile's first weights gives the product: moved along, or as planned."""
        tries = (self.later_from(1, cycles, but_first_weights) for but_first_weights in (False, True))
        return any(each.is_right(each.run()) for each in tries if min(each.weight_starts) >= 0)


def _block(fold: Fold) -> tuple[slice, slice]:
    return np.s_[fold.address : fold.address + fold.a.shape[0], : fold.b.shape[1]]


def chain(p: ArrayParameters, tiles: list[Tile]) -> Chain:
    """The tiles as the closed forms start them: weights and streams, each as early as its lags allow."""
    result = Chain(p, [], [], [], [], [])
    weights_free = stream_free = address = 0
    for index, tile in enumerate(tiles):
        folds = folds_of_tile(p, index, tile, address)
        address = folds[-1].address + max(p.rows, len(folds[-1].a))
        shift, period = (int(form(p, *tile)) for form in (systolic.weights_times, systolic.fold_period))
        start = max(weights_free + shift, stream_free)
        starts = [start + number * period for number in range(len(folds))]
        result.folds.extend(folds)
        result.tile_of.extend([index] * len(folds))
        result.weight_starts.extend([weights_free, *(each - shift for each in starts[1:])])
        result.stream_starts.extend(starts)
        result.tile_starts.append(start)
        following = tiles[index + 1][1] if index + 1 < len(tiles) else 1
        weights_free = start + int(systolic.stream_times(p, *tile).next_weights_lag)
        stream_free = start + int(systolic.next_stream_lag(p, *tile, following))
    return result


def folds_of_tile(p: ArrayParameters, seed: int, tile: Tile, address: int) -> list[Fold]:
    """A tile of drawn odd numbers (so that each misplaced operand shows) cut in folds."""
    m, k, n = tile
    random = np.random.default_rng([seed, *tile])
    a, b = (2 * random.integers(-(2**19), 2**19, shape) + 1 for shape in ((m, k), (k, n)))
    cut: Callable[[Int64, Int64, int, int, int], list[Fold]] = (
        pe_array.output_stationary_folds if p.dataflow == "os" else pe_array.weight_stationary_folds
    )
    return cut(b.T, a.T, p.rows, p.cols, address) if p.dataflow == "is" else cut(a, b, p.rows, p.cols, address)
