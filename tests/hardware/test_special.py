"""The closed forms of dedicated units against a walk element by element, cycle by cycle."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import InternalError
from accelsim.hardware.special import SpecialUnit, row_lag, special_times

RATES = st.sampled_from([Fraction(n, d) for n, d in ((1, 3), (1, 1), (5, 2), (4, 1), (7, 1), (16, 1), (100, 1))])


def walk(rows: int, cols: int, unit: SpecialUnit) -> tuple[int, int]:
    """(cycle after the last element was taken for the last time, cycle after the last result left)."""
    cycle, last_result = 0, 0
    for _ in range(rows):
        for number in range(unit.passes):
            taken = Fraction(0)
            begin = cycle
            while taken < cols:  # in each cycle at most the rate, of one row alone
                taken += unit.elements_per_cycle
                cycle += 1
            if number == 0:  # results may leave from `latency` cycles after the last element on, as fast as they come
                first_result = cycle + unit.latency
                last_result = first_result + (cycle - begin) - 1
    return cycle, max(cycle, last_result)


@given(st.integers(1, 9), st.integers(1, 40), RATES, st.integers(1, 2), st.integers(0, 30))
def test_rows_take_what_a_walk_over_their_elements_takes(
    rows: int, cols: int, rate: Fraction, passes: int, latency: int
) -> None:
    unit = SpecialUnit(rate, passes, latency)
    times = special_times(rows, cols, 0, unit)
    assert (int(times.occupy), int(times.latency)) == walk(rows, cols, unit)
    assert int(times.useful) == int(times.occupy) == rows * int(times.row_cycles)


@given(st.integers(1, 9), st.integers(1, 40), RATES, st.integers(0, 30))
def test_a_unit_without_rows_takes_elements_of_two_rows_in_one_cycle(
    rows: int, cols: int, rate: Fraction, latency: int
) -> None:
    times = special_times(rows, cols, 0, SpecialUnit(rate, 1, latency, by_rows=False))
    assert int(times.occupy) == walk(1, rows * cols, SpecialUnit(rate, 1))[0]
    assert int(times.latency) == int(times.occupy) + latency


@given(st.integers(1, 9), st.integers(1, 40), RATES, st.integers(0, 10_000), st.integers(1, 64))
def test_the_scratchpad_adds_what_it_takes_longer(rows: int, cols: int, rate: Fraction, moved: int, share: int) -> None:
    free = special_times(rows, cols, moved, SpecialUnit(rate, 2, 5))
    bound = special_times(rows, cols, moved, SpecialUnit(rate, 2, 5, share_bytes_per_cycle=share))
    assert int(bound.occupy) == max(int(free.occupy), -(-moved // share))
    assert int(bound.useful + bound.scratchpad) == int(bound.occupy)
    assert int(bound.latency - bound.occupy) == int(free.latency - free.occupy)


@given(st.integers(1, 60), st.integers(1, 50), RATES, st.integers(0, 300))
def test_a_streaming_unit_is_never_early_and_hardly_late(rows: int, row_cycles: int, step: Fraction, fill: int) -> None:
    last = -(-(fill + (rows - 1)) * step.numerator // step.denominator)  # the stream's latency, in cycles
    lag = int(row_lag(np.array([last]), np.array([rows]), step, np.array([row_cycles]))[0])
    complete = [-(-(fill + row) * step.numerator // step.denominator) for row in range(rows)]
    waits = [lag + row * row_cycles - there for row, there in enumerate(complete)]
    assert min(waits) >= 0
    assert min(waits) <= 1 + (step.denominator > 1) or lag == 0


@pytest.mark.parametrize(
    ("rows", "cols", "unit"),
    [
        (0, 4, SpecialUnit(Fraction(1))),
        (4, 0, SpecialUnit(Fraction(1))),
        (4, 4, SpecialUnit(Fraction(0))),
        (4, 4, SpecialUnit(Fraction(1), passes=3)),
        (4, 4, SpecialUnit(Fraction(1), share_bytes_per_cycle=0)),
        (2**40, 2**40, SpecialUnit(Fraction(1))),
    ],
)
def test_sizes_that_cannot_be_are_refused(rows: int, cols: int, unit: SpecialUnit) -> None:
    with pytest.raises(InternalError):
        special_times(rows, cols, 0, unit)
