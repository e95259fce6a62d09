"""Records that are well-formed JSON and still no trace: each is refused with line, record, field and value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accelsim.errors import InputError
from accelsim.trace import Operand, TraceBuilder, read_trace, whole
from tests.trace.examples import Lines, broken, layers_trace, line_of, records

LINES = records(layers_trace(1))
REMOVED = object()


def put(name: str, path: str, value: Any) -> Any:
    """A change of one field: the record's name (or "header"), a dotted path, the new value."""

    def change(lines: Lines) -> None:
        place: Any = lines[0 if name == "header" else line_of(lines, name)]
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            place = place[part]
        if value is REMOVED:
            del place[last]
        else:
            place[last] = value

    return change


BROKEN_FIELDS = [
    # header
    ("header", "run", REMOVED, "header: run must be given"),
    ("header", "more", 1, "header: 'more' is unknown; the fields are format, model"),
    ("header", "tensors", True, "tensors must be an integer >= 1"),
    ("header", "ops", 0, "ops must be an integer >= 1"),
    ("header", "ops", 4, "promises 9 tensors and 4 operators"),
    ("header", "model", None, "model must be a JSON object"),
    ("header", "model.name", REMOVED, "model.name must be given"),
    ("header", "run.mode", "infer", r"run.mode must be one of inference, training \(nearest: inference\); got 'infer'"),
    ("header", "run.batch", 0, "run.batch must be an integer >= 1 below 2.63; got 0"),
    ("header", "exporter.name", 3, "exporter.name must be a printable string"),
    # tensors
    ("w0", "id", 7, "tensor 3 'w0': id must be 3, .*got 7"),
    ("w0", "id", REMOVED, "id must be given"),
    ("w0", "name", "", "name must be a printable string"),
    ("w0", "name", "two\nlines", "name must be a printable string"),
    ("w0", "shape", [8, 0], r"tensor 3 'w0': shape must be a list of integers >= 1 below 2.63; got \[8, 0\]"),
    ("w0", "shape", [8, -8], r"got \[8, -8\]"),
    ("w0", "shape", [8, True], r"got \[8, True\]"),
    ("w0", "shape", [8, 8.0], r"got \[8, 8.0\]"),
    ("w0", "shape", "8x8", "got '8x8'"),
    ("w0", "shape", None, "got None"),
    ("w0", "shape", [2**62, 1], "shape must give less than 2.63 bytes of bf16"),
    ("w0", "shape", [2**63], "must be a list of integers"),
    ("w0", "shape", [2**62 - 1], "must bring the sum of all tensors"),
    ("w0", "dtype", "bf61", r"dtype must be one of .* \(nearest: bf16\); got 'bf61'"),
    ("w0", "dtype", ["bf16"], r"dtype must be one of .*got \['bf16'\]"),
    ("w0", "role", "weights", r"\(nearest: weight\)"),
    ("w0", "initial", "sram", "initial must be one of dram, on_chip"),
    ("w0", "final", "", "final must be one of dram, on_chip"),
    ("w0", "storage", -1, "storage must be an integer >= 0"),
    ("w0", "storage", 4, r"\(storage, version\) must be new: tensor 3 'w0' has it too; got \(4, 0\)"),
    ("w0", "version", 1.5, "version must be an integer >= 0"),
    ("w0", "strides", [8, 1], "'strides' is unknown"),
    ("w0", "role", "activation", "must not read tensor 3 'w0' before it is written"),
    ("scaled0", "shape", [4, 9], "shape must have the 32 elements of bf16 of tensor 5 'scores0'"),
    ("scaled0", "initial", "on_chip", "initial must be left out: operator 2 writes it"),
    ("b0", "storage", 3, "must be new|version"),
    # operators
    ("scale0", "id", 3, "operator 3 'scale0' .*id must be 2"),
    ("scale0", "kind", "elemwise", r"kind must be one of .* \(nearest: elementwise\); got 'elemwise'"),
    ("scale0", "kind", None, "kind must be one of"),
    ("scale0", "phase", "fwd", "phase must be one of forward, backward, optimizer"),
    ("scale0", "phase", REMOVED, "phase must be given"),
    ("scale0", "layer", -1, "layer must be an integer >= 0"),
    ("scale0", "layer", None, "layer must be an integer >= 0 .*got None"),
    ("scale0", "module", 5, "module must be a printable string"),
    ("scale0", "inputs", {}, "inputs must be a list of objects"),
    ("scale0", "inputs", [], "inputs must be 1 to 3 in number for kind elementwise; got 0"),
    ("scale0", "outputs", [], "outputs must be 1 in number"),
    ("scale0", "attributes", [], "attributes must be a JSON object"),
    ("scale0", "inputs.0.tensor", 99, r"inputs\[0\].tensor must be one of the 9 tensors; got 99"),
    ("scale0", "inputs.0.tensor", -1, r"inputs\[0\].tensor must be an integer >= 0"),
    ("scale0", "inputs.0.shape", [4, 8, 1], r"inputs\[0\].strides must be one a dimension of \(4, 8, 1\)"),
    ("scale0", "inputs.0.strides", [8, -1], r"inputs\[0\].strides must be a list of integers >= 0"),
    ("scale0", "inputs.0.strides", REMOVED, r"inputs\[0\].strides must be given"),
    ("scale0", "inputs.0.offset", 1, r"inputs\[0\] must lie inside the 32 elements of tensor 5 'scores0', .* at 32"),
    ("scale0", "inputs.0.offset", True, r"inputs\[0\].offset must be an integer"),
    ("scale0", "inputs.0.pitch", 8, r"inputs\[0\].'pitch' is unknown"),
    ("scale0", "outputs.0.strides", [0, 1], r"outputs\[0\].strides must not write one element twice"),
    ("scale0", "deps", [], r"operator 2 'scale0' \(elementwise, layer 0\): deps must include 1, which writes tensor 5"),
    ("scale0", "deps", [1, 2], r"deps must be ids of earlier operators \(below 2\)"),
    ("scale0", "deps", [1, 0], "deps must be different ids in ascending order"),
    ("scale0", "deps", [1, 1], "deps must be different ids in ascending order"),
    ("scale0", "deps", 1, "deps must be a list of integers"),
    ("scale0", "forward_op", 1, "forward_op must be left out of a forward operator"),
    ("scale0", "inputs.0.tensor", 7, "must not read tensor 7 'y0' before it is written"),
    ("softmax0", "inputs.0.tensor", 5, "must not read tensor 5 'scores0' after operator 2 has overwritten it"),
    ("softmax0", "outputs.0.tensor", 6, "must not write tensor 6 'scaled0' again: operator 2"),
    ("softmax0", "outputs.0.tensor", 4, r"outputs\[0\] must lie inside the 8 elements"),
    ("scale0", "outputs.0.tensor", 7, r"must not read tensor 6 'scaled0' before it is written|softmax0"),
]


