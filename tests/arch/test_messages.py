"""Every mistake in a machine description gives one line: file and line, dotted path, value, what was expected."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelsim.arch import load_arch
from accelsim.arch.messages import keys
from accelsim.errors import InputError
from accelsim.shipped import shipped

TPU_LIKE: dict[str, Any] = yaml.safe_load((shipped("arch") / "tpu_like.yaml").read_text())
ZERO_IS_LEGAL = {"vector.pipeline_depth", "dma.issue_cycles", "dram.latency_ns"}
TEXT_IS_LEGAL = {"name", "description", "energy.table"}  # free text


def leaves(value: object, path: str = "") -> Iterator[str]:
    """Every dotted path of a nested mapping, sections included."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from leaves(inner, f"{path}.{key}" if path else key)


PATHS = list(leaves(TPU_LIKE))
REQUIRED = [path for path, info in keys().items() if info.is_required() and path in PATHS]


def changed(path: str, *value: object) -> dict[str, Any]:
    """tpu_like with the key at `path` set to `value`, or deleted when none is given."""
    values = copy.deepcopy(TPU_LIKE)
    section: Any = values
    *outer, last = path.split(".")
    for key in outer:
        section = section[key]
    if value:
        section[last] = value[0]
    else:
        del section[last]
    return values


