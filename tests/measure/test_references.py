"""Published figures against the energy and area tables, and against the sources as they were collected."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from accelsim.arch import load_arch
from accelsim.measure.references import PAGES, full_load_power, page, reference_rows

ROOT = Path(__file__).parents[2]
ROWS = reference_rows()


@pytest.fixture(scope="module")
def sources() -> dict[tuple[str, str, str], float]:
    """(component, node, detail) -> value, as collected from the sources."""
    with (ROOT / "tests" / "oracles" / "energy_sources.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(r["component"], r["tech_nm"], r["detail"]): float(r["value"]) for r in rows if _is_number(r["value"])}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.quantity}: {row.source}")
def test_every_reference_agrees_as_it_should(row) -> None:
    assert row.low <= row.nominal <= row.high
    assert row.agrees


def test_a_reference_that_does_not_hold_is_told() -> None:
    row = ROWS[0]
    assert not replace(row, nominal=1.01 * row.reference).agrees
    assert not replace(row, relation="inside", reference=1.1 * row.high).agrees
    assert not replace(row, relation="inside", reference=0.9 * row.low).agrees
    assert replace(row, relation="below", reference=2 * row.high).agrees
    assert not replace(row, relation="below", reference=0.9 * row.low).agrees


def test_references_are_what_the_sources_say(sources) -> None:
    found = {(row.quantity, row.source.split(",")[0]): row.reference for row in ROWS}
    table2 = {name: sources[f"e.7nm.{name}", "7", f"{name} 7 nm"] for name in ("mul_int8", "add_int32", "mul_bf16",
              "add_fp32", "mul_fp32", "sram_8KB", "sram_32KB", "sram_1MB")}  # fmt: skip
    assert found["int8 MAC at 7 nm", "TPUv4i"] == pytest.approx(table2["mul_int8"] + table2["add_int32"])
    assert found["bf16 MAC at 7 nm", "TPUv4i"] == pytest.approx(table2["mul_bf16"] + table2["add_fp32"])
    assert found["fp32 MAC at 7 nm", "TPUv4i"] == pytest.approx(table2["mul_fp32"] + table2["add_fp32"])
    for kib, name in ((8, "sram_8KB"), (32, "sram_32KB"), (1024, "sram_1MB")):
        assert found[f"64 bit read of {kib} KiB at 7 nm", "TPUv4i"] == table2[name]
        assert (
            found[f"64 bit read of {kib} KiB at 45 nm", "Horowitz"] == sources[f"e.45nm.{name}", "45", f"{name} 45 nm"]
        )
    aladdin = sources["integer MAC", "22", "8 bit mult, 32 bit add"]
    assert found["int8 MAC at 22 nm", "Aladdin by Stillmaker"] == pytest.approx(aladdin)
    assert found["int8 MAC at 22 nm", "ITA"] == pytest.approx(
        2 / sources["soft.ita.tops_w", "", "energy efficiency"], 1e-3
    )
    watts = [sources[f"tpu1.{name}", "", name] for name in ("tdp", "busy")]
    assert [row.reference for row in ROWS if row.quantity == "tpu_v1, arrays busy"] == watts
    largest_die_mm2 = 331
    for component, part in (
        ("array", "matrix unit"),
        ("scratchpad", "Unified Buffer"),
        ("accumulator", "accumulators"),
    ):
        share = sources["TPU v1 floor plan", "28", part] / 100
        assert found[f"tpu_v1, {component}", "TPU v1"] == pytest.approx(share * largest_die_mm2, 2e-3)


def test_full_load_power_is_that_of_the_macs_and_what_feeds_them() -> None:
    prices = {"mac_int8_pj": 1, "array_register_pj_per_bit": 0, "scratchpad_read_pj_per_byte": 2,
              "accumulator_write_pj_per_byte": 3, "accumulator_read_pj_per_byte": 5, "array_leakage_mw_per_pe": 0,
              "scratchpad_leakage_mw_per_kib": 0, "accumulator_leakage_mw_per_kib": 7}  # fmt: skip
    arch = load_arch("gemmini_16", {"energy.overrides": prices})
    per_cycle_pj = 256 * 1 + 16 * 2 + 16 * 4 * (3 + 5)
    assert full_load_power(arch, "int8") == pytest.approx((per_cycle_pj * 1e-3 + 64 * 7e-3,) * 3)


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_the_pages_show_the_references_as_they_are(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert page(text, PAGES[path]) == text, "run `python -m accelsim.measure.references`"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
