"""Reading and writing trace files: what comes back, and what is refused."""

from __future__ import annotations

import gzip
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelsim.errors import InputError
from accelsim.trace import Trace, TraceBuilder, dumps, gemm_trace, loads, read_trace, trace_name, write_trace
from tests.trace.examples import layers_trace


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "toy.jsonl.gz"
    write_trace(layers_trace(2), path)
    return path


@pytest.mark.parametrize("name", ["toy.jsonl.gz", "toy.jsonl"])
def test_a_written_trace_reads_back_equal(tmp_path: Path, name: str) -> None:
    trace = layers_trace(2)
    write_trace(trace, tmp_path / name)
    assert read_trace(tmp_path / name) == trace


def test_a_trace_keeps_the_name_of_its_file() -> None:
    assert trace_name("traces/bert_tiny_fwd_b1_s128.jsonl.gz") == "bert_tiny_fwd_b1_s128"
    assert trace_name("toy.jsonl") == "toy"


def test_writing_again_gives_the_same_bytes_and_no_time_or_name_in_the_gzip_header(written: Path) -> None:
    first = written.read_bytes()
    other = written.with_name("other.jsonl.gz")
    os.utime(written, (1, 1))
    write_trace(layers_trace(2), other)
    assert other.read_bytes() == first
    assert first[3] == 0, "no file name"
    assert first[4:8] == bytes(4), "no time"


def test_fields_at_their_default_are_left_out() -> None:
    text = dumps(gemm_trace(2, 3, 4))
    assert '"version"' not in text
    assert '"offset"' not in text
    assert "null" not in text


def test_the_output_keeps_whole_when_a_trace_is_refused(written: Path) -> None:
    before = written.read_bytes()
    trace = layers_trace(1)
    with pytest.raises(InputError, match=r"operator 1 'linear0' .*: deps must include 0"):
        write_trace(replace(trace, ops=(trace.ops[0], replace(trace.ops[1], deps=()), *trace.ops[2:])), written)
    assert written.read_bytes() == before
    assert os.listdir(written.parent) == [written.name]


@pytest.mark.parametrize("target", ["", "missing/toy.jsonl.gz", "file/toy.jsonl"])
def test_an_unwritable_path_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(layers_trace(1), tmp_path / target)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_a_value_that_json_lacks_is_not_written(tmp_path: Path, value: object) -> None:
    trace = replace(layers_trace(1), model={"name": "toy", "config": {"value": value}})
    with pytest.raises(InputError, match="cannot be written as JSON"):
        write_trace(trace, tmp_path / "toy.jsonl.gz")
    assert not os.listdir(tmp_path)


def damaged_gzip(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 0xFF]) + data[61:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[: len(data) // 2], r"toy\.jsonl\.gz:\d+: the gzip data breaks off"),
        (lambda data: data[:-8], r"toy\.jsonl\.gz:\d+: the gzip data breaks off"),
        (lambda data: data[:-8] + bytes(8), r"toy\.jsonl\.gz:\d+: the gzip data .*CRC"),
        (damaged_gzip, r"toy\.jsonl\.gz:\d+: "),
        (lambda data: data + b"more", r"the gzip data .* damaged"),
        (lambda data: b"", r"toy\.jsonl\.gz: is empty"),
        (lambda data: gzip.compress(b""), r"toy\.jsonl\.gz: is empty"),
        (gzip.decompress, r"is not a gzip file.*got b'\{\"'"),
        (lambda data: b"PK\x03\x04", r"is not a gzip file.*got b'PK'"),
    ],
    ids=["half", "no_trailer", "wrong_crc", "bit_flips", "appended", "empty", "empty_inside", "plain", "zip"],
)
def test_a_damaged_gzip_file_gets_one_message(written: Path, change, message: str) -> None:
    written.write_bytes(change(written.read_bytes()))
    with pytest.raises(InputError, match=message):
        read_trace(written)


@pytest.mark.parametrize("path", ["missing.jsonl.gz", "", "nul\0byte"])
def test_a_path_that_is_no_readable_file_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_trace(f"{tmp_path}/{path}")


