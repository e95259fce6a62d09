"""Energy of a run: counts x energy per action, static power x time, by component and by operator."""

from __future__ import annotations

import math
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.arch.presets import dram_presets
from accelsim.arch.spec import Arch
from accelsim.compile.program import COUNTERS, Program
from accelsim.energy import Memory
from accelsim.engine.timeline import Timeline
from accelsim.errors import InputError, InternalError
from accelsim.measure.energy import ACCESSES, EnergyReport, energy_of, price_list
from accelsim.measure.prices import memories
from accelsim.trace.model import DTYPE_BYTES, Trace
from tests.measure.programs import machine, matmul_trace, worked_example

WHOLE_RUN = np.array([2403])
LEAKAGE = "scratchpad_leakage_mw_per_kib"
LEAKAGES = ("array_leakage_mw_per_pe", "vector_leakage_mw_per_lane", LEAKAGE, "accumulator_leakage_mw_per_kib",
            "level2_leakage_mw_per_kib", "special_leakage_mw_per_element")  # fmt: skip
SECOND_LEVEL = {"capacity_kib": 4096.0, "bandwidth_gbps": 100.0}


SPECIAL = {kind: {"elements_per_cycle": 8.0, "latency": 4} for kind in ("softmax", "layernorm", "gelu")}
HOST = {
    "vector": "none",
    "host": {
        "rate_gops": dict.fromkeys(("simple", "exp", "erf", "tanh", "rsqrt", "div"), 1.0),
        "kernel_latency_us": 1.0,
    },
}


def report(arch: Arch | None = None, trace: Trace | None = None, program: Program | None = None) -> EnergyReport:
    """Energy of the worked example, whose one operator takes all 2403 cycles."""
    given_program, timeline = worked_example()
    return energy_of(program or given_program, timeline, arch or machine(), trace or matmul_trace(), WHOLE_RUN)


def with_overrides(**overrides: Any) -> Arch:
    return machine(energy={"overrides": overrides})


def counter(name: str) -> int:
    return int(worked_example()[0].counters[:, COUNTERS.index(name)].sum())


def test_every_component_of_the_worked_example_by_hand() -> None:
    """256 x 128 x 256 int8: 8 M MACs, 16 KiB x 2 + 32 KiB loaded, 64 KiB stored, 2403 ns on 128 x 128 PEs."""
    found = report(with_overrides(
        mac_int8_pj=0.5, array_register_pj_per_bit=0.01, accumulator_read_pj_per_byte=2,
        accumulator_write_pj_per_byte=3,
        scratchpad_read_pj_per_byte=1, scratchpad_write_pj_per_byte=7, vector_simple_pj=1, vector_special_pj=1,
        dram_read_pj_per_byte=40, dram_write_pj_per_byte=50, array_leakage_mw_per_pe=0.25,
        accumulator_leakage_mw_per_kib=0.5, scratchpad_leakage_mw_per_kib=0.125, vector_leakage_mw_per_lane=2,
        dram_background_mw_per_channel=100,
    ))  # fmt: skip
    macs = 256 * 128 * 256
    nominal = {component: spread[1] for component, spread in found.by_component.items()}
    assert nominal == pytest.approx({
        "array_mac": macs * 0.5,
        "array_registers": macs * (8 + 32) * 0.01,  # an int8 activation and a 4 byte sum move for each MAC
        "accumulator": 65536 * 4 * 2 + 65536 * 4 * 3,
        "scratchpad": 65536 * 1 + (2 * 16384 + 32768 + 65536) * 7,
        "vector": 0,
        "dram": 65536 * 40 + 65536 * 50,
        "static_array": 0.25 * 128 * 128 * 2403,
        "static_accumulator": 0.5 * 128 * 2403,
        "static_scratchpad": 0.125 * 64 * 2403,
        "static_vector": 2 * 128 * 2403,
        "static_dram": 100 * 8 * 2403,
    }, rel=1e-12)  # fmt: skip
    assert set(found.sources.values()) == {"override"}


def test_doubling_the_mac_energy_doubles_that_component_exactly_and_moves_nothing_else() -> None:
    once, twice = report(with_overrides(mac_int8_pj=0.1)), report(with_overrides(mac_int8_pj=0.2))
    for component, spread in once.by_component.items():
        factor = 2 if component == "array_mac" else 1
        assert twice.by_component[component] == tuple(factor * value for value in spread)


def test_reads_and_writes_of_the_scratchpad_have_their_own_energy() -> None:
    found = report(with_overrides(scratchpad_read_pj_per_byte=1.0, scratchpad_write_pj_per_byte=7.0))
    expected = counter("scratchpad_read_bytes") * 1.0 + counter("scratchpad_write_bytes") * 7.0
    assert found.by_component["scratchpad"] == (expected, expected, expected)


