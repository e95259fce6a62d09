"""Numbers as a person reads them."""

import pytest

from accelsim.report.numbers import (
    bar,
    compact,
    count,
    decimals,
    fixed,
    percent,
    printable,
    quantity,
    ratio,
    shortened,
    significant,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.0123, "0.0123"),
        (0.123, "0.123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1234.5, "1,234"),
    ],
)
def test_three_significant_digits(value: float, shown: str) -> None:
    assert significant(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 s"), (1.5, "1.50 s"), (0.00078, "780 us"), (1e-3, "1.00 ms"), (2e-9, "2.00 ns"), (5e-15, "0.00500 ps")],
)
def test_quantity_picks_the_prefix(value: float, shown: str) -> None:
    assert quantity(value, "s") == shown


def test_percent_tells_little_from_nothing() -> None:
    assert [percent(part, 10_000) for part in (0, 1, 5, 10_000)] == ["", "<0.1", "0.1", "100.0"]
    assert percent(1, 0) == ""


def test_ratio_to_nothing_is_a_dash() -> None:
    assert [ratio(3, 2), ratio(500, 1), ratio(1, 0)] == ["1.50x", "500x", "-"]


def test_bar_grows_with_the_share_and_shows_a_little() -> None:
    assert [bar(share, 4) for share in (0, 0.001, 0.5, 1)] == ["", "▏", "██", "████"]
    assert [bar(share, 4, ascii_only=True) for share in (0, 0.001, 0.5, 1)] == ["", "#", "##", "####"]


def test_column_has_one_number_of_decimals() -> None:
    assert [decimals(value) for value in (0.5, 9.9, 99, 999, 9999)] == [3, 3, 2, 1, 0]
    assert [fixed(0, 2), fixed(1234.567, 2)] == ["", "1,234.57"]


def test_long_text_is_cut_with_dots() -> None:
    assert [shortened("abcdef", 6), shortened("abcdefg", 6)] == ["abcdef", "abc..."]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (12.3, "12.3"), (1230, "1.23 k"), (7.31e13, "73.1 T"), (9e14, "900 T"), (1.234e18, "1.23e18")],
)
def test_compact_form_of_large_numbers(value: float, shown: str) -> None:
    assert compact(value) == shown
    assert compact(value, "OPS") == (f"{shown}OPS" if shown[-1].isalpha() else f"{shown} OPS")


def test_count_is_exact_while_it_fits() -> None:
    assert [count(value, 9) for value in (1_234_567, 12_345_678)] == ["1,234,567", "12.3 M"]
    assert [fixed(value, 1) for value in (999_999.4, 2e6)] == ["999,999.4", "2.00 M"]
    assert ratio(5e6, 1) == "5.00 Mx"


def test_what_would_act_on_a_terminal_is_escaped() -> None:
    assert printable("Größe 1\x1b[2J\r\n\udc80") == r"Größe 1\x1b[2J\r\n\udc80"