def without_line(text: str, number: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[: number - 1] + lines[number:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace('"name":"w0"', '"name":"w1"'),
            r"toy\.jsonl:1: header: sha256 .* to \w{64}$",
        ),
        (lambda text: text[:-1], r"toy\.jsonl:1: header: sha256"),
        (lambda text: text.replace("\n", "\r\n"), r"toy\.jsonl:1: header: sha256"),
        (lambda text: text[:-30], r"toy\.jsonl:15: is not JSON \(.* at column \d+\)"),
        (lambda text: without_line(text, 15), r"toy\.jsonl:14: .*promises 9 tensors and 5 operators.*got \(9, 4\)"),
        (lambda text: without_line(text, 13), r"toy\.jsonl:14: .*got \(9, 4\)"),
        (lambda text: text + text.splitlines()[-1] + "\n", r"toy\.jsonl:16: .*got \(9, 6\)"),
        (lambda text: text + "\n", r"toy\.jsonl:16: the line is empty"),
        (lambda text: text.replace('"id":1,', '"id":1,"id":1,'), r"toy\.jsonl:3: .*the key 'id' stands twice"),
        (lambda text: text.replace('"scalar":0.5', '"scalar":NaN'), r"toy\.jsonl:13: .*NaN is no JSON number"),
        (lambda text: text.replace('"scalar":0.5', '"scalar":1e999'), r"toy\.jsonl:13: .*1e999 is too large"),
        (lambda text: "\ufeff" + text, r"toy\.jsonl:1: is not JSON \(Unexpected UTF-8 BOM"),
        (lambda text: text.replace('"toy"', '"t\udcffy"'), r"toy\.jsonl:1: is not JSON \('utf-8' codec"),
        (lambda text: "hello: world\n", r"toy\.jsonl:1: is not JSON .*got 'hello: world'"),
        (lambda text: "[" * 100_000 + "\n", r"toy\.jsonl:1: is not JSON"),
        (lambda text: '{"format":' + "1" * 5000 + "}\n", r"toy\.jsonl:1: is not JSON"),
        (lambda text: "{}\n", r"toy\.jsonl:1: is not an accelsim trace"),
        (lambda text: "[]\n", r"toy\.jsonl:1: is not an accelsim trace; got \[\]"),
        (lambda text: text.replace("trace/1", "trace/2"), r"toy\.jsonl:1: .*got 'accelsim-trace/2'.*newer accelsim"),
        (lambda text: text.replace("accelsim-trace/1", "chrome"), r"toy\.jsonl:1: .*got 'chrome'; expected"),
        (lambda text: text.replace('"accelsim-trace/1"', "null"), r"toy\.jsonl:1: .*got None; expected"),
    ],
)
def test_a_broken_text_is_named_with_its_line(tmp_path: Path, change, message: str) -> None:
    path = tmp_path / "toy.jsonl"
    path.write_bytes(change(dumps(layers_trace(1))).encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message):
        read_trace(path)


def test_deep_nesting_ends_in_a_message() -> None:
    """Near the interpreter's limit a record may just be read, and its value no longer be shown."""
    for depth in range(850, 1000):
        text = dumps(layers_trace(1)).replace('{"config":{"hidden":8},"name":"toy"}', "[" * depth + "]" * depth)
        with pytest.raises(InputError):
            loads(text)


def test_a_line_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelsim.trace.format.MAX_LINE_BYTES", 1000)
    path = tmp_path / "toy.jsonl"
    path.write_text('"' + "x" * 5000)
    with pytest.raises(InputError, match=r"toy\.jsonl:1: a line is longer than 1000 bytes"):
        read_trace(path)


sizes = st.integers(1, 70)
dtypes = st.sampled_from(["int8", "bf16", "fp32"])


@st.composite
def gemms(draw: st.DrawFn) -> Trace:
    resident = draw(st.sets(st.sampled_from("ab")))
    return gemm_trace(draw(sizes), draw(sizes), draw(sizes), draw(sizes), draw(dtypes), draw(dtypes), resident)


@st.composite
def chains(draw: st.DrawFn) -> Trace:
    """Chains of elementwise operators, some in place, with reads of older values where they still stand."""
    builder = TraceBuilder("chain", config=draw(st.dictionaries(st.text(max_size=3), st.none() | st.floats(0, 1))))
    values = [builder.tensor("start", (3, 4), "fp32", "input")]
    for step in range(draw(st.integers(1, 8))):
        in_place = draw(st.booleans())
        out = builder.tensor(f"v{step}", (3, 4), "fp32", overwrites=values[-1] if in_place else None)
        other = draw(st.sampled_from(values))
        builder.op("elementwise", [values[-1], other], [out], {"function": "add", "arity": 2}, layer=step)
        values = ([] if in_place else values) + [out]
    return builder.build()


@given(gemms() | chains())
@settings(max_examples=60, deadline=None)
def test_any_trace_reads_back_equal_and_its_text_is_stable(trace: Trace) -> None:
    text = dumps(trace)
    again = loads(text, trace.name)
    assert again == trace
    assert dumps(again) == text


PLAIN = dumps(layers_trace(1)).encode()
PACKED = gzip.compress(PLAIN, mtime=0)
PIECES = [b"0", b"-1", b"null", b"true", b"[]", b"{}", b'"', b"1e5"]


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_bytes_end_in_a_message_or_in_the_same_trace(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes replaced, removed or inserted anywhere: an InputError, unless only the header's own words changed."""
    content = data.draw(st.sampled_from([PLAIN, PACKED]))
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(0, 12))
    piece = data.draw(st.binary(max_size=6) | st.sampled_from(PIECES))
    path = tmp_path / "toy.jsonl"
    path.write_bytes(content[:start] + piece + content[start + length :])
    try:
        trace = read_trace(path)
    except InputError as raised:
        message = str(raised)
    else:
        assert (trace.tensors, trace.ops) == (layers_trace(1).tensors, layers_trace(1).ops)
        return
    assert message.startswith(str(path))
    assert "\n" not in message


def test_a_trace_of_several_hundred_operators_reads_at_once(tmp_path: Path) -> None:
    """A slip to quadratic work would take seconds."""
    path = tmp_path / "deep.jsonl.gz"
    write_trace(layers_trace(400), path)
    start = time.process_time()
    assert len(read_trace(path).ops) == 1202
    assert time.process_time() - start < 2