@pytest.mark.parametrize(("name", "field", "value", "message"), BROKEN_FIELDS)
def test_a_wrong_field_is_named_with_its_line(
    tmp_path: Path, name: str, field: str, value: object, message: str
) -> None:
    path = broken(tmp_path / "toy.jsonl", put(name, field, value))
    with pytest.raises(InputError, match=message) as raised:
        read_trace(path)
    assert raised.value.where is not None
    assert raised.value.where.startswith(f"{path}:")
    assert raised.value.remedy


@pytest.mark.parametrize("name", ["w0", "scale0"])
def test_the_line_of_the_record_is_named(tmp_path: Path, name: str) -> None:
    path = broken(tmp_path / "toy.jsonl", put(name, "id", 77))
    with pytest.raises(InputError, match=f"^{path}:{1 + line_of(LINES, name)}: "):
        read_trace(path)


@pytest.mark.parametrize("name", ["header", "w0", "linear0", "scale0"])
def test_each_required_field_removed_or_null_is_refused(tmp_path: Path, name: str) -> None:
    record = LINES[0 if name == "header" else line_of(LINES, name)]
    optional = {"layer", "attributes", "deps", "sha256"}  # sha256 is put right by `broken`
    for field in set(record) - optional:
        for value in (REMOVED, None):
            with pytest.raises(InputError, match=field if field != "format" else "accelsim trace"):
                read_trace(broken(tmp_path / "toy.jsonl", put(name, field, value)))


def test_a_reader_of_a_value_must_be_done_before_it_is_overwritten() -> None:
    builder = TraceBuilder("war")
    x = builder.tensor("x", (4,), "fp32", "input")
    y = builder.tensor("y", (4,), "fp32")
    builder.op("tanh", [x], [y])
    overwritten = builder.tensor("x2", (4,), "fp32", overwrites=x)
    builder.op("relu", [y], [overwritten])
    assert builder.build().ops[1].deps == (0,)
    builder.ops[1] = builder.ops[1].__class__(**{**_fields(builder.ops[1]), "inputs": (whole(x),), "deps": ()})
    with pytest.raises(InputError, match="deps must include 0, which reads tensor 0 'x', which is overwritten here"):
        builder.build()


