"""The per-cycle array and the closed forms against registers and wires: same products, same cycles, same distances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the register-transfer check needs Amaranth: pip install 'accelsim[test]'")

from accelsim.hardware import pe_array, systolic
from accelsim.hardware.pe_array import Fold, PeRun
from accelsim.hardware.systolic import ArrayParameters
from tests.rtl import bench
from tests.rtl.bench import Operands, RtlRun

Shape = tuple[int, int, int]

SMALL = [(1, 1), (1, 5), (6, 1), (2, 2), (2, 3), (3, 2), (4, 4), (5, 3), (3, 7)]
LARGE = [(7, 5), (1, 16), (16, 1), (8, 8), (16, 16)]
GEOMETRIES = SMALL + LARGE


@dataclass(frozen=True)
class Design:
    """One of the four arrays; `doubled`: shadow weight registers (ws) or second output registers (os)."""

    dataflow: systolic.Dataflow
    doubled: bool

    def array(self, geometry: tuple[int, int]) -> ArrayParameters:
        return ArrayParameters(
            *geometry, self.dataflow, weight_double_buffer=self.doubled, output_double_buffer=self.doubled
        )

    def run_rtl(self, p: ArrayParameters, folds: Sequence[Operands], starts: Sequence[int]) -> RtlRun:
        """Folds whose first operands enter at `starts`; in ws their weights begin to enter `rows` cycles before."""
        if self.dataflow == "os":
            return bench.run_output_stationary(p.rows, p.cols, folds, starts, self.doubled)
        weights = [start - p.rows for start in starts]
        return bench.run_weight_stationary(p.rows, p.cols, folds, weights, starts, self.doubled)

    def run_model(self, p: ArrayParameters, folds: Sequence[Operands], starts: Sequence[int]) -> PeRun:
        """The same in the per-cycle model, each fold with accumulator rows of its own."""
        cells = [Fold(a, b, self.address(p, folds, index)) for index, (a, b) in enumerate(folds)]
        if self.dataflow == "os":
            return pe_array.run_output_stationary(p.rows, p.cols, cells, starts, self.doubled)
        weights = [start - p.rows for start in starts]
        return pe_array.run_weight_stationary(p.rows, p.cols, cells, weights, starts, self.doubled)

    def address(self, p: ArrayParameters, folds: Sequence[Operands], index: int) -> int:
        return p.rows * index if self.dataflow == "os" else sum(len(a) for a, _ in folds[:index])

    def times(self, p: ArrayParameters, folds: Sequence[Operands], of_model: np.ndarray) -> list[np.ndarray]:
        """An array [accumulator rows, cols] of the model's run, cut into those of the folds' results."""
        tops = [self.address(p, folds, index) for index in range(len(folds))]
        return [of_model[top : top + len(a), : b.shape[1]] for top, (a, b) in zip(tops, folds, strict=True)]

    def model_is_right(self, p: ArrayParameters, folds: Sequence[Operands], starts: Sequence[int]) -> bool:
        products = self.times(p, folds, self.run_model(p, folds, starts).accumulator)
        return all(np.array_equal(product, a @ b) for product, (a, b) in zip(products, folds, strict=True))


WS_SHADOW, WS_PLAIN = Design("ws", True), Design("ws", False)
OS_SECOND, OS_SINGLE = Design("os", True), Design("os", False)
DESIGNS = [WS_SHADOW, WS_PLAIN, OS_SECOND, OS_SINGLE]

each_design = pytest.mark.parametrize("design", DESIGNS, ids=["ws-shadow", "ws-plain", "os-second", "os-single"])
each_geometry = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: f"{g[0]}x{g[1]}")


def fold_shapes(design: Design, geometry: tuple[int, int], seed: int) -> list[Shape]:
    """(m, k, n) of folds that fit: a whole array, one short of it, a single element, and some that are drawn."""
    rows, cols = geometry
    held = [(rows, cols), (max(rows - 1, 1), max(cols - 1, 1)), (1, 1)]
    random = np.random.default_rng([seed, rows, cols])
    held += [(int(random.integers(1, rows + 1)), int(random.integers(1, cols + 1))) for _ in range(5)]
    held = held if geometry in SMALL else held[:4] if geometry != LARGE[-1] else held[:2]
    steps = [rows, *(int(size) for size in random.integers(1, 2 * rows + 3, len(held) - 1))]
    if design.dataflow == "os":
        return [(m, k, n) for (m, n), k in zip(held, steps, strict=True)]
    return [(m, k, n) for (k, n), m in zip(held, steps, strict=True)]


def operands(shape: Shape, seed: int = 0) -> Operands:
    """Odd integers of 16 bits: no zeros, and hardly two alike, that could hide a wrong product."""
    m, k, n = shape
    random = np.random.default_rng([seed, *shape])
    return tuple(2 * random.integers(-(2**14), 2**14, size) + 1 for size in ((m, k), (k, n)))


def least(is_right: Callable[[int], bool], expected: int, scan: bool) -> int:
    """The first distance that is right, from 1 on; without `scan` the search begins one before `expected`."""
    first = 1 if scan else max(expected - 1, 1)
    return next(distance for distance in range(first, expected + 5) if is_right(distance))


@each_geometry
@each_design
def test_isolated_fold_has_the_same_product_and_the_same_cycles(design, geometry):
    p = design.array(geometry)
    start = p.rows + 2
    for shape in fold_shapes(design, geometry, seed=1):
        folds = [operands(shape)]
        rtl, model = design.run_rtl(p, folds, [start]), design.run_model(p, folds, [start])
        assert rtl.is_right(folds)
        assert design.model_is_right(p, folds, [start])
        assert np.array_equal(rtl.left_at[0], design.times(p, folds, model.written_at)[0])
        stream, drain = systolic.stream_times(p, *shape), systolic.drain_times(p, *shape)
        cycles = rtl.left_at[0].max() + 1 - start
        if design.dataflow == "os":
            assert np.array_equal(rtl.finished_at[0], design.times(p, folds, model.computed_at)[0])
            assert rtl.finished_at[0].max() + 1 - start == stream.latency
            # The bottom row leaves first, so that row 0, always in use, is the last one.
            assert cycles == drain.lag + drain.latency
        else:
            assert cycles == stream.latency


@pytest.mark.parametrize("geometry", [*SMALL, *LARGE[:-1]], ids=lambda g: f"{g[0]}x{g[1]}")
@pytest.mark.parametrize("design", [WS_SHADOW, WS_PLAIN], ids=["shadow", "plain"])
def test_first_input_waits_for_the_shift_of_the_weights(design, geometry):
    p = design.array(geometry)
    for shape in fold_shapes(design, geometry, seed=2):
        folds = [operands(shape)]

        def rtl_is_right(wait, folds=folds):
            return bench.run_weight_stationary(p.rows, p.cols, folds, [0], [wait], design.doubled).is_right(folds)

        expected = int(systolic.weights_times(p, *shape))
        assert least(rtl_is_right, expected, p.rows * p.cols < 10) == expected


def next_fold_distance(p: ArrayParameters, shape: Shape, following: Shape) -> int:
    """From the start of a fold's stream to the earliest of the next one's, by the closed forms."""
    stream = systolic.stream_times(p, *shape)
    after_weights = int(stream.next_weights_lag + systolic.weights_times(p, *following))
    after_stream = int(systolic.next_stream_lag(p, *shape, following[1]))
    return after_stream if p.dataflow == "os" else max(after_weights, after_stream)


@each_geometry
@each_design
def test_earliest_next_fold_is_the_same(design, geometry):
    p = design.array(geometry)
    shapes = fold_shapes(design, geometry, seed=3)
    for shape, following in zip(shapes, [*shapes[1:], shapes[0]], strict=True):
        folds = [operands(shape, 1), operands(following, 2)]
        expected = next_fold_distance(p, shape, following)

        def rtl_is_right(distance, folds=folds):
            return design.run_rtl(p, folds, [p.rows, p.rows + distance]).is_right(folds)

        def model_is_right(distance, folds=folds):
            return design.model_is_right(p, folds, [p.rows, p.rows + distance])

        assert least(model_is_right, expected, scan=True) == expected
        assert least(rtl_is_right, expected, p.rows * p.cols < 10) == expected


def tile_shapes(p: ArrayParameters) -> list[Shape]:
    """(m, k, n) of tiles of several folds, ragged ones and a prime one among them."""
    random = np.random.default_rng([4, p.rows, p.cols])
    if (p.rows, p.cols) not in SMALL:
        return [(p.rows + 1, p.rows + 1, p.cols + 1)]
    return [
        (7, 7, 7),
        *((int(m), int(k), int(n)) for m, k, n in random.integers(1, 2 * max(p.rows, p.cols) + 2, (3, 3))),
    ]


def cut(p: ArrayParameters, a: np.ndarray, b: np.ndarray) -> list[Fold]:
    if p.dataflow == "os":
        return pe_array.output_stationary_folds(a, b, p.rows, p.cols)
    return pe_array.weight_stationary_folds(a, b, p.rows, p.cols)


@pytest.mark.parametrize("dataflow", ["ws", "is", "os"])
@pytest.mark.parametrize("doubled", [True, False], ids=["double", "single"])
@each_geometry
def test_folds_of_a_tile_at_their_period_give_its_product_and_its_cycles(geometry, dataflow, doubled):
    p = Design(dataflow, doubled).array(geometry)
    design = Design("os" if dataflow == "os" else "ws", doubled)
    for shape in tile_shapes(p):
        a, b = operands(shape)
        left, right = (b.T, a.T) if dataflow == "is" else (a, b)
        cells = cut(p, left, right)
        folds = [(cell.a, cell.b) for cell in cells]
        period = int(systolic.fold_period(p, *shape))
        starts = [p.rows + index * period for index in range(len(folds))]
        rtl, model = design.run_rtl(p, folds, starts), design.run_model(p, folds, starts)
        assert np.array_equal(assembled(rtl, cells, left @ right, p), left @ right)
        for left_at, written_at in zip(rtl.left_at, design.times(p, folds, model.written_at), strict=True):
            assert np.array_equal(left_at, written_at)
        ends = rtl.finished_at if dataflow == "os" else rtl.left_at
        assert max(end.max() for end in ends) + 1 - p.rows == systolic.stream_times(p, *shape).latency


def assembled(rtl: RtlRun, cells: Sequence[Fold], whole: np.ndarray, p: ArrayParameters) -> np.ndarray:
    """The folds' products put where they belong in the whole one, those of one place added."""
    result, across = np.zeros_like(whole), -(-whole.shape[1] // p.cols)
    for cell, product in zip(cells, rtl.products, strict=True):
        index = cell.address // (p.rows if p.dataflow == "os" else len(whole))
        top, left = divmod(index, across) if p.dataflow == "os" else (0, index)
        height, width = product.shape
        result[top * p.rows : top * p.rows + height, left * p.cols : left * p.cols + width] += product
    return result
