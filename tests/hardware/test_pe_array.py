"""The per-cycle array: right products at the distances it can keep, wrong ones a cycle earlier."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import InternalError
from accelsim.hardware import pe_array
from accelsim.hardware.pe_array import Fold

SIZES = [(1, 1, 1, 1, 1), (4, 3, 5, 4, 3), (4, 3, 9, 2, 2), (3, 5, 1, 3, 4), (7, 2, 2, 5, 2), (1, 6, 4, 1, 6)]


def operand(seed: int, *shape: int) -> np.ndarray:
    """Odd integers of some 20 bits: no zero or equal values that could hide a wrong product."""
    return 2 * np.random.default_rng([seed, *shape]).integers(-(2**19), 2**19, shape) + 1


def folds_of(shapes: list[tuple[int, int, int]]) -> list[Fold]:
    """Folds of the given (m, k, n), each with accumulator rows of its own."""
    addresses = np.cumsum([0, *(m for m, _, _ in shapes)])
    return [
        Fold(operand(index, m, k), operand(index + 100, k, n), int(address))
        for index, ((m, k, n), address) in enumerate(zip(shapes, addresses, strict=False))
    ]


def is_right(run: pe_array.PeRun, folds: list[Fold]) -> bool:
    return all(
        np.array_equal(run.accumulator[f.address : f.address + len(f.a), : f.b.shape[1]], f.a @ f.b) for f in folds
    )


@pytest.mark.parametrize(("rows", "cols", "m", "k", "n"), SIZES)
@pytest.mark.parametrize("shadow", [True, False])
def test_weight_stationary_fold_takes_the_skew_of_all_rows(rows, cols, m, k, n, shadow):
    folds = folds_of([(m, k, n)])
    run = pe_array.run_weight_stationary(rows, cols, folds, [3], [3 + rows], shadow)
    assert is_right(run, folds)
    assert run.first_input == 3 + rows
    assert run.written_at[:m, :n].max() + 1 - run.first_input == m + rows + n - 2


def test_weight_stationary_fold_of_16_by_16_takes_62_cycles():
    run = pe_array.run_weight_stationary(16, 16, folds_of([(32, 16, 16)]), [0], [16], True)
    assert run.last_result + 1 - run.first_input == 62


@pytest.mark.parametrize("shadow", [True, False])
def test_stream_before_its_weights_are_in_gives_a_wrong_product(shadow):
    folds = folds_of([(4, 3, 3)])
    assert not is_right(pe_array.run_weight_stationary(3, 3, folds, [0], [2], shadow), folds)


@pytest.mark.parametrize("m", [1, 2, 4, 5, 9])
def test_shadow_registers_allow_a_fold_every_max_of_m_and_rows(m):
    folds, rows = folds_of([(m, 4, 3), (m + 1, 2, 3)]), 4
    for early, right in ((0, True), (1, False)):
        start = rows + max(m, rows) - early
        run = pe_array.run_weight_stationary(rows, 3, folds, [0, start - rows], [rows, start], True)
        assert is_right(run, folds) is right


@pytest.mark.parametrize("m", [1, 2, 4, 5, 9])
def test_without_shadow_registers_a_fold_takes_m_plus_rows(m):
    folds, rows = folds_of([(m, 4, 3), (m + 1, 2, 3)]), 4
    for early, right in ((0, True), (1, False)):
        start = rows + m + rows - early
        run = pe_array.run_weight_stationary(rows, 3, folds, [0, start - rows], [rows, start], False)
        assert is_right(run, folds) is right


@pytest.mark.parametrize(("rows", "cols", "k", "m", "n"), SIZES)
@pytest.mark.parametrize("second_output", [True, False])
def test_isolated_output_stationary_fold_waits_for_the_whole_array(rows, cols, k, m, n, second_output):
    folds = folds_of([(m, k, n)])
    run = pe_array.run_output_stationary(rows, cols, folds, [2], second_output)
    assert is_right(run, folds)
    assert run.computed_at[:m, :n].max() + 1 - run.first_input == k + m + n - 2
    assert run.written_at[:m, :n].max() + 1 - run.first_input == k + 2 * rows + n - 2


@pytest.mark.parametrize(("k", "k_next"), [(1, 1), (2, 6), (6, 2), (6, 4), (6, 3), (9, 9), (3, 8)])
@pytest.mark.parametrize("second_output", [True, False])
def test_least_distance_of_output_stationary_folds(k, k_next, second_output):
    rows = 4
    folds = [
        Fold(operand(1, rows, k), operand(2, k, 3), 0),
        Fold(operand(3, rows, k_next), operand(4, k_next, 3), rows),
    ]
    least = k + max(0, rows - k_next) if second_output else k + rows - 1
    for early, right in ((0, True), (1, False)):
        run = pe_array.run_output_stationary(rows, 3, folds, [0, least - early], second_output)
        assert is_right(run, folds) is right


def test_max_of_steps_and_rows_is_too_early_for_folds_of_unequal_steps():
    rows, k, k_next = 4, 6, 2
    folds = [
        Fold(operand(1, rows, k), operand(2, k, 3), 0),
        Fold(operand(3, rows, k_next), operand(4, k_next, 3), rows),
    ]
    assert not is_right(pe_array.run_output_stationary(rows, 3, folds, [0, max(k, rows)], True), folds)


def test_partial_sums_of_k_folds_add_in_the_accumulator():
    a, b = operand(5, 6, 11), operand(6, 11, 7)
    folds = pe_array.weight_stationary_folds(a, b, 4, 4)
    starts = [4 + 6 * index for index in range(len(folds))]
    run = pe_array.run_weight_stationary(4, 4, folds, [start - 4 for start in starts], starts, True)
    assert np.array_equal(np.hstack([run.accumulator[:6], run.accumulator[6:, :3]]), a @ b)
    assert np.all(run.writes == 3)


def test_fold_larger_than_the_array_is_refused():
    with pytest.raises(InternalError, match="does not fit"):
        pe_array.run_weight_stationary(4, 4, folds_of([(4, 5, 4)]), [0], [4], True)
    with pytest.raises(InternalError, match="does not fit"):
        pe_array.run_output_stationary(4, 4, folds_of([(5, 4, 4)]), [0], True)


def test_start_before_cycle_zero_is_refused():
    with pytest.raises(InternalError, match="before cycle 0"):
        pe_array.run_weight_stationary(4, 4, folds_of([(4, 4, 4)]), [-1], [4], True)
