"""What a dedicated unit, or the lack of a vector unit, does to a layer of BERT-Base."""

from __future__ import annotations

from functools import cache
from typing import Any

import accelsim
from accelsim import Result
from tests.cases.machines import BASE

GELU = {"elements_per_cycle": 128, "latency": 20, "attach": "scratchpad"}


@cache
def layer(machine: str, **changes: str) -> Result:
    arch = accelsim.load_arch(machine, {key.replace("__", "."): value for key, value in changes.items()})
    return accelsim.simulate(arch, BASE, layers="0:1")


def total(result: Result, what: str) -> float:
    return float(sum(result.to_dict()[what].values()))


def kind(result: Result, name: str) -> dict[str, Any]:
    return next(row for row in result.to_dict()["by_kind"] if row["kind"] == name)


def test_a_softmax_unit_at_the_output_is_faster_than_at_the_scratchpad_than_none() -> None:
    none, apart = layer("tpu_like"), layer("tpu_like_softmax", special__softmax__attach="scratchpad")
    attached = layer("tpu_like_softmax")
    assert attached.cycles < apart.cycles < none.cycles
    assert attached.energy_pj < none.energy_pj
    assert kind(apart, "softmax")["energy_pj"] < kind(none, "softmax")["energy_pj"]
    assert "softmax_unit" in attached.to_dict()["area_mm2"]
    assert total(none, "area_mm2") < total(attached, "area_mm2") < 1.01 * total(none, "area_mm2")


def test_its_area_in_lanes_would_gain_less() -> None:
    more_lanes = layer("tpu_like", vector__lanes="1056")
    attached = layer("tpu_like_softmax")
    assert total(more_lanes, "area_mm2") >= total(attached, "area_mm2")
    assert attached.cycles < more_lanes.cycles


def test_a_gelu_unit_apart_loses_the_overlap_that_an_epilogue_has() -> None:
    """128 elements a cycle are more than 1024 lanes do in 12 slots, and yet the run is longer."""
    apart = layer("tpu_like", special=str({"gelu": GELU}).replace("'", ""))
    assert apart.cycles > layer("tpu_like").cycles
    assert apart.units["core0.array0.stream"]["stalls"]["special"] >= 128 * 3072 // 128


def test_without_a_vector_unit_the_host_is_what_all_waits_for() -> None:
    result = layer("tpu_like_no_vector")
    data = result.to_dict()
    assert data["critical_path"]["by_unit"]["core0.host"] > result.cycles / 2
    assert result.units["core0.array0.stream"]["stalls"]["host"] > 0
    assert data["energy_pj"]["host"] > 0 < data["energy_pj"]["host_dram"]
    assert "vector" not in data["energy_pj"].keys() | data["area_mm2"].keys()
    assert result.dram_bytes > layer("tpu_like").dram_bytes
    kernels = {tile["op"]: tile for tile in data["program"]["tiles"] if tile["unit"] == "host"}
    assert kernels
    assert all(set(tile["places"].values()) == {"dram"} for tile in kernels.values())


def test_gemmini_is_faster_with_its_units_only_if_the_scratchpad_feeds_them() -> None:
    narrow, wide = layer("gemmini_16_norm", scratchpad__banks="4"), layer("gemmini_16_norm")
    assert wide.cycles < layer("gemmini_16", scratchpad__banks="8").cycles
    assert narrow.cycles > layer("gemmini_16").cycles
    assert narrow.to_dict()["program"]["bandwidth_shares"]["core0.array0.stream"] < 16
