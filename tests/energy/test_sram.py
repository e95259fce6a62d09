"""SRAM figures: CACTI's points as they are, what lies between and beyond them, and how far that can be trusted."""

from __future__ import annotations

import csv
import doctest
import math
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.energy.sram import CELLS, RULES, Figures, leave_one_out, leave_one_out_table, sram_table
from accelsim.errors import InputError

ROOT = Path(__file__).parents[2]
ORACLE = ROOT / "tests" / "oracles" / "cacti.csv"
KIB, MIB = 1024, 1024**2
FIGURES = [field.name for field in fields(Figures)]


@pytest.fixture(scope="module")
def oracle() -> dict[tuple[str, int, int, int], list[float]]:
    """(cell, nm, bytes, bits) -> the five figures, as CACTI printed them."""
    with ORACLE.open(newline="") as file:
        return {
            (r["cell"].removeprefix("itrs-"), int(r["tech_nm"]), int(r["size_bytes"]), int(r["width_bits"])): [
                float(r["read_pJ"]),
                float(r["write_pJ"]),
                float(r["leak_mW"]) + float(r["gate_leak_mW"]),
                float(r["area_mm2"]),
                float(r["access_ns"]),
            ]
            for r in csv.DictReader(file)
        }


def look_up(cell: str, technology_nm: float, capacity_bytes: float, width_bits: float) -> tuple[np.ndarray, str, tuple]:
    found = sram_table().look_up(capacity_bytes, width_bits, technology_nm, cell)
    return np.array(astuple(found.figures)), found.kind, found.rules


def test_every_point_of_cacti_comes_back(oracle):
    assert len(oracle) == len(sram_table().points) == 160
    for key, expected in oracle.items():
        figures, kind, rules = look_up(*key)
        assert figures == pytest.approx(expected, rel=1e-5)
        assert (kind, rules) == ("measured", ())


def test_between_two_points_logarithms_are_linear(oracle):
    def geometric(*keys):
        return np.exp(np.mean([np.log(oracle[key]) for key in keys], axis=0))

    small, large = ("hp", 22, 64 * KIB, 128), ("hp", 22, 128 * KIB, 128)
    narrow, wide = ("hp", 45, 64 * KIB, 256), ("hp", 45, 64 * KIB, 512)
    fine, coarse = ("lstp", 22, 64 * KIB, 256), ("lstp", 45, 64 * KIB, 256)
    for key, pair in (
        (("hp", 22, 64 * KIB * math.sqrt(2), 128), (small, large)),
        (("hp", 45, 64 * KIB, 256 * math.sqrt(2)), (narrow, wide)),
        (("lstp", math.sqrt(22 * 45), 64 * KIB, 256), (fine, coarse)),
    ):
        figures, kind, rules = look_up(*key)
        assert figures == pytest.approx(geometric(*pair), rel=1e-5)
        assert (kind, rules) == ("interpolated", ())


def test_node_of_one_width_widens_as_the_nodes_around_it(oracle):
    def widening(nm):
        return np.log(oracle["hp", nm, MIB, 1024]) - np.log(oracle["hp", nm, MIB, 256])

    share = math.log(32 / 22) / math.log(45 / 22)
    expected = np.log(oracle["hp", 32, MIB, 256]) + (1 - share) * widening(22) + share * widening(45)
    figures, kind, rules = look_up("hp", 32, MIB, 1024)
    assert np.log(figures) == pytest.approx(expected, abs=1e-4)
    assert (kind, rules) == ("interpolated", ())


@pytest.mark.parametrize(("cell", "nm", "like"), [("lstp", 22, 22), ("lstp", 45, 45), ("hp", 65, 45)])
def test_width_borrowed_from_other_points_is_said(oracle, cell, nm, like):
    figures, kind, rules = look_up(cell, nm, MIB, 64)
    change = np.array(oracle["hp", like, MIB, 64]) / oracle["hp", like, MIB, 256]
    assert figures == pytest.approx(oracle[cell, nm, MIB, 256] * change, rel=1e-5)
    assert (kind, rules) == ("extrapolated", ("width_of_hp",))


