"""Each part sees its model agree, and sees it when it does not."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import groupby

import numpy as np
import pytest

from accelsim.api import load_trace
from accelsim.arch import load_arch
from accelsim.compile import compile_program
from accelsim.energy.sram import Figures, SramTable, leave_one_out
from accelsim.engine import random_programs, service
from accelsim.hardware import dram, scratchpad, systolic
from accelsim.validation.model import Row
from accelsim.validation.parts import energy, layout, pattern
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


LEAST_JUDGED = {"pattern": 0.19, "layout": 0}  # the rest is information


@pytest.mark.parametrize("name", PARTS)
def test_fast_part_agrees_and_judges_most_of_what_it_says(name: str) -> None:
    (checked,) = check([name], fast=True, progress=silent)
    assert checked.part.name == name
    assert checked.outside == []
    assert len(checked.rows) > 20
    judged = sum(row.tolerance is not None or row.agrees is not None for row in checked.rows)
    assert judged > LEAST_JUDGED.get(name, 0.9) * len(checked.rows) or judged == LEAST_JUDGED.get(name) == 0
    assert set(checked.part.plotted) <= quantities(checked.rows)


@pytest.mark.parametrize("name", ["array", "scratchpad", "layout", "energy", "engines"])
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


def test_pattern_sees_service_times_that_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    right = service.service_ticks
    monkeypatch.setattr(service, "service_ticks", lambda *a: [3 * ticks for ticks in right(*a)])
    assert quantities(outside("pattern")) == {"pattern_cycles"}


def test_pattern_has_a_line_for_each_machine_with_a_dram() -> None:
    (checked,) = check(["pattern"], fast=True, progress=silent)
    lines = pattern.table(checked.rows).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [
        "| edge_32",
        "| gemmini_16",
        "| gemmini_16_norm",
        "| tpu_like",
        "| tpu_like_no_vector",
        "| tpu_like_softmax",
        "| tpu_v1",
        "| tpu_v4i",
    ]
    assert {line.split(" | ")[1] for line in lines} == {"2"}
    assert "bert_base_fwd_b1_s128[0:1]" in {row.case for row in checked.rows}


def test_pattern_and_bandwidth_run_the_tasks_of_command() -> None:
    work = pattern._work(load_arch("tpu_v4i"), load_trace("bert_tiny_fwd_b1_s128"), False)
    assert work.trace.name == "bert_tiny_fwd_b1_s128"
    assert work.by("bandwidth").memory.system is None
    memory = compile_program(load_arch("tpu_v4i", {"dram.model": "pattern"}), work.trace).memory
    assert work.by("pattern").memory == memory
    assert work.by("pattern").unit is work.program.unit


def test_tiles_of_either_layout_cover_the_tensor_once() -> None:
    for name in layout.LAYOUTS:
        covered = np.zeros(6 * 8, int)
        for address, rows, row_bytes, gap in layout._requests((6, 8), 2, name):
            for row in range(rows):
                covered[address + row * (row_bytes + gap) :][:row_bytes] += 1
        assert (covered == 1).all()
    assert list(layout._requests((4, 4), 2, "row-major"))[:2] == [(0, 2, 2, 2), (8, 2, 2, 2)]  # down k first
    assert list(layout._requests((4, 4), 2, "blocked"))[:2] == [(0, 1, 4, 0), (4, 1, 4, 0)]


def test_layout_shows_what_its_page_says() -> None:
    def worst(mapping: str, channel_xor: bool, order: str, outstanding: int = 2048) -> float:
        setting = layout.Setting("hbm2_2000", 8, mapping, channel_xor, outstanding)
        return min(setting.share((768, 3072), tile, order) for tile in layout.TILES)

    assert worst("MOP4CLXOR", True, "row-major") > 0.65 > 0.45 > worst("MOP4CLXOR", False, "row-major")
    assert worst("MOP4CLXOR", True, "blocked") > 0.85
    assert worst("RoBaRaCoBgCh", True, "blocked") < 0.55
    assert worst("MOP4CLXOR", True, "blocked", outstanding=64) < 0.1


def test_energy_sees_a_figure_outside_our_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_) = energy.reference_rows()
    monkeypatch.setattr(energy, "reference_rows", lambda: [replace(first, nominal=first.reference * 1.01)])
    (row,) = outside("energy")
    assert row.agrees is False
    assert row.spread == (first.low, first.high)
