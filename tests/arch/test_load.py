"""Finding, inheriting, overriding and reading machine descriptions."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from accelsim.arch import list_archs, load_arch, parse_settings
from accelsim.errors import InputError
from accelsim.shipped import shipped


def written(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def message(path: object, overrides: dict[str, object] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_arch(path, overrides)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_name_works_with_and_without_yaml() -> None:
    assert load_arch("tpu_like") == load_arch("tpu_like.yaml") == load_arch(shipped("arch") / "tpu_like.yaml")


def test_a_path_that_exists_wins_over_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tpu_v1.yaml").write_text("base: tpu_like\narray: {rows: 3}\n")
    assert load_arch("tpu_v1.yaml").array.rows == 3
    assert load_arch("tpu_v1").array.rows == 256


def test_an_unknown_name_suggests_the_nearest() -> None:
    assert "did you mean tpu_like?" in message("tpu_lik")
    assert "gemmini_16" in message("nothing_of_the_kind")


@pytest.mark.parametrize("name", ["", "/", "\0", "x" * 5000, "/no/such/folder/x.yaml"])
def test_a_path_that_cannot_be_is_an_input_error(name: str) -> None:
    message(name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in message(tmp_path)


def test_base_merges_key_by_key_and_never_inherits_the_name(tmp_path: Path) -> None:
    arch = load_arch(written(tmp_path, "base: tpu_like.yaml\narray: {rows: 64}\n"))
    assert (arch.array.rows, arch.array.cols, arch.name, arch.description) == (64, 128, "mine", "")


def test_base_is_looked_up_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path, "base: tpu_like\nclock_mhz: 500\n", "root.yaml")
    middle = written(tmp_path / "sub", "base: ../root.yaml\narray: {rows: 8}\n")
    arch = load_arch(middle)
    assert (arch.clock_mhz, arch.array.rows) == (500, 8)


def test_bases_in_a_circle_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "base: b.yaml\n", "a.yaml")
    written(tmp_path, "# comment\nbase: a.yaml\n", "b.yaml")
    assert "b.yaml:2: base: the files inherit from each other: a.yaml -> b.yaml -> a.yaml" in message(
        tmp_path / "a.yaml"
    )


@pytest.mark.parametrize("base", ["5", "[a]", "nowhere.yaml", ""])
def test_a_bad_base_names_the_line(tmp_path: Path, base: str) -> None:
    assert "mine.yaml:1" in message(written(tmp_path, f"base: {base}\n"))


def test_none_takes_an_inherited_section_away(tmp_path: Path) -> None:
    assert load_arch("tpu_v4i").second_level is not None
    assert load_arch(written(tmp_path, "base: tpu_v4i\nsecond_level: none\n")).second_level is None


def test_a_bad_inherited_value_names_the_file_that_holds_it(tmp_path: Path) -> None:
    written(tmp_path, "base: tpu_like\n\narray:\n  rows: -1\n", "parent.yaml")
    child = written(tmp_path, "base: parent.yaml\narray: {cols: 8}\n", "child.yaml")
    assert message(child).startswith(f"{tmp_path / 'parent.yaml'}:4: array.rows: expected an integer")


def test_overrides_are_read_as_yaml_and_come_last() -> None:
    text = {"array.rows": "64", "dram.bandwidth_gbps": ".inf", "array.rate.int8": "1/2", "dram.model": "ideal"}
    arch = load_arch("tpu_like", text)
    assert (arch.array.rows, arch.dram.bandwidth_gbps) == (64, math.inf)
    assert arch.array.rate_of("int8", "int8") == Fraction(1, 2)
    assert load_arch("tpu_like", {"array.rows": 64}).array.rows == 64


def test_an_override_may_name_an_energy_entry_with_dots() -> None:
    arch = load_arch(
        "tpu_like", {"energy.overrides.mac.int8": 2, "energy.overrides.b": "{low: 1, nominal: 2, high: 3}"}
    )
    assert arch.energy.overrides["mac.int8"].nominal == 2
    assert arch.energy.overrides["b"].high == 3


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        ({"clock_mhz": "-1"}, "--set clock_mhz=-1: clock_mhz: expected a number >= 1e-06"),
        ({"clock_mhz": -1}, "overrides['clock_mhz']: clock_mhz: expected a number >= 1e-06"),
        ({"array.rowz": 1}, "overrides['array.rowz']: unknown key array.rowz; did you mean array.rows?"),
        ({"rows": 1}, "overrides['rows']: unknown key rows; did you mean array.rows?"),
        ({"clock_mhz.x": 1}, "overrides['clock_mhz.x']: clock_mhz: expected a number"),
        ({"second_level.capacity_kib": 1}, "overrides['second_level.capacity_kib']: missing key second_level.band"),
        ({"base": "tpu_v1"}, "--set base=tpu_v1: cannot be overridden"),
        ({"a..b": 1}, "overrides['a..b']: expected a dotted key"),
        ({"array.rows": 10**30}, "overrides['array.rows']: the number is too large"),
        ({"array": "{rows: 3"}, "--set array={rows: 3: not valid YAML"),
    ],
)
def test_a_bad_override_names_itself(overrides: dict[str, object], start: str) -> None:
    assert message("tpu_like", overrides).startswith(start)


def test_settings_are_key_value_pairs() -> None:
    assert parse_settings(["array.rows=64", "array.rate.int8 x int16 = 1/2"]) == {
        "array.rows": "64",
        "array.rate.int8 x int16": "1/2",
    }
    for bad in (["array.rows"], ["=5"], ["a=1", "a=2"]):
        with pytest.raises(InputError):
            parse_settings(bad)


def reversed_keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: reversed_keys(inner) for key, inner in reversed(value.items())}
    return value


@pytest.mark.parametrize("name", list_archs())
def test_order_of_keys_changes_nothing(tmp_path: Path, name: str) -> None:
    values = yaml.safe_load((shipped("arch") / f"{name}.yaml").read_text())
    path = written(tmp_path, yaml.safe_dump(reversed_keys(values), sort_keys=False))
    assert json.dumps(load_arch(path).to_dict()) == json.dumps(load_arch(name).to_dict())


@pytest.mark.parametrize("name", list_archs())
def test_the_resolved_form_is_json_and_loads_as_the_same_machine(tmp_path: Path, name: str) -> None:
    recipe = {"vector.recipes.mine": "[{name: one}]"} if load_arch(name).vector is not None else {}
    arch = load_arch(name, {"energy.overrides.x": 1.5, **recipe})
    again = load_arch(written(tmp_path, json.dumps(arch.to_dict(), allow_nan=False)))
    assert again == arch
    assert hash(again) == hash(arch)
    assert again != load_arch(name)


def test_where_names_the_line_of_a_key_or_its_section(tmp_path: Path) -> None:
    path = written(tmp_path, "base: tpu_like\nvector:\n  recipes:\n    softmax:\n      - name: one\n")
    arch = load_arch(path)
    assert arch.where("vector.recipes.softmax[0].functions.exq") == f"{path}:5"
    base = shipped("arch") / "tpu_like.yaml"
    line = 1 + base.read_text().splitlines().index("  dataflow: ws # [TPUv1 Sec 2] weights are held, activations flow")
    assert arch.where("array.dataflow") == f"{base}:{line}"


def test_keys_of_a_section_taken_away_have_no_place_left(tmp_path: Path) -> None:
    path = written(tmp_path, "base: tpu_v4i\n\nsecond_level: none\n")
    assert load_arch(path).where("second_level.capacity_kib") == f"{path}:3"