def test_memory_beyond_the_points_grows_by_named_rules(oracle):
    edge = np.array(oracle["hp", 22, 32 * MIB, 1024])
    figures, kind, rules = look_up("hp", 22, 128 * MIB, 1024)
    assert figures == pytest.approx(edge * [2, 2, 4, 4, 2], rel=1e-5)
    assert (kind, rules) == ("extrapolated", ("sqrt_capacity",))
    figures, _, rules = look_up("hp", 22, 32 * MIB, 4096)
    assert figures == pytest.approx(edge * [4, 4, 1, 1, 1], rel=1e-5)
    assert rules == ("linear_width",)
    figures, _, rules = look_up("hp", 7, 128 * MIB, 4096)
    assert figures == pytest.approx(edge * [8 * 0.564, 8 * 0.564, 4 * 0.44, 4 * 0.3182, 2], rel=2e-3)
    assert rules == ("node_power", "sqrt_capacity", "linear_width")
    assert set(rules) < set(RULES)


def test_small_memory_shrinks_by_the_same_rule(oracle):
    figures, _, rules = look_up("hp", 45, 4 * KIB, 64)
    assert figures == pytest.approx(np.array(oracle["hp", 45, 16 * KIB, 64]) * [0.5, 0.5, 0.25, 0.25, 0.5], rel=1e-5)
    assert rules == ("sqrt_capacity",)


@given(st.sampled_from(CELLS), st.floats(5, 65), st.floats(1, 2**32), st.floats(1, 2**14), st.integers(0, 2))
def test_no_figure_jumps(cell, nm, capacity, width, axis):
    """Also where one rule ends and the next begins: a millionth more changes nothing by more than a ten-thousandth."""
    here = [nm, capacity, width]
    there = list(here)
    there[axis] = there[axis] * (1 - 1e-6) if axis == 0 and nm > 5.1 else there[axis] * (1 + 1e-6)
    (first, _, _), (second, _, _) = (look_up(cell, *place) for place in (here, there))
    assert second == pytest.approx(first, rel=1e-4)
    assert np.all(first > 0)


def test_energy_at_45_nm_is_near_the_published_one():
    """64 bit of a cache of 8 KiB, 32 KiB, 1 MiB: 10, 20, 100 pJ (Horowitz, ISSCC 2014), tags and wires included."""
    for capacity, published in ((8 * KIB, 10.0), (32 * KIB, 20.0), (MIB, 100.0)):
        read = look_up("hp", 45, capacity, 64)[0][0]
        assert 0.6 * published < read < published


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 64, 22, "hp"), r"capacity_bytes: not a memory's size; got 0"),
        ((math.inf, 64, 22, "hp"), r"capacity_bytes: .*got inf"),
        ((1024, math.nan, 22, "hp"), r"width_bits: .*got nan"),
        ((1024, 64, 3, "hp"), r"technology_nm: .*got 3; give a node from 5 to 65 nm"),
        ((1024, 64, 90, "hp"), r"technology_nm: .*got 90"),
        ((1024, 64, 22, "itrs-hp"), r"cell: .*got 'itrs-hp'; use hp or lstp"),
    ],
)
def test_what_no_memory_can_be_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        sram_table().look_up(*arguments)


def test_error_of_a_left_out_capacity_equals_a_direct_count(oracle):
    """Each point against the straight line between its two neighbours, in logarithms."""
    errors = []
    for cell, nm, width in sorted({(cell, nm, width) for cell, nm, _, width in oracle}):
        sizes = sorted(size for c, t, size, w in oracle if (c, t, w) == (cell, nm, width))
        for below, size, above in zip(sizes, sizes[1:], sizes[2:], strict=False):
            low, here, high = (np.log(oracle[cell, nm, s, width]) for s in (below, size, above))
            share = math.log(size / below) / math.log(above / below)
            errors.append(np.expm1(np.abs(low + share * (high - low) - here)))
    rows = [row for row in leave_one_out() if row.axis == "capacity"]
    assert [row.figure for row in rows] == FIGURES
    assert [row.points for row in rows] == [len(errors)] * 5
    assert [row.median for row in rows] == pytest.approx(np.median(errors, axis=0), abs=1e-4)
    assert [row.worst for row in rows] == pytest.approx(np.max(errors, axis=0), abs=1e-4)


def test_left_out_points_are_predicted_to_a_few_percent():
    """Leakage over technology is the exception: CACTI's nodes do not lie on any line."""
    for row in leave_one_out():
        if (row.figure, row.axis) != ("leakage_mw", "technology"):
            assert row.median < 0.06
            assert row.worst < 0.6


def test_page_shows_the_errors_as_they_are():
    page = ROOT / "docs" / "sram.md"
    assert leave_one_out_table() in page.read_text(encoding="utf-8")
    assert doctest.testfile(str(page), module_relative=False) == (0, 4)
