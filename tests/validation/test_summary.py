"""Rows, what is outside, and rows in few words."""

from __future__ import annotations

import math

import pytest

from accelsim.validation.model import ReferenceSet, Row
from accelsim.validation.summary import by_series_and_quantity, by_set
from accelsim.validation.words import error_text, error_value, row_text, tolerance_text, value_text

PEER = ReferenceSet("peer: small", "peer", "same settings")
OTHER = ReferenceSet("peer: large", "peer", "same settings, larger")


def row(reference, ours, tolerance=0.0, case="a", quantity="cycles", of=PEER, **more) -> Row:
    return Row(of, case, quantity, reference, ours, tolerance, **more)


@pytest.mark.parametrize(
    ("reference", "ours", "error"),
    [
        (100, 100, 0.0),
        (100, 90, -0.1),
        (0, 0, 0.0),
        (0, 1, math.inf),
        (-4.0, -5.0, 0.25),
        ("equal", "equal", 0.0),
        ("equal", "task 3", math.inf),
        (10.0, "no reads", math.inf),
        (1.0, math.nan, math.inf),
    ],
)
def test_error_is_a_ratio_where_there_is_one(reference, ours, error) -> None:
    assert row(reference, ours).error == pytest.approx(error)


def test_exact_means_exact_even_where_the_error_rounds_to_nothing() -> None:
    huge = 2**60
    assert row(huge, huge + 1).error == 0
    assert row(huge, huge + 1).is_outside
    assert not row(huge, huge).is_outside


def test_tolerance_bounds_the_error_on_both_sides() -> None:
    assert not row(100, 105, 0.05).is_outside
    assert row(100, 106, 0.05).is_outside
    assert row(100, 94, 0.05).is_outside
    assert row(0, 1, 0.05).is_outside
    assert not row(100, 1, None).is_outside


def test_summary_counts_and_finds_the_worst() -> None:
    rows = [row(100, 100 - each, 0.05, case=str(each)) for each in range(11)]
    (summary,) = by_set(rows)
    assert (summary.cases, summary.values, summary.median, summary.ninetieth) == (11, 11, 0.05, 0.09)
    assert (summary.worst, summary.worst_case) == (pytest.approx(0.1), "10, cycles")
    assert (summary.outside, summary.verdict) == (5, "OUTSIDE: 5")
    assert summary.assumption == "same settings"


def test_verdicts() -> None:
    assert by_set([row(1, 1)])[0].verdict == "exact"
    assert by_set([row(100, 101, 0.5)])[0].verdict == "within"
    assert by_set([row(1, 2, None)])[0].verdict == "reported"
    assert by_set([row(1, 2)])[0].verdict == "OUTSIDE: 1"


def test_row_with_a_spread_agrees_or_does_not() -> None:
    right, wrong = (row(10.0, 8.0, None, spread=(5.0, high), agrees=high > 10) for high in (12.0, 9.0))
    assert (right.is_outside, wrong.is_outside) == (False, True)
    (summary,) = by_set([right])
    assert (summary.verdict, tolerance_text(summary.allowed)) == ("within", "low to high")
    assert by_set([right, wrong])[0].verdict == "OUTSIDE: 1"


def test_groups_keep_their_order_and_commands_are_one_quantity() -> None:
    rows = [row(1, 1, of=OTHER, quantity="commands RD"), row(1, 1, quantity="commands WR"), row(1, 1)]
    assert [each.name for each in by_set(rows)] == ["peer: large", "peer: small"]
    assert [(s.name, s.values) for s in by_series_and_quantity(rows)] == [("peer: commands", 2), ("peer: cycles", 1)]


def test_words() -> None:
    assert [error_text(each) for each in (0, 0.00123, -0.05, 2.5, math.inf)] == [
        "0", "0.12 %", "-5 %", "250 %", "unequal",
    ]  # fmt: skip
    assert (error_value(math.inf), error_value(-0.1234567)) == ("unequal", "-0.123457")
    assert tolerance_text((0.0, 0.05, None)) == "exact, 5 %, -"
    assert (value_text(3), value_text(1 / 3), value_text("equal")) == ("3", "0.333333333", "equal")
    assert row_text(row(4, 5)) == "peer: small: a, cycles: reference 4, ours 5 (25 %)"