def test_override_with_a_spread_reaches_low_and_high() -> None:
    found = report(with_overrides(mac_int8_pj={"low": 1.0, "nominal": 2.0, "high": 4.0})).by_component["array_mac"]
    assert found == (2.0**23, 2 * 2.0**23, 4 * 2.0**23)


WITH_VECTOR = tuple(name for name in COUNTERS if not name.startswith("host_"))


@given(st.dictionaries(st.sampled_from(WITH_VECTOR), st.integers(0, 2**40)), st.integers(0, 2**40), st.data())
def test_components_and_operators_sum_to_the_same(counts: dict[str, int], macs: int, data: st.DataObject) -> None:
    base, timeline = worked_example()
    arch = machine(second_level=SECOND_LEVEL, special=SPECIAL)
    op = np.array(data.draw(st.lists(st.integers(0, 1), min_size=base.size, max_size=base.size)), np.int32)
    counters = base.counters.copy()
    for name, count in counts.items():
        counters[data.draw(st.integers(0, base.size - 1)), COUNTERS.index(name)] = count
    placed = np.where(op == 0, macs, 0)
    program = replace(base, op=op, counters=counters, macs=placed, plans=())
    first = data.draw(st.integers(0, timeline.total))
    found = energy_of(program, timeline, arch, two_operators(), np.array([first, timeline.total - first]))
    assert fsum(found.by_operator) == pytest.approx(found.total_pj[1], rel=1e-9)
    assert all(0 <= low <= nominal <= high for low, nominal, high in found.by_component.values())


def two_operators() -> Trace:
    one = matmul_trace()
    return replace(one, ops=(one.ops[0], replace(one.ops[0], id=1, kind="relu", attributes={})))


def test_static_energy_goes_to_operators_by_their_cycles() -> None:
    program, timeline = worked_example()
    idle = replace(program, counters=program.counters * 0, macs=program.macs * 0, rows=program.rows * 0)
    found = energy_of(idle, timeline, machine(), two_operators(), np.array([2403 - 801, 801]))
    assert found.by_operator[0] == pytest.approx(2 * found.by_operator[1], rel=1e-12)


def test_cycles_of_the_operators_must_be_the_runs() -> None:
    program, timeline = worked_example()
    with pytest.raises(InternalError, match="operators take 1 cycles, the run 2403"):
        energy_of(program, timeline, machine(), matmul_trace(), np.array([1]))


def test_accesses_cover_every_counter() -> None:
    assert sorted(name for _, counters, _ in ACCESSES for name in counters) == sorted(COUNTERS)


def test_finished_sums_read_out_cost_as_much_as_partial_sums_read_back() -> None:
    program, _ = worked_example()
    swapped = program.counters.copy()
    reads, drains = COUNTERS.index("accumulator_reads"), COUNTERS.index("accumulator_drain_reads")
    swapped[:, [reads, drains]] = swapped[:, [drains, reads]]
    assert counter("accumulator_drain_reads") > 0
    assert report(program=replace(program, counters=swapped)).by_component == report().by_component


@pytest.mark.parametrize(("dtype", "key"), [("int8", "mac_int8_pj"), ("bf16", "mac_bf16_pj"), ("fp32", "mac_fp32_pj")])
def test_mac_energy_follows_the_operands_dtype(dtype: str, key: str) -> None:
    arch = machine(array={"rate": {"int8": 1, "bf16": 1, "fp32": 1}})
    found = report(arch, matmul_trace(dtype=dtype))
    assert found.by_component["array_mac"][1] == 2**23 * found.prices[key].nominal
    assert [entry for entry in found.prices if entry.startswith("mac_")] == [key]


@pytest.mark.parametrize(("dataflow", "bits"), [("ws", 16 + 32), ("is", 8 + 32), ("os", 16 + 8 + 32)])
def test_registers_move_what_flows_in_the_dataflow(dataflow: str, bits: int) -> None:
    """A is bf16, B int8: weight-stationary moves a and the sum, input-stationary b, output-stationary both."""
    trace = matmul_trace()
    trace = replace(trace, tensors=(replace(trace.tensors[0], dtype="bf16"), *trace.tensors[1:]))
    arch = machine(
        array={"dataflow": dataflow, "rate": {"int8 x bf16": 1}},
        energy={"overrides": {"array_register_pj_per_bit": 1}},
    )
    program = worked_example()[0]
    program = replace(program, plans=(replace(program.plans[0], dataflow=dataflow),))
    assert report(arch, trace, program).by_component["array_registers"][1] == 2**23 * bits


