"""Area of a machine: parts x area of one, composed of sourced entries, every one of them replaceable."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from accelsim.arch import list_archs, load_arch
from accelsim.arch.spec import Arch
from accelsim.arch.units import DTYPES
from accelsim.cli_look import show
from accelsim.energy import KINDS, OVERRIDE, area_table
from accelsim.errors import InputError
from accelsim.measure.area import area_of, register_bits, special_area
from accelsim.measure.energy import price_list
from accelsim.measure.prices import area_prices
from tests.measure.programs import machine

SECOND_LEVEL = {"capacity_kib": 4096.0, "bandwidth_gbps": 100.0}


def with_overrides(**overrides: Any) -> Arch:
    return machine(second_level=SECOND_LEVEL, area={"overrides": overrides})


def test_every_component_by_hand() -> None:
    """128 x 128 PEs, 128 lanes, 128 KiB accumulator, 64 KiB scratchpad, 4 MiB second level."""
    found = area_of(with_overrides(
        mac_int8_um2=100, mac_bf16_um2=300, register_um2_per_bit=2, logic_placement=1.5, vector_alu_um2_per_lane=1000,
        vector_special_um2=500, sram_placement=3, scratchpad_bare_mm2_per_kib=0.5, accumulator_bare_mm2_per_kib=0.25,
        level2_mm2_per_kib=0.125,
    ))  # fmt: skip
    element = (300 / 2 + (3 * 8 + 32) * 2) * 1.5  # bf16 at a rate of 1/2; two operands of 8 bit, one twice, a sum
    expected = {
        "array": 128 * 128 * element / 1e6,
        "vector": 128 * 1500 * 1.5 / 1e6,
        "accumulator": 128 * 0.25 * 3,
        "scratchpad": 64 * 0.5 * 3,
        "level2": 4096 * 0.125,
    }
    assert {name: spread[1] for name, spread in found.by_component.items()} == pytest.approx(expected)
    assert set(found.sources.values()) == {"override"}
    assert found.total_mm2[1] == pytest.approx(sum(expected.values()))


def test_an_override_of_a_sum_wins_over_its_parts() -> None:
    found = area_of(with_overrides(array_pe_um2={"low": 1, "nominal": 2, "high": 4}, mac_int8_um2=1e9))
    assert found.by_component["array"] == pytest.approx((128**2 * 1e-6, 128**2 * 2e-6, 128**2 * 4e-6))
    assert "mac_int8_um2" not in found.prices


def test_an_override_of_no_entry_names_the_nearest_before_anything_runs() -> None:
    for check in (area_of, price_list):
        with pytest.raises(InputError, match=r"the area table has no entry array_pe.* did you mean array_pe_um2"):
            check(with_overrides(array_pe=1))


@pytest.mark.parametrize(
    ("part", "component"),
    [
        ({"array": {"count": 2}}, "array"),
        ({"array": {"rows": 256}}, "array"),
        ({"vector": {"lanes": 256}}, "vector"),
        ({"accumulator": {"capacity_kib": 256}}, "accumulator"),
        ({"scratchpad": {"banks": 32, "capacity_kib": 128}}, "scratchpad"),
    ],
)
def test_twice_the_parts_take_twice_the_area_and_nothing_else_changes(part: dict[str, Any], component: str) -> None:
    fixed = {"overrides": {"accumulator_mm2_per_kib": 0.1}}
    once, twice = area_of(machine(area=fixed)).by_component, area_of(machine(area=fixed, **part)).by_component
    assert {name: 2 if name == component else 1 for name in once} == {
        name: pytest.approx(twice[name][1] / spread[1]) for name, spread in once.items()
    }


@pytest.mark.parametrize(
    ("array", "bits"),
    [
        ({"dataflow": "ws"}, 8 + 2 * 8 + 32),
        ({"dataflow": "is", "weight_double_buffer": False}, 8 + 8 + 32),
        ({"dataflow": "os"}, 8 + 8 + 2 * 32),
        ({"dataflow": "os", "output_double_buffer": False}, 8 + 8 + 32),
        ({"rate": {"int8": 1, "bf16": 1, "fp32": "1/4"}}, 3 * 16 + 32),
    ],
)
def test_registers_hold_what_the_dataflow_needs(array: dict[str, Any], bits: int) -> None:
    whole = {**machine().model_dump()["array"], "rate": {"int8": 1}, **array}
    assert register_bits(Arch.model_validate({**machine().model_dump(), "array": whole})) == bits


@given(st.sets(st.sampled_from(DTYPES), min_size=1), st.sampled_from(("hp", "lstp")), st.floats(5, 65))
def test_every_set_of_dtypes_has_an_area_in_order(dtypes: set[str], cell: str, nm: float) -> None:
    arch = machine(energy={"technology_nm": nm, "sram_cell": cell})
    arch = arch.model_copy(update={"array": arch.array.model_copy(update={"rate": dict.fromkeys(dtypes, 1)})})
    for low, nominal, high in area_of(arch).by_component.values():
        assert 0 < low <= nominal <= high


def test_a_finer_node_is_smaller_and_one_out_of_range_is_refused() -> None:
    areas = [area_of(machine(energy={"technology_nm": nm})).total_mm2[1] for nm in (7, 16, 28, 45)]
    assert areas == sorted(areas)
    with pytest.raises(InputError, match="the area table is for 45 nm and scales to 5 to 65 nm"):
        area_of(machine(energy={"technology_nm": 90}))


@pytest.mark.parametrize("kind", ["softmax", "layernorm", "gelu"])
def test_special_units_grow_with_their_rate(kind: str) -> None:
    prices = area_prices(machine())
    one, four = special_area(prices, kind, 1), special_area(prices, kind, 4)
    assert four == pytest.approx(tuple(4 * value for value in one))
    bare = area_table().price(f"{kind}_um2_per_element", 7).nominal
    assert one[1] == pytest.approx(bare * area_table().price("logic_placement").nominal / 1e6)


def test_the_second_level_counts_only_where_there_is_one() -> None:
    assert "level2" not in area_of(machine()).by_component
    assert "level2" in area_of(machine(second_level=SECOND_LEVEL)).by_component


@pytest.mark.parametrize("name", list_archs())
def test_every_shipped_machine_has_a_sensible_area(name: str) -> None:
    low, nominal, high = area_of(load_arch(name)).total_mm2
    assert 0.1 < low < nominal < high < 400
    assert set(area_of(load_arch(name)).sources.values()) <= {*KINDS, OVERRIDE}


def test_show_arch_prints_area_by_component_with_its_share() -> None:
    settings = [f"--set=area.overrides.{key}=0" for key in ("vector_lane_um2", "accumulator_mm2_per_kib")]
    settings += ["--set=area.overrides.array_pe_um2=100", "--set=area.overrides.scratchpad_mm2_per_kib=0.0002"]
    shown = CliRunner().invoke(show, ["arch", "tpu_like", *settings])
    assert shown.exit_code == 0
    assert re.search(r"^Area at 7 nm .*mm2\ncomponent +nominal +low +high +share %$", shown.output, re.M)
    assert re.search(r"^array +1\.64 +1\.64 +1\.64 +50\.0$", shown.output, re.M)  # 16,384 x 100 um2
    assert re.search(r"^scratchpad +1\.64 +1\.64 +1\.64 +50\.0$", shown.output, re.M)  # 8,192 KiB
    assert re.search(r"^total +3\.28 +3\.28 +3\.28 +100\.0$", shown.output, re.M)
