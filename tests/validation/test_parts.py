"""Each part sees its model agree, and sees it when it does not."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import groupby

import numpy as np
import pytest

from accelsim.energy.sram import Figures, SramTable, leave_one_out
from accelsim.engine import random_programs
from accelsim.hardware import dram, scratchpad, systolic
from accelsim.validation.model import Row
from accelsim.validation.parts.scratchpad import Banks, Tile, walked_stream, walked_tile
from accelsim.validation.pe_chain import NO_DISTANCE, chain
from accelsim.validation.registry import PARTS, check, load_part


def silent(message: str) -> None:
    pass


def outside(name: str) -> list[Row]:
    (checked,) = check([name], fast=True, progress=silent)
    return checked.outside


def quantities(rows: list[Row]) -> set[str]:
    return {row.quantity for row in rows}


@pytest.mark.parametrize("name", PARTS)
def test_fast_part_agrees_and_judges_most_of_what_it_says(name: str) -> None:
    (checked,) = check([name], fast=True, progress=silent)
    assert checked.part.name == name
    assert checked.outside == []
    assert len(checked.rows) > 20
    assert sum(row.tolerance is not None for row in checked.rows) > 0.9 * len(checked.rows)
    assert set(checked.part.plotted) <= quantities(checked.rows)


@pytest.mark.parametrize("name", ["array", "scratchpad", "engines"])
def test_rows_are_the_same_every_time(name: str) -> None:
    assert check([name], fast=True, progress=silent) == check([name], fast=True, progress=silent)


def test_set_has_one_assumption() -> None:
    for name in PARTS:
        sets = {row.reference_set for row in load_part(name).rows(True, silent)}
        assert len({each.name for each in sets}) == len(sets)


def broken(value: object, **changes: object) -> object:
    """A dataclass with some of its numbers changed by functions of them."""
    return replace(value, **{name: change(getattr(value, name)) for name, change in changes.items()})  # type: ignore[type-var,operator]


def test_array_sees_a_latency_that_is_a_cycle_off(monkeypatch: pytest.MonkeyPatch) -> None:
    right = systolic.stream_times
    monkeypatch.setattr(systolic, "stream_times", lambda *a: broken(right(*a), latency=lambda cycles: cycles + 1))
    assert "latency_cycles" in quantities(outside("array"))


@pytest.mark.parametrize("off", [-1, 1])
def test_array_sees_tiles_too_close_and_too_far(monkeypatch: pytest.MonkeyPatch, off: int) -> None:
    right = systolic.next_stream_lag
    monkeypatch.setattr(systolic, "next_stream_lag", lambda *a: right(*a) + off)
    wrong = quantities(outside("array"))
    assert "distance_cycles" in wrong
    assert ("product" in wrong) == (off < 0)


def test_array_sees_folds_of_a_tile_too_close(monkeypatch: pytest.MonkeyPatch) -> None:
    right = systolic.fold_period
    monkeypatch.setattr(systolic, "fold_period", lambda *a: right(*a) - 1)
    rows = outside("array")
    assert {"product", "distance_cycles"} <= quantities(rows)
    assert NO_DISTANCE in {row.reference for row in rows}


def test_array_sees_wrong_counts_of_either_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    right, reads = systolic.accumulator_accesses, systolic.operand_reads
    monkeypatch.setattr(
        systolic, "accumulator_accesses", lambda *a: broken(right(*a), reads=np.negative, writes=lambda n: 2 * n)
    )
    monkeypatch.setattr(systolic, "operand_reads", lambda *a: broken(reads(*a), b=lambda n: n + 1))
    assert quantities(outside("array")) == {"accumulator_reads", "accumulator_writes", "output_writes", "b_reads"}


def test_least_distance_is_found_from_either_side() -> None:
    p = systolic.ArrayParameters(4, 3, "os")
    tasks = chain(p, [(4, 5, 3), (4, 2, 3)])
    least = tasks.least_distance()
    assert least == int(systolic.next_stream_lag(p, 4, 5, 3, 2)) == 7
    assert tasks.later_from(1, 6).least_distance() == least
    assert tasks.later_from(1, -2).least_distance() == least


@pytest.mark.parametrize(
    ("quantity", "change"),
    [
        ("end_clock", {"end_cycle": lambda clocks: clocks + 1}),
        ("mean_read_latency_clocks", {"mean_read_latency": lambda clocks: clocks and clocks * 1.0001}),
        ("commands ACT", {"commands": lambda counts: counts + type(counts)(ACT=1)}),
        ("energy_pj", {"energy_by_component_pj": lambda pj: pj and {**pj, "read": pj["read"] * 1.001 + 1}}),
        ("unsent_writes", {"unsent_writes": lambda count: count + 1}),
    ],
)
def test_dram_sees_each_quantity_that_is_off(monkeypatch: pytest.MonkeyPatch, quantity: str, change: dict) -> None:
    right = dram.simulate_requests
    monkeypatch.setattr(dram, "simulate_requests", lambda *a: broken(right(*a), **change))
    assert quantity in quantities(outside("dram"))


def test_scratchpad_sees_a_cycle_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("conflict_cycles", "transposed_cycles"):
        right = getattr(scratchpad, name)
        monkeypatch.setattr(scratchpad, name, lambda *a, right=right: right(*a) - 1)
    assert len(outside("scratchpad")) == len(check(["scratchpad"], True, silent)[0].rows)


def test_walks_by_hand() -> None:
    assert walked_stream(Banks(4, 2, 1), stride=8, access=2, count=5) == 5  # all in one bank
    assert walked_stream(Banks(4, 2, 2), stride=8, access=2, count=5) == 3
    assert walked_stream(Banks(4, 2, 1), stride=1, access=1, count=8) == 1  # four words, each read once
    assert walked_tile(Banks(4, 2, 1), Tile(pitch=8, element=1, rows=3, cols=2, lanes=3)) == 6
    assert walked_tile(Banks(4, 2, 1), Tile(pitch=10, element=1, rows=3, cols=2, lanes=3)) == 2


def test_sram_sees_a_figure_that_drifts(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SramTable.look_up

    def drifting(self: SramTable, *sizes: object) -> object:
        found = right(self, *sizes)  # type: ignore[arg-type]
        return replace(found, figures=broken(found.figures, write_pj=lambda pj: pj * 1.6))

    monkeypatch.setattr(SramTable, "look_up", drifting)
    assert quantities(outside("sram")) == {"write_pj"}


def test_sram_leaves_out_the_same_points_as_the_table_of_its_page() -> None:
    """The page's errors are max(a/b, b/a) - 1."""
    (checked,) = check(["sram"], fast=False, progress=silent)
    expected = {(each.axis, each.figure): (each.points, each.worst) for each in leave_one_out()}
    found = {}
    rows = [row for row in checked.rows if row.reference_set.series.endswith(" left out")]
    for axis, group in groupby(rows, lambda row: row.reference_set.series.split()[0]):
        by_figure = list(group)
        for field in fields(Figures):
            errors = [abs(math.log1p(row.error)) for row in by_figure if row.quantity == field.name]
            found[axis, field.name] = (len(errors), pytest.approx(math.expm1(max(errors))))
    assert found == expected


def test_engines_see_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_programs, "first_difference", lambda fast, slow: "task 3: start is 1, not 2")
    assert {row.ours for row in outside("engines")} == {"task 3: start is 1, not 2"}