def message(folder: Path, values: object) -> str:
    path = folder / "mine.yaml"
    path.write_text(values if isinstance(values, str) else yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_arch(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


def line_of(folder: Path, path: str) -> int:
    """The line of the key at `path` in the file just written, found by its indentation."""
    *_, last = keys_of = path.split(".")
    lines = (folder / "mine.yaml").read_text().splitlines()
    at = 0
    for depth, key in enumerate(keys_of):
        at = next(i for i in range(at, len(lines)) if lines[i].startswith("  " * depth + f"{key}:"))
    assert last in lines[at]
    return at + 1


def test_there_are_enough_required_keys() -> None:
    assert len(REQUIRED) == 20
    assert len(PATHS) > 60


@pytest.mark.parametrize("path", REQUIRED)
def test_a_missing_required_key_is_named(tmp_path: Path, path: str) -> None:
    text = message(tmp_path, changed(path))
    assert re.match(rf":\d+: missing key {re.escape(path)}; add it: \w", text)


@pytest.mark.parametrize("function", ["exp", "erf", "tanh", "rsqrt", "div"])
def test_a_missing_rate_is_named(tmp_path: Path, function: str) -> None:
    assert f"vector.rate needs a rate for `{function}`" in message(tmp_path, changed(f"vector.rate.{function}"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", [None, "string", -1, 0, True, [1]], ids=repr)
def test_a_value_of_the_wrong_kind_is_named_with_its_line(tmp_path: Path, path: str, value: object) -> None:
    legal = (value == 0 and value is not True and path in ZERO_IS_LEGAL) or (
        value == "string" and path in TEXT_IS_LEGAL
    )
    legal |= value is True and isinstance(_at(path), bool)
    values = changed(path, value)
    if legal:
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
        load_arch(tmp_path / "mine.yaml")
        return
    text = message(tmp_path, values)
    assert text.startswith(f":{line_of(tmp_path, path)}: {path}")
    assert "expected" in text or "not yet supported" in text
    assert value is not None or "is empty (null)" in text


def _at(path: str) -> object:
    value: Any = TPU_LIKE
    for key in path.split("."):
        value = value[key]
    return value


@pytest.mark.parametrize("value", [".nan", "-.inf", "1e400", "99999999999999999999"])
@pytest.mark.parametrize(
    "key", ["clock_mhz", "dram.bandwidth_gbps", "array.rate.int8", "array.rows", "dram.latency_ns"]
)
def test_numbers_that_are_none_are_refused(key: str, value: str) -> None:
    with pytest.raises(InputError, match=f"--set {key}"):
        load_arch("tpu_like", {key: value})


@pytest.mark.parametrize("key", ["clock_mhz", "dram.latency_ns", "scratchpad.capacity_kib", "array.rate.int8"])
def test_infinity_is_refused_where_nothing_may_be_unlimited(key: str) -> None:
    with pytest.raises(InputError, match="got inf"):
        load_arch("tpu_like", {key: ".inf"})


UNIT = {"elements_per_cycle": 8, "latency": 1}


@pytest.mark.parametrize("dataflow", ["os", "is"])
def test_a_unit_at_an_output_that_the_dataflow_has_not_is_refused(tmp_path: Path, dataflow: str) -> None:
    values = changed("special", {"softmax": UNIT | {"attach": "array_output"}})
    values["array"] = values["array"] | {"dataflow": dataflow}
    text = message(tmp_path, values)
    assert text.startswith(f":{line_of(tmp_path, 'special.softmax.attach')}: ")
    assert "special.softmax.attach needs array.dataflow ws, whose accumulator rows" in text
    assert "attach the unit to the scratchpad" in text


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("cores", 2, "cores > 1 is not yet supported"),
        ("special", {"softmax": {"latency": 1}}, "missing key special.softmax.elements_per_cycle"),
        ("special", {"tanh": {"latency": 1}}, "unknown key special.tanh"),
        ("special", {"softmax": UNIT | {"passes": 3}}, "special.softmax.passes: expected an integer from 1 to 2"),
        ("special", {"gelu": UNIT | {"passes": 2}}, "special.gelu.passes: expected 1: GELU works element by element"),
        ("special", {"softmax": UNIT | {"attach": "array"}}, "expected one of array_output, scratchpad"),
        ("special", {"softmax": UNIT | {"elements_per_cycle": 0}}, "elements_per_cycle: expected a number >= 1e-06"),
        ("vector", "none", "vector: expected a mapping of keys: there is no host either"),
        ("host", {"rate_gops": {"simple": 1}, "kernel_latency_us": 1}, "host.rate_gops needs a rate for `exp`"),
        ("host", {"rate_gops": {"sin": 1}, "kernel_latency_us": 1}, "host.rate_gops.sin is no elementary function"),
        ("host", {"kernel_latency_us": 1}, "missing key host.rate_gops"),
        ("near_memory", {"units": 8}, "near_memory is not yet supported"),
        ("links", {"chips": 2}, "links is not yet supported"),
        ("dram.channels", 6, "expected a power of two when model is command"),
        ("dma.outstanding", 10000, "must be at most 8192 with 2 queues and dram.model command"),
        ("dma.load_queues", 64, "load_queues + store_queues is 65, and dram.model command takes 64"),
        ("dram.bandwidth_gbps", 600, "expected at most 256, which 8 channels of hbm2_2000 carry, or .inf"),
        ("dram.scheduler", "fcfs", "expected one of frfcfs, frfcfs_row_hit"),
        ("dram.model", "fast", "expected one of command, pattern, bandwidth, ideal"),
        ("dram.preset", "hbm9", "expected one of ddr3_2133"),
        ("dram.mapping", "RoBaRaCoBg", "each of Ro, Ra, Bg, Ba, Co, Ch once"),
        ("dram.mapping", "RoBaRaCoBgChx", "nothing but the fields"),
        ("array.dataflow", "WS", "expected one of ws, os, is"),
        ("array.rate", {}, "array.rate"),
        ("array.rate", {"int9": 1}, "array.rate.int9: expected a dtype"),
        ("array.rate", {"int8 x int8 x int8": 1}, "expected a dtype"),
        ("array.rate", {"int8 x int16": 1, "int16 x int8": 1}, "means the same pair as `int8 x int16`"),
        ("array.rate", {"int8": "1/0"}, "expected a rate > 0"),
        ("array.rate", {"int8": "0/4"}, "expected a rate > 0"),
        ("array.rate", {"int8": "1.5/2"}, "expected a rate > 0"),
        ("array.rate", {"int8": 1e-9}, "expected a rate > 0"),
        ("vector.rate", {"exq": 1}, "vector.rate.exq is no elementary function"),
        ("vector.recipes", {"softmax": [5]}, "vector.recipes.softmax[0]: expected a mapping"),
        ("vector.recipes", {"softmax": [{"name": None}]}, "vector.recipes.softmax[0].name is empty (null)"),
        ("energy.overrides", {"x": {"low": 2, "nominal": 1, "high": 3}}, "expected low <= nominal <= high"),
        ("energy.overrides", {"x": {"low": 1, "nominal": 1, "hi": 3}}, "did you mean energy.overrides.*.high?"),
        ("energy.overrides", {"x": "much"}, "energy.overrides.x: expected a number >= 0"),
        ("array.fold_overlap", False, "array.weight_double_buffer cannot be true"),
        ("array.count", 1.0, "array.count: expected an integer"),
    ],
)
def test_what_is_refused_says_why(tmp_path: Path, key: str, value: object, words: str) -> None:
    text = message(tmp_path, changed(key, value))
    assert words in text
    assert re.match(r":\d+: ", text)


def test_a_row_of_results_must_drain_under_os(tmp_path: Path) -> None:
    values = changed("array.dataflow", "os")
    values["accumulator"]["drain_elements_per_cycle"] = 127
    assert "accumulator.drain_elements_per_cycle must be at least array.cols = 128" in message(tmp_path, values)
    assert load_arch("tpu_like", {"array.dataflow": "os"}).array.dataflow == "os"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ": the file is empty"),
        ("# only a comment\n", ": the file is empty"),
        ("- 1\n- 2\n", ":1: expected a mapping"),
        ("just text\n", ":1: expected a mapping"),
        ("a: 1\n\tb: 2\n", ":2: not valid YAML"),
        ("array: {rows: 1\n", ":2: not valid YAML"),
        ("a: 1\n---\nb: 2\n", ":2: not valid YAML"),
        ("name: a\narray:\n  rows: 1\n  rows: 2\n", ":4: duplicate key array.rows"),
        ("name: a\nname: b\n", ":2: duplicate key name"),
        ("5: 1\n", ":1: a key must be text"),
        ("? [a]\n: 1\n", ":1: a key must be text"),
        ("array: !!python/object:os.system {}\n", ":1: the tag"),
        ("array: &a {b: *a}\n", ":1: an alias repeats itself"),
        ("array: *nothing\n", ":1: not valid YAML"),
        ("x: \x01\n", ": not valid YAML"),
        ("[" * 3000, ": not valid YAML: nested too deeply"),
        ("clok_mhz: 5\n", ":1: unknown key clok_mhz; did you mean clock_mhz? (and 6 more errors)"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    assert message(tmp_path, text).startswith(words)


def test_aliases_that_multiply_are_stopped(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "an alias repeats itself" in message(tmp_path, "\n".join(lines))


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 6\)"):
        load_arch(tmp_path / "mine.yaml")


def test_a_byte_order_mark_anchors_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    text = "\ufeffbase: tpu_like\r\narray: {rows: &n 16, cols: *n}\r\n"
    (tmp_path / "mine.yaml").write_bytes(text.encode())
    assert load_arch(tmp_path / "mine.yaml").array.cols == 16


@pytest.mark.parametrize(("written", "value"), [("1e3", 1000.0), ("010", 10), ("+5", 5), ("2.", 2.0)])
def test_numbers_are_yaml_1_2(written: str, value: float) -> None:
    assert load_arch("tpu_like", {"clock_mhz": written}).clock_mhz == value


@pytest.mark.parametrize("written", ["on", "yes", "1_000", "0x10", "1:30"])
def test_yaml_1_1_spellings_are_text(written: str) -> None:
    for key in ("clock_mhz", "array.fold_overlap"):
        with pytest.raises(InputError, match=f"got '{written}'"):
            load_arch("tpu_like", {key: written})