def test_mixed_operands_cost_the_dearer_mac() -> None:
    prices = price_list(machine())
    assert prices.mac_key("int8", "bf16") == prices.mac_key("bf16", "int8") == "mac_bf16_pj"
    assert price_list(with_overrides(mac_int8_pj=99)).mac_key("int8", "bf16") == "mac_int8_pj"
    assert prices.mac_key("uint8", "int8") == "mac_int8_pj"


def test_dtype_without_an_entry_is_refused() -> None:
    with pytest.raises(InputError, match="cannot price a MAC of fp64"):
        price_list(machine()).mac_key("fp64", "fp64")


def test_all_dtypes_are_priced_or_refused_as_input() -> None:
    for dtype in DTYPE_BYTES:
        try:
            assert price_list(machine()).price(price_list(machine()).mac_key(dtype)).nominal > 0
        except InputError:
            assert dtype in ("bool", "int64", "fp64")


def test_macs_without_a_matmul_are_our_fault() -> None:
    with pytest.raises(InternalError, match="no matmul of the trace belongs to it"):
        report(trace=replace(matmul_trace(), ops=(replace(matmul_trace().ops[0], kind="relu", attributes={}),)))


def test_recomputed_macs_cost_energy_too() -> None:
    program, _ = worked_example()
    doubled = report(program=replace(program, macs=program.macs * 2))
    assert doubled.by_component["array_mac"][1] == 2 * report().by_component["array_mac"][1]


def test_unknown_override_names_the_nearest_entry_and_its_place() -> None:
    with pytest.raises(InputError, match="did you mean scratchpad_read_pj_per_byte"):
        price_list(with_overrides(scratchpad_read_pj=1))


def test_unknown_table_and_technology_are_refused() -> None:
    with pytest.raises(InputError, match="no such energy table"):
        price_list(machine(energy={"table": "nothing"}))
    with pytest.raises(InputError, match="scales to 5 to 65 nm"):
        price_list(machine(energy={"technology_nm": 90}))


@pytest.mark.parametrize("preset", list(dram_presets()))
def test_every_dram_device_has_its_energy(preset: str) -> None:
    arch = machine(dram={"preset": preset})
    family = arch.dram.device.family
    for key in ("dram_read_pj_per_byte", "dram_write_pj_per_byte", "dram_background_mw_per_channel"):
        assert price_list(arch).price(key) == price_list(arch).table.price(key, device=family)


def test_memories_are_charged_for_their_own_organisation() -> None:
    arch = machine(scratchpad={"capacity_kib": 512, "banks": 64, "bank_width_bytes": 8}, second_level=SECOND_LEVEL)
    assert memories(arch) == {
        "accumulator": Memory(1024, 32, "hp", 128),
        "scratchpad": Memory(8 * 1024, 64, "hp", 64),
        "level2": Memory(4096 * 1024, 800, "hp"),
    }
    prices = price_list(arch)
    assert prices.price("scratchpad_read_pj_per_byte").nominal == pytest.approx(7.5 / 8)
    for key in ("scratchpad_write_pj_per_byte", "accumulator_read_pj_per_byte", "level2_leakage_mw_per_kib"):
        memory = memories(arch)[key.split("_")[0]]
        assert prices.price(key) == prices.table.price(key, 7, memory=memory)


def test_second_level_of_unlimited_bandwidth_is_as_wide_as_the_widest_known_memory() -> None:
    arch = machine(second_level={**SECOND_LEVEL, "bandwidth_gbps": math.inf})
    assert memories(arch)["level2"].width_bits == 1024
    slow = machine(second_level={**SECOND_LEVEL, "bandwidth_gbps": 0.001})
    assert memories(slow)["level2"].width_bits == 8


def test_cells_decide_leakage_and_an_override_wins_over_them() -> None:
    leakage = {cell: price_list(machine(energy={"sram_cell": cell})).price(LEAKAGE).nominal for cell in ("hp", "lstp")}
    assert leakage["hp"] > 200 * leakage["lstp"]
    given = price_list(machine(energy={"sram_cell": "lstp", "overrides": {LEAKAGE: 3}})).price(LEAKAGE)
    assert (given.spread, given.kind) == ((3, 3, 3), "override")


COUNTED = {component: counters for component, counters, _ in ACCESSES}


