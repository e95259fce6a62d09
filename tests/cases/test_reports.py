"""What a run says of itself: every number explained, energies that follow the table (cases D21, D24, D14)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.api import Result
from accelsim.cli import run
from tests.cases.machines import BASE, Capture, command


@pytest.fixture(scope="module")
def layer() -> Result:
    return accelsim.simulate("tpu_like", BASE, layers="0:1")


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every key of nested data as a dotted path, a row of a list as `[]`."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value[:3]:
            if isinstance(inner, dict):
                yield from paths(inner, f"{path}[]")


def test_d24_every_key_of_a_result_is_explained_on_the_command_line(capsys: Capture, layer: Result) -> None:
    found = sorted(set(paths(layer.to_dict())))
    assert len(found) > 150
    for path in found:
        lines = command(capsys, "explain", path).splitlines()
        labels = [line.split()[0] for line in lines[2:4]]
        assert labels == ["unit", "formula"], path
        assert len(lines[1].split()) >= 2, path
        assert all(len(line.split()) >= 2 for line in lines[2:4]), path


def test_d24_an_unknown_number_is_not_explained_away(capsys: Capture) -> None:
    assert run(["explain", "mapping_efficiency"]) == 2
    assert "'mapping_efficiency'" in capsys.readouterr().err


def test_d24_the_report_of_a_layer_fits_a_screen(capsys: Capture) -> None:
    lines = command(capsys, "simulate", "--layers", "0:1").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert not any(line.strip("0 .%") == "" and "0" in line for line in lines)


def test_d24_an_explanation_with_numbers_comes_out_as_the_result_has_it(
    capsys: Capture, tmp_path: Path, layer: Result
) -> None:
    path = tmp_path / "result.json"
    path.write_text(layer.to_json())
    text = command(capsys, "explain", "total.utilization", "--json", str(path))
    assert str(layer.macs) in text.replace(",", "")
    assert str(layer.cycles) in text.replace(",", "")


def test_d14_every_number_of_a_result_has_a_unit(capsys: Capture, layer: Result) -> None:
    for path in set(paths(layer.to_dict()["total"], "total")) | set(paths(layer.to_dict()["dram"], "dram")):
        unit = next(line for line in command(capsys, "explain", path).splitlines() if line.startswith("  unit"))
        assert unit.split(maxsplit=1)[1], path


def energies(**overrides: float) -> dict[str, float]:
    keys = {f"energy.overrides.{name}": value for name, value in overrides.items()}
    data = accelsim.gemm(accelsim.load_arch("tpu_like", keys), 256, 384, 512).to_dict()
    found: dict[str, float] = data["energy_pj"]
    return found


def test_d21_twice_the_energy_of_a_mac_doubles_the_macs_and_nothing_else() -> None:
    once, twice = energies(mac_int8_pj=0.5), energies(mac_int8_pj=1.0)
    assert once["array_mac"] == 0.5 * 256 * 384 * 512
    assert {name for name in once if once[name] != twice[name]} == {"array_mac"}
    assert twice["array_mac"] == 2 * once["array_mac"]


def test_d21_reads_and_writes_of_the_scratchpad_are_charged_apart() -> None:
    prices = {"energy.overrides.scratchpad_read_pj_per_byte": 1.0, "energy.overrides.scratchpad_write_pj_per_byte": 7.0}
    result = accelsim.gemm(accelsim.load_arch("tpu_like", prices), 256, 384, 512)
    (row,) = result.operators
    assert 0 < row["scratchpad_read_bytes"] != row["scratchpad_write_bytes"] > 0
    expected = row["scratchpad_read_bytes"] * 1.0 + row["scratchpad_write_bytes"] * 7.0
    assert result.to_dict()["energy_pj"]["scratchpad"] == pytest.approx(expected, rel=1e-12)


def test_d21_parts_sum_to_the_whole_by_component_operator_kind_and_layer(layer: Result) -> None:
    data = layer.to_dict()
    total = fsum(data["energy_pj"].values())
    assert layer.energy_pj == pytest.approx(total, rel=1e-9)
    for key in ("operators", "by_kind", "by_layer", "by_phase"):
        assert fsum(row["energy_pj"] for row in data[key]) == pytest.approx(total, rel=1e-9), key
    for component, nominal in data["energy_pj"].items():
        assert data["energy_low_pj"][component] <= nominal <= data["energy_high_pj"][component]
    assert data["average_power_w"]["nominal"] == pytest.approx(total * 1e-12 / layer.seconds, rel=1e-9)


@pytest.mark.parametrize("name", ["mac_int9_pj", "mac_int8", "sram_read_pj"])
def test_d21_a_price_that_nothing_uses_is_refused(capsys: Capture, name: str) -> None:
    assert run(["gemm", "8", "8", "8", "--set", f"energy.overrides.{name}=1"]) == 2
    message = capsys.readouterr().err
    assert f"energy.overrides.{name}" in message
    assert "Traceback" not in message


def test_the_same_run_gives_the_same_bytes(capsys: Capture) -> None:
    first, second = (command(capsys, "simulate", "--layers", "0:1", "--json", "-") for _ in range(2))
    assert first == second
    assert json.loads(first)["total"]["cycles"] > 0
