"""Counts that add up: cycles by kind, bytes, partial sums, MACs (cases D01, D02, D05, D07, D20, D22)."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import accelsim
from tests.cases.machines import (
    DATAFLOWS,
    MEMORY_CAUSES,
    TINY,
    Capture,
    array,
    ceiling,
    command,
    gemm_on_ideal,
    total_of,
)

SHAPES = tuple(itertools.product((1, 7, 128), (1, 3, 64, 65, 768), (1, 3, 64, 65, 768)))
BANDWIDTHS = (0.5, 4, 64, float("inf"))


def numbers(value: Any) -> Iterator[int | float]:
    """Every number in nested plain data."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("size", [1, 4, 128])
@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_d01_no_count_is_negative_and_the_cycles_of_each_unit_add_up(
    size: int, dataflow: str, bandwidth: float
) -> None:
    machine = array(size, size, dataflow, dram__bandwidth_gbps=bandwidth)
    for m, n, k in random.Random(f"{size}{dataflow}{bandwidth}").sample(SHAPES, 8):
        result = accelsim.gemm(machine, m, n, k)
        data = result.to_dict()
        measured = {key: value for key, value in data.items() if key not in ("provenance", "program")}
        assert min(numbers(measured)) >= 0, (m, n, k)
        for name, unit in result.units.items():
            assert all(isinstance(cycles, int) for cycles in numbers(unit)), name
            assert total_of(unit) == result.cycles, (name, m, n, k)
        assert sum(row["cycles"] for row in result.operators) == result.cycles
        assert result.cycles >= ceiling(m * n * k, size * size)
        assert result.dram_bytes >= m * k + k * n + m * n
        assert result.cycles >= result.dram_bytes / bandwidth


def test_d01_layers_operators_and_kinds_each_sum_to_the_run() -> None:
    data = accelsim.simulate("tpu_like", TINY).to_dict()
    for key in ("operators", "by_kind", "by_layer", "by_phase"):
        for column in ("cycles", "macs"):
            assert sum(row[column] for row in data[key]) == data["total"][column], (key, column)
        assert sum(row["dram_read_bytes"] for row in data[key]) == data["dram"]["read_bytes"], key


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_d02_ideal_memory_never_stalls_anything(dataflow: str) -> None:
    result = gemm_on_ideal(32, 32, dataflow, 512, 512, 512)
    for name, unit in result.units.items():
        assert not MEMORY_CAUSES & set(unit["stalls"]), name
    assert not {"core0.load0", "core0.store0"} & set(result.to_dict()["critical_path"]["by_unit"])


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_d02_unlimited_bandwidth_is_the_limit_of_a_huge_one(dataflow: str) -> None:
    free = {"dram__model": "bandwidth", "dram__latency_ns": 0, "dma__issue_cycles": 0}
    unlimited = accelsim.gemm(array(32, 32, dataflow, **free, dram__bandwidth_gbps=float("inf")), 512, 512, 512)
    huge = accelsim.gemm(array(32, 32, dataflow, **free, dram__bandwidth_gbps=1e12), 512, 512, 512)
    assert huge.program is not None
    loads = sum(huge.program.units[unit].kind == "load" for unit in huge.program.unit.tolist())
    assert 0 <= huge.cycles - unlimited.cycles <= loads


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_d05_every_output_is_written_once_in_timeline_and_counters(
    capsys: Capture, tmp_path: Path, dataflow: str
) -> None:
    """6 x 6 results of a K that fits the array: no partial sum is read back, nothing is written twice."""
    sizes = [f"--set=array.{key}=4" for key in ("rows", "cols")]
    timeline = tmp_path / "timeline.json"
    text = command(
        capsys, "gemm", "6", "6", "4", *sizes, f"--set=array.dataflow={dataflow}", "--timeline", str(timeline),
        "--json", str(tmp_path / "result.json"),
    )  # fmt: skip
    assert "6x6x4" in text
    (row,) = json.loads((tmp_path / "result.json").read_text())["operators"]
    events = json.loads(timeline.read_text())["traceEvents"]
    assert sum(event["args"]["bytes"] for event in events if event.get("cat") == "store") == 36
    assert row["dram_write_bytes"] == 36
    assert row["scratchpad_write_bytes"] - row["dram_read_bytes"] == 36
    assert row["accumulator_reads"] == 0
    assert row["accumulator_writes"] == (0 if dataflow == "os" else 36)


def test_d07_weights_are_read_at_least_once() -> None:
    """A pointwise convolution of 7 x 7 pixels and 1024 channels on 32 x 32."""
    machine = array(32, 32)
    activations, weights = 49 * 1024, 1024 * 1024
    assert accelsim.gemm(machine, 49, 1024, 1024, resident=["a"]).to_dict()["dram"]["read_bytes"] >= weights
    result = accelsim.gemm(machine, 49, 1024, 1024)
    assert result.dram_bytes >= activations + weights + activations
    assert result.cycles >= 50_176
    achieved = result.to_dict()["dram"]["achieved_bandwidth_gbps"]
    assert achieved * 1e9 * result.seconds == pytest.approx(result.dram_bytes, rel=1e-12)


@pytest.mark.parametrize("dataflow", ["ws", "is"])
def test_d20_partial_sums_between_k_folds_are_read_back(dataflow: str) -> None:
    """128 x 128 results over four folds of K: each fold writes them, each but the first reads them."""
    result = accelsim.gemm(array(128, 128, dataflow), 128, 128, 512)
    (row,) = result.operators
    assert row["accumulator_writes"] == 4 * 128 * 128
    assert row["accumulator_reads"] == 3 * 128 * 128
    assert row["accumulator_drain_reads"] == row["dram_write_bytes"] == 128 * 128


def test_d20_accumulated_sums_are_as_wide_as_the_accumulator() -> None:
    prices = {"energy.overrides.accumulator_read_pj_per_byte": 1, "energy.overrides.accumulator_write_pj_per_byte": 10}
    for width in (4, 8):
        machine = accelsim.load_arch("tpu_like", prices | {"accumulator.width_bytes": width})
        energy = accelsim.gemm(machine, 128, 128, 512).to_dict()["energy_pj"]["accumulator"]
        assert energy == pytest.approx(width * (10 * 65_536 + 49_152 + 16_384), rel=1e-12)


def test_d22_counts_beyond_32_bits_are_exact() -> None:
    """65,536 cubed: 2^48 MACs, in tiles large enough that few are needed."""
    result = accelsim.gemm(
        array(128, 128, scratchpad__capacity_kib=2**20, accumulator__capacity_kib=2**20, dram__model="bandwidth"),
        *[65_536] * 3,
    )
    assert result.macs == 281_474_976_710_656
    assert result.cycles >= 281_474_976_710_656 // 128**2
    assert all(0 <= number < 2**63 for number in numbers(result.operators))
    assert 0.01 <= result.to_dict()["energy_pj"]["array_mac"] / result.macs <= 1000


def test_d22_energy_of_a_mac_is_physical() -> None:
    large, small = (accelsim.gemm("tpu_like", size, size, size) for size in (2048, 1))
    assert 0.01 <= large.energy_pj / large.macs <= 1000
    assert all(number >= 0 for row in (small.operators, small.units) for number in numbers(row))