@pytest.mark.parametrize(("component", "counters", "key"), ACCESSES)
def test_every_access_costs_its_entry_exactly_and_none_costs_nothing(
    component: str, counters: tuple[str, ...], key: str
) -> None:
    base, _ = worked_example()
    columns = [COUNTERS.index(name) for name in counters]
    arch = machine(second_level=SECOND_LEVEL, special=SPECIAL, **(HOST if component.startswith("host") else {}))
    found = {}
    for count in (0, 1000, 2000):
        changed = np.zeros_like(base.counters)
        changed[0, columns] = count
        energy = report(arch, program=replace(base, counters=changed))
        found[count] = energy.by_component[component]
        others = {name: spread for name, spread in energy.by_component.items() if name in COUNTED and name != component}
        assert set(others.values()) == {(0, 0, 0)}
    width = arch.accumulator.width_bytes if component == "accumulator" else 1
    assert found[0] == (0, 0, 0)
    assert found[1000] == price_list(arch).price(key).times(1000 * width * len(columns)).spread
    assert found[2000] == tuple(2 * value for value in found[1000])


def test_macs_and_registers_scale_exactly_with_the_macs() -> None:
    base, _ = worked_example()
    none, once, twice = (report(program=replace(base, macs=base.macs * factor)).by_component for factor in (0, 1, 2))
    for component in ("array_mac", "array_registers"):
        assert none[component] == (0, 0, 0)
        assert twice[component] == tuple(2 * value for value in once[component])


STATIC = {
    "static_special": {"special": {kind: {**unit, "elements_per_cycle": 16.0} for kind, unit in SPECIAL.items()}},
    "static_array": {"array": {"count": 2}},
    "static_vector": {"vector": {"lanes": 256}},
    "static_accumulator": {"accumulator": {"capacity_kib": 256}},
    "static_scratchpad": {"scratchpad": {"capacity_kib": 128}},
    "static_level2": {"second_level": {**SECOND_LEVEL, "capacity_kib": 8192.0}},
}


@pytest.mark.parametrize("component", STATIC)
def test_static_energy_scales_exactly_with_what_leaks(component: str) -> None:
    sections = {
        "second_level": SECOND_LEVEL,
        "special": SPECIAL,
        "energy": {"overrides": dict.fromkeys(LEAKAGES, 0.25)},
    }
    once, twice = (report(machine(**{**sections, **more})).by_component for more in ({}, STATIC[component]))
    assert once[component][1] > 0
    for name in STATIC:
        factor = 2 if name == component else 1
        assert twice[name] == tuple(factor * value for value in once[name])


def test_second_level_is_charged_only_where_there_is_one() -> None:
    program, _ = worked_example()
    counters = program.counters.copy()
    counters[0, COUNTERS.index("level2_read_bytes")] = 1000
    used = replace(program, counters=counters)
    arch = machine(second_level=SECOND_LEVEL, energy={"overrides": {"level2_read_pj_per_byte": 3}})
    found = report(arch, program=used).by_component
    assert found["level2"] == (3000, 3000, 3000)
    assert found["static_level2"][1] > 0
    assert "level2" not in report().by_component
    with pytest.raises(InternalError, match="without a second level"):
        report(program=used)


def test_energy_per_mac_is_physical_from_tiny_to_huge() -> None:
    """Case D22: counters near 2^63 neither wrap nor give absurd energy."""
    program, _ = worked_example()
    huge = replace(program, macs=program.macs * 2**25)
    trace = matmul_trace(65536, 65536, 65536)
    assert int(huge.macs.sum()) == trace.macs == 281_474_976_710_656
    assert 0.01 < report(program=huge, trace=trace).total_pj[1] / trace.macs < 1000
    assert 0.01 < report().total_pj[1] / 2**23 < 1000


def test_run_without_time_has_no_static_energy() -> None:
    program, timeline = worked_example()
    empty = replace(program, counters=program.counters * 0, macs=program.macs * 0, rows=program.rows * 0)
    at_once = Timeline(
        *(column * 0 for column in (timeline.start, timeline.released, timeline.done)), timeline.served, 0
    )
    found = energy_of(empty, at_once, machine(), matmul_trace(), np.array([0]))
    assert found.total_pj == (0, 0, 0)


def test_slower_clock_leaks_longer() -> None:
    fast, slow = (report(machine() if mhz == 1000 else _clocked(mhz)) for mhz in (1000, 500))
    for component, (_, nominal, _) in fast.by_component.items():
        factor = 2 if component.startswith("static_") else 1
        assert slow.by_component[component][1] == pytest.approx(factor * nominal, rel=1e-12)


def _clocked(mhz: float) -> Arch:
    return Arch.model_validate(machine().model_dump() | {"clock_mhz": mhz})
