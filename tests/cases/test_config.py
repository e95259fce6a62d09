"""Machines that are wrong are refused before anything runs: one line with place, key, value, remedy (D13, D25)."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelsim import gemm
from accelsim.arch import list_archs, load_arch
from accelsim.arch.messages import keys
from accelsim.shipped import shipped
from tests.cases.machines import TINY, Capture, command, refusal

SHIPPED = (shipped("arch") / "tpu_like.yaml").read_text()
VALUES: dict[str, Any] = yaml.safe_load(SHIPPED)
MISSING = object()


def present(path: str) -> bool:
    value: Any = VALUES
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


REQUIRED = [path for path, info in keys().items() if info.is_required() and present(path)]


def with_key(path: str, new: object) -> str:
    """tpu_like as YAML with one key changed, or taken away."""
    values = copy.deepcopy(VALUES)
    *outer, last = path.split(".")
    section = values
    for key in outer:
        section = section[key]
    if new is MISSING:
        del section[last]
    else:
        section[last] = new
    return yaml.safe_dump(values, sort_keys=False)


def refused_machine(capsys: Capture, tmp_path: Path, content: str | bytes) -> str:
    """The message for a machine of this content, without the file's name, which it must begin with."""
    path = tmp_path / "mine.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    message = refusal(capsys, "simulate", "--trace", TINY, "--arch", str(path))
    assert message.startswith(f"accelsim: {path}:"), message
    return message.removeprefix(f"accelsim: {path}")


@pytest.mark.parametrize("path", REQUIRED)
def test_d13_a_required_key_is_missed_by_name(capsys: Capture, tmp_path: Path, path: str) -> None:
    message = refused_machine(capsys, tmp_path, with_key(path, MISSING))
    assert re.match(rf":\d+: missing key {re.escape(path)}; add it: ", message), message


@pytest.mark.parametrize("value", [None, "seven", -1, 0], ids=repr)
@pytest.mark.parametrize("path", REQUIRED)
def test_d13_a_required_key_of_a_wrong_value_is_shown(
    capsys: Capture, tmp_path: Path, path: str, value: object
) -> None:
    if (path, value) == ("vector.pipeline_depth", 0):
        assert load_arch("tpu_like", {path: value}).vector.pipeline_depth == 0  # the one that may be nothing
        return
    message = refused_machine(capsys, tmp_path, with_key(path, value))
    assert re.match(rf":\d+: {re.escape(path)}\b", message), message
    assert "expected" in message
    assert ("null" if value is None else repr(value)) in message


@pytest.mark.parametrize("name", list_archs())
def test_d13_every_shipped_machine_loads_and_is_shown(capsys: Capture, name: str) -> None:
    shown = command(capsys, "show", "arch", name)
    assert re.search(r"^clock_mhz +\d", shown, re.M)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["empty"]),
        ("# nothing\n", ["empty"]),
        (SHIPPED[: SHIPPED.index("accumulator:")], ["missing key accumulator"]),
        (SHIPPED[: SHIPPED.index("  rate:")] + "  rate: {int8", ["not valid YAML"]),
        ("{]\n", ["not valid YAML"]),
        ("PK\x03\x04", ["not valid YAML"]),
        (b"\xff\xfe\x00\x01", ["UTF-8"]),
        ("- array\n- dram\n", ["expected a mapping"]),
        (SHIPPED.replace("  rows: 128", "  rows: 128\n  rows: 64"), ["duplicate key array.rows"]),
        (SHIPPED.replace("  rows: 128", "  row: 128"), ["array.row", "did you mean array.rows?"]),
        (SHIPPED + "turbo: true\n", ["turbo", "unknown key"]),
        (SHIPPED.replace("base: ", "").replace("name: tpu_like", "base: missing_machine"), ["missing_machine"]),
    ],
)
def test_a_damaged_machine_is_refused(capsys: Capture, tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    message = refused_machine(capsys, tmp_path, content)
    assert all(part in message for part in parts), message


def test_the_line_of_a_mistake_is_that_of_the_file(capsys: Capture, tmp_path: Path) -> None:
    text = SHIPPED.replace("  banks: 128", "  banks: many")
    line = 1 + next(i for i, row in enumerate(text.splitlines()) if "banks: many" in row)
    assert refused_machine(capsys, tmp_path, text).startswith(f":{line}: scratchpad.banks: expected an integer")


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("base: tpu_like\nnear_memory: {units: 8}\n", "near_memory"),
        ("base: tpu_like\nlinks: {chips: 2}\n", "links"),
        ("base: tpu_like\ncores: 2\n", "cores"),
    ],
)
def test_d25_what_is_not_modelled_yet_is_refused_and_not_ignored(
    capsys: Capture, tmp_path: Path, content: str, key: str
) -> None:
    message = refused_machine(capsys, tmp_path, content)
    assert message.startswith(f":2: {key}")
    assert "not yet supported" in message


def test_d25_several_cores_are_refused_on_the_command_line_too(capsys: Capture) -> None:
    message = refusal(capsys, "gemm", "64", "64", "64", "--set", "cores=2")
    assert "cores" in message
    assert "array.count" in message


def test_d25_several_arrays_share_one_matmul_and_no_work_is_lost() -> None:
    machines = [load_arch("tpu_like", {"array.count": count, "dram.model": "ideal"}) for count in (1, 2)]
    one, two = (gemm(machine, 2048, 2048, 2048) for machine in machines)
    assert 1.8 < one.cycles / two.cycles <= 2.0
    assert two.program is not None
    by_array = [
        int(two.program.macs[two.program.unit == index].sum())
        for index, unit in enumerate(two.program.units)
        if unit.kind == "stream"
    ]
    assert len(by_array) == 2
    assert min(by_array) > 0
    assert sum(by_array) == 2048**3


def test_d25_a_second_array_does_not_help_a_matmul_that_waits_for_memory() -> None:
    machines = [load_arch("tpu_like", {"array.count": count, "dram.bandwidth_gbps": 16}) for count in (1, 2)]
    one, two = (gemm(machine, 1, 4096, 4096) for machine in machines)
    assert 0.95 <= one.cycles / two.cycles <= 1.05
    assert min(one.cycles, two.cycles) >= 4096 * 4096 // 16


@pytest.mark.parametrize("name", ["tpu_lik", "", "no/such/folder/x.yaml", "."])
def test_a_machine_that_is_not_there_is_refused(capsys: Capture, name: str) -> None:
    message = refusal(capsys, "simulate", "--trace", TINY, "--arch", name)
    assert repr(name) in message or name in message


@pytest.mark.parametrize("section", ["scratchpad", "accumulator"])
def test_a_memory_that_holds_no_tile_names_its_key(capsys: Capture, section: str) -> None:
    message = refusal(capsys, "gemm", "128", "128", "128", "--set", f"{section}.capacity_kib=0.001")
    assert section in message
    assert "capacity" in message


def test_a_dtype_that_the_array_cannot_multiply_names_the_key_and_the_line(capsys: Capture) -> None:
    message = refusal(capsys, "gemm", "128", "128", "128", "--dtype", "bf16", "--arch", "gemmini_16")
    assert re.search(r"gemmini_16\.yaml:\d+: .*bf16", message), message
    assert "array.rate" in message