def test_a_second_writer_waits_for_the_first() -> None:
    builder = TraceBuilder("waw")
    x = builder.tensor("x", (4,), "fp32", "input")
    y = builder.tensor("y", (4,), "fp32")
    again = builder.tensor("y2", (4,), "fp32", overwrites=y)
    builder.op("tanh", [x], [y])
    builder.op("relu", [x], [again])
    assert builder.build().ops[1].deps == (0,)
    builder.ops[1] = builder.ops[1].__class__(**{**_fields(builder.ops[1]), "deps": ()})
    with pytest.raises(InputError, match="deps must include 0, which writes tensor 1 'y', which is overwritten here"):
        builder.build()


@pytest.mark.parametrize(("role", "overwritten"), [("activation", False), ("weight", True)])
def test_what_no_operator_writes_exists_before_the_run(role: str, overwritten: bool) -> None:
    builder = TraceBuilder("unwritten")
    x = builder.tensor("x", (4,), "fp32", "input")
    builder.op("tanh", [x], [builder.tensor("y", (4,), "fp32")])
    builder.tensor("lost", (4,), "fp32", role, overwrites=x if overwritten else None)
    expected = "version must be written by an operator" if overwritten else "role must not be one that an operator"
    with pytest.raises(InputError, match=f"unwritten: tensor 2 'lost': {expected}"):
        builder.build()


def test_versions_are_written_in_their_order() -> None:
    builder = TraceBuilder("order")
    x = builder.tensor("x", (4,), "fp32", "input")
    y = builder.tensor("y", (4,), "fp32")
    again = builder.tensor("y2", (4,), "fp32", overwrites=y)
    builder.op("relu", [x], [again])
    builder.op("tanh", [x], [y])
    with pytest.raises(InputError, match="must not overwrite tensor 1 'y' before it is written"):
        builder.build()


def test_a_backward_operator_names_a_forward_operator_of_its_kind() -> None:
    def backward(forward_op: int | None, phase: str = "backward") -> TraceBuilder:
        builder = TraceBuilder("training", run={"mode": "training"})
        x, dy = (builder.tensor(name, (4, 4), "fp32", "input") for name in ("x", "dy"))
        y, z, dx = (builder.tensor(name, (4, 4), "fp32") for name in ("y", "z", "dx"))
        builder.op("relu", [x], [y])
        builder.op("tanh", [x], [z])
        builder.op("tanh_backward", [dy, z], [dx], phase=phase, forward_op=forward_op)
        return builder

    assert backward(1).build().ops[2].forward_op == 1
    for forward_op, message in {
        None: "must be the id of",
        0: "must be a tanh",
        2: "must be an earlier",
        9: "must be an earlier",
    }.items():
        with pytest.raises(InputError, match=f"forward_op {message}"):
            backward(forward_op).build()


def test_a_value_that_was_there_before_is_not_written_after_it_was_read() -> None:
    builder = TraceBuilder("late")
    x = builder.tensor("x", (4,), "fp32", "input")
    builder.op("tanh", [x], [builder.tensor("y", (4,), "fp32")])
    z = builder.tensor("z", (4,), "fp32", "input")
    builder.op("relu", [z], [x])
    with pytest.raises(InputError, match=r"operator 1 .*outputs must not write tensor 0 'x' after it was read"):
        builder.build()


def test_a_broadcast_view_beyond_63_bits_is_refused() -> None:
    builder = TraceBuilder("wide")
    x, y = builder.tensor("x", (1,), "fp32", "input"), builder.tensor("y", (1,), "fp32")
    builder.op("reduce", [Operand(x.id, (2**61,), (0,))], [y], {"function": "sum", "axes": [0]})
    with pytest.raises(InputError, match=r"inputs\[0\].shape must give less than 2\^63 bytes"):
        builder.build()


def test_multiply_accumulates_beyond_63_bits_are_refused() -> None:
    builder = TraceBuilder("huge")
    one = builder.tensor("one", (1,), "int8", "input")
    out = builder.tensor("out", (2**30, 2**30), "int8")
    a, b = Operand(one.id, (2**30, 2**30), (0, 0)), Operand(one.id, (2**30, 2**30), (0, 0))
    builder.op("matmul", [a, b], [out])
    with pytest.raises(InputError, match=r"multiply-accumulates must bring .* less than 2\^63"):
        builder.build()


def _fields(op: Any) -> dict[str, Any]:
    return {name: getattr(op, name) for name in op.__slots__}
