"""Traces, lists of matmuls and mappings that are wrong are refused, one line each (D15 and the rest)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelsim.trace.find import find_trace
from tests.cases.encoder import encoder_block
from tests.cases.machines import TINY, Capture, command, json_of, refusal
from tests.trace.examples import records, text_of

Record = dict[str, Any]

LIST = "fc1,128,256,64\nfc2,64,128,256\n"


@pytest.mark.parametrize(
    "content",
    [
        LIST.replace("\n", ",\n"),
        LIST.replace("\n", "\r\n"),
        LIST + "\n\n",
        LIST.rstrip("\n"),
        LIST.replace(",", " , "),
        "# two layers\n" + LIST,
        "\ufeff" + LIST,
        "layer,M,N,K,\r\n" + LIST.replace("\n", ",\r\n"),
    ],
    ids=["trailing comma", "CRLF", "blank end", "no end", "spaces", "comment", "BOM", "header"],
)
def test_d15_the_form_of_a_list_changes_no_number(capsys: Capture, tmp_path: Path, content: str) -> None:
    path = tmp_path / "list.csv"
    results = []
    for text in (LIST, content):
        path.write_bytes(text.encode())
        results.append(json_of(capsys, "gemm", "--csv", str(path)))
    assert results[0] == results[1]
    assert [row["macs"] for row in results[0]["operators"]] == [128 * 256 * 64, 64 * 128 * 256]


@pytest.mark.parametrize(
    "row", ["fc2,64,128", "fc2,64,128,,", "fc2,64,0,8", "fc2,64,-1,8", "fc2,64,x,8", "fc2,64,1.5,8"]
)
def test_d15_a_bad_row_is_shown_with_its_line_and_the_columns(capsys: Capture, tmp_path: Path, row: str) -> None:
    path = tmp_path / "list.csv"
    path.write_text(f"# comment\n{LIST}{row}\n")
    message = refusal(capsys, "gemm", "--csv", str(path))
    assert f"{path}:4: " in message
    assert row.rstrip(",") in message or f"'{row.split(',')[2]}'" in message
    assert "M,N,K" in message or "column" in message


def first_tensor(lines: list[Record]) -> Record:
    return lines[1]


def first_operator(lines: list[Record]) -> Record:
    return next(line for line in lines[1:] if "kind" in line)


def setting(record: Callable[[list[Record]], Record], key: str, value: object) -> Callable[[list[Record]], None]:
    def change(lines: list[Record]) -> None:
        record(lines)[key] = value

    return change


def without(record: Callable[[list[Record]], Record], key: str) -> Callable[[list[Record]], None]:
    return lambda lines: record(lines).pop(key)


HEADER: Callable[[list[Record]], Record] = lambda lines: lines[0]  # noqa: E731


def matmul_size(value: object) -> Callable[[list[Record]], None]:
    def change(lines: list[Record]) -> None:
        first_operator(lines)["attributes"]["k"] = value

    return change


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (setting(HEADER, "format", "accelsim-trace/2"), [":1: ", "'accelsim-trace/2'", "newer accelsim"]),
        (setting(HEADER, "format", None), [":1: ", "None", "accelsim-trace/1"]),
        (without(HEADER, "model"), [":1: ", "model"]),
        (setting(HEADER, "tensors", -1), [":1: ", "tensors", "-1"]),
        (setting(HEADER, "colour", "red"), [":1: ", "colour"]),
        (setting(first_tensor, "shape", [0, 128]), [":2: ", "shape", "0"]),
        (setting(first_tensor, "shape", [-4, 128]), [":2: ", "shape", "-4"]),
        (setting(first_tensor, "shape", "128x128"), [":2: ", "shape", "'128x128'"]),
        (setting(first_tensor, "shape", None), [":2: ", "shape", "None"]),
        (setting(first_tensor, "dtype", "int9"), [":2: ", "dtype", "'int9'", "int8"]),
        (setting(first_tensor, "role", "wieght"), [":2: ", "role", "'wieght'", "weight"]),
        (setting(first_tensor, "id", 7), [":2: ", "id", "7"]),
        (setting(first_tensor, "colour", "red"), [":2: ", "colour"]),
        (without(first_tensor, "dtype"), [":2: ", "dtype"]),
        (setting(first_operator, "kind", "matmull"), ["kind", "'matmull'", "matmul"]),
        (setting(first_operator, "deps", [99]), ["deps", "99"]),
        (setting(first_operator, "inputs", []), ["inputs", "2 to 3"]),
        (setting(first_operator, "phase", "sideways"), ["phase", "'sideways'", "forward"]),
        (setting(first_operator, "layer", "zero"), ["layer", "'zero'"]),
        (without(first_operator, "outputs"), ["outputs"]),
        (matmul_size(0), ["attributes.k", "0"]),
        (matmul_size(-64), ["attributes.k", "-64"]),
        (matmul_size(None), ["attributes.k", "None"]),
        (matmul_size("many"), ["attributes.k", "'many'"]),
        (matmul_size(65), ["attributes.k", "65"]),
    ],
)
def test_a_wrong_value_in_a_trace_is_shown(
    capsys: Capture, tmp_path: Path, change: Callable[[list[Record]], None], parts: list[str]
) -> None:
    lines = records(encoder_block(()))
    change(lines)
    path = tmp_path / "mine.jsonl"
    path.write_text(text_of(lines))
    message = refusal(capsys, "simulate", "--trace", str(path))
    assert message.startswith(f"accelsim: {path}:")
    assert all(part in message for part in parts), message


SHIPPED = find_trace(TINY).read_bytes()
PLAIN = gzip.decompress(SHIPPED)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.jsonl.gz", b"", "is empty"),
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b"\n", "is empty"),
        ("a.jsonl.gz", SHIPPED[: len(SHIPPED) // 2], "breaks off"),
        ("a.jsonl.gz", SHIPPED[:-8] + bytes(8), "CRC"),
        ("a.jsonl.gz", PLAIN, "is not a gzip file"),
        ("a.jsonl", PLAIN[:-200], "JSON"),
        ("a.jsonl", PLAIN[: PLAIN.rindex(b"\n", 0, -1) + 1], "operators"),
        ("a.jsonl", PLAIN.replace(b'"dtype":"int8"', b'"dtype":"int4"', 1), "'int4'"),
        ("a.jsonl", b"array: {rows: 8}\n", "is not JSON"),
        ("a.jsonl", b"[1, 2]\n", "is not an accelsim trace"),
        ("a.jsonl", PLAIN.replace(b'"id":1,', b'"id":1,"id":1,', 1), "stands twice"),
    ],
)
def test_a_damaged_trace_file_is_refused(capsys: Capture, tmp_path: Path, name: str, content: bytes, part: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = refusal(capsys, "simulate", "--trace", str(path))
    assert message.startswith(f"accelsim: {path}")
    assert part in message


@pytest.mark.parametrize("name", ["", ".", "no/such/trace.jsonl.gz", "bert_tiny", "bert_tiny_fwd_b1_s12"])
def test_a_trace_that_is_not_there_is_refused(capsys: Capture, name: str) -> None:
    assert name in refusal(capsys, "simulate", "--trace", name)


@pytest.mark.parametrize("layers", ["0:0", "1:0", "0:3", "2:3", "-1:1", "a:b", "0", ":", "0:1:2", ""])
def test_layers_that_are_not_there_are_refused(capsys: Capture, layers: str) -> None:
    message = refusal(capsys, "simulate", "--trace", TINY, f"--layers={layers}")
    assert "layers" in message
    assert repr(layers) in message


def matmul_of(capsys: Capture, tmp_path: Path) -> Record:
    """The first entry of the mapping that the compiler itself would write for bert_tiny."""
    path = tmp_path / "own.yaml"
    command(capsys, "show", "program", "--trace", TINY, "--mapping-out", str(path))
    import yaml

    entry: Record = yaml.safe_load(path.read_text())[0]
    return entry


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"operator": 10_000}, ["10000", "show program"]),
        ({"operator": 0}, ["got 0", "show program"]),
        ({"operator": -1}, ["operator", "-1"]),
        ({"operator": None}, ["operator", "None"]),
        ({"tile": [10_000, 16, 16]}, ["tile", "10000", "128"]),
        ({"tile": [0, 16, 16]}, ["tile", "[0, 16, 16]"]),
        ({"tile": [16, 16]}, ["tile", "[16, 16]"]),
        ({"tile": "16x16x16"}, ["tile", "'16x16x16'"]),
        ({"order": ["m", "n", "x"]}, ["order", "'x'"]),
        ({"dataflow": "os"}, ["ws", "'os'", "array.dataflow"]),
        ({"dataflow": "zigzag"}, ["dataflow", "'zigzag'"]),
        ({"resident": ["c"]}, ["resident", "'c'"]),
        ({"tyle": [16, 16, 16]}, ["tyle", "tile"]),
    ],
)
def test_a_wrong_mapping_is_refused(capsys: Capture, tmp_path: Path, change: Record, parts: list[str]) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text("# my own\n" + json.dumps([matmul_of(capsys, tmp_path) | change]))
    message = refusal(capsys, "simulate", "--trace", TINY, "--mapping", str(path))
    assert f"{path}:2: " in message
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "list"),
        ("operator: 6\n", "list"),
        ("- [1, 2]\n", "mapping"),
        ("- {operator: 6}\n", "tile"),
        ("- {operator: 6, operator: 7}\n", "operator"),
        ("- {operator: 6, tile: [1, 1, 1], order: [m, n, k]\n", "YAML"),
        ("{]", "YAML"),
        ("- {operator: 6, tile: !!python/object:os.system {}, order: [m, n, k]}\n", "tag"),
        ("- {operator: 6, tile: [*nowhere], order: [m, n, k]}\n", "YAML"),
        ("\x00", "YAML"),
        ("- {operator: 6, tile: [1, 1, 1], order: [{a: 1}, n, k]}\n", "order"),
        ("- {operator: 6, tile: [1, 1, 1], order: [m, n, k], resident: [{a: 1}]}\n", "resident"),
        ("- {operator: 6, tile: [1, 1, 1], order: [m, n, k], dataflow: [ws]}\n", "dataflow"),
        ("- {operator: 6, tile: [1, 1, 1], order: [m, n, k], dataflow: {ws: 1}}\n", "dataflow"),
        ("- {? [operator] : 6}\n", "key"),
        ("- &a {operator: 6, tile: *a, order: [m, n, k]}\n", ""),
        ("- {operator: 2001-99-99, tile: [1, 1, 1], order: [m, n, k]}\n", "operator"),
        ("- {operator: !!int x, tile: [1, 1, 1], order: [m, n, k]}\n", ""),
        ("- {operator: 6, tile: {[1]: 5}, order: [m, n, k]}\n", ""),
        ("[" * 3000, "nested too deeply"),
    ],
)
def test_a_damaged_mapping_file_is_refused(capsys: Capture, tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(content)
    message = refusal(capsys, "simulate", "--trace", TINY, "--mapping", str(path))
    assert str(path) in message
    assert part in message


def test_a_tile_that_fits_no_buffer_says_how_many_bytes_it_needs(capsys: Capture, tmp_path: Path) -> None:
    entry = matmul_of(capsys, tmp_path)
    path = tmp_path / "mapping.yaml"
    path.write_text(json.dumps([entry | {"tile": [128, 128, 128], "resident": []}]))
    small = ["--set", "scratchpad.capacity_kib=32"]
    message = refusal(capsys, "simulate", "--trace", TINY, "--mapping", str(path), *small)
    assert f"{path}:1: " in message
    assert "bytes" in message
    assert "smaller" in message


@pytest.mark.parametrize("option", ["--json", "--timeline"])
@pytest.mark.parametrize("target", ["missing/out.json", "file/out.json", "", "x" * 5000], ids=lambda name: name[:9])
def test_an_output_that_cannot_be_written_is_found_first(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, target: str
) -> None:
    def never(*arguments: object, **options: object) -> None:
        pytest.fail("the work began")

    monkeypatch.setattr("accelsim.api.simulate", never)
    (tmp_path / "file").write_text("kept")
    message = refusal(capsys, "simulate", "--trace", TINY, option, f"{tmp_path}/{target}")
    assert str(tmp_path) in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_only_the_result_goes_to_stdout(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--json" in refusal(capsys, "simulate", "--trace", TINY, "--timeline", "-")
    assert "--json" in refusal(capsys, "show", "program", "--trace", TINY, "--mapping-out", "-")
    assert not list(tmp_path.iterdir())


def test_a_run_that_fails_leaves_the_outputs_of_the_last_one(capsys: Capture, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("out.json", "timeline.json")]
    for path in paths:
        path.write_text("kept")
    outputs = ["--json", str(paths[0]), "--timeline", str(paths[1])]
    refusal(capsys, "gemm", "8", "8", "8", "--set", "scratchpad.capacity_kib=0.001", *outputs)
    assert [path.read_text() for path in paths] == ["kept"] * 2
    assert len(list(tmp_path.iterdir())) == 2
