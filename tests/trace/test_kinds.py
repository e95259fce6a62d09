"""The table of operator kinds: every kind has a good example, and each rule refuses a wrong one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import InputError
from accelsim.trace import Operand, Trace, TraceBuilder
from accelsim.trace.kinds import KIND_RULES
from accelsim.trace.model import KINDS
from accelsim.trace.shapes import broadcast_shape

Shape = tuple[int, ...]
X: Shape = (2, 3, 4)
ROWS: Shape = (2, 3)


def one_op(
    kind: str, inputs: list[Any], outputs: list[Any], attributes: dict[str, Any] | None = None, **dtypes: str
) -> Trace:
    """A trace of one operator with whole tensors of these shapes (a backward kind gets a forward operator before it).

    dtypes: "in0", "out0", ... -> dtype where it is not fp32.
    """
    builder = TraceBuilder("one_op")
    forward = _forward(builder, kind)
    read = [
        item if isinstance(item, Operand) else builder.tensor(f"in{i}", item, dtypes.get(f"in{i}", "fp32"), "input")
        for i, item in enumerate(inputs)
    ]
    written = [builder.tensor(f"out{i}", item, dtypes.get(f"out{i}", "fp32")) for i, item in enumerate(outputs)]
    phase = "forward" if forward is None else "backward"
    builder.op(kind, read, written, attributes, phase=phase, forward_op=forward)
    return builder.build()


def _forward(builder: TraceBuilder, kind: str) -> int | None:
    if not kind.endswith("_backward"):
        return None
    forward = kind.removesuffix("_backward")
    inputs, outputs, attributes, _ = GOOD[forward]
    read = [builder.tensor(f"f{i}", shape, "fp32", "input") for i, shape in enumerate(inputs)]
    written = [builder.tensor(f"g{i}", shape, "fp32") for i, shape in enumerate(outputs)]
    return builder.op(forward, read, written, attributes).id


GOOD: dict[str, tuple[list[Shape], list[Shape], dict[str, Any], dict[str, str]]] = {
    "matmul": (
        [(2, 3, 4), (4, 5), (5,)], [(2, 3, 5)],
        {"batch": 1, "m": 6, "n": 5, "k": 4, "transpose_a": False, "transpose_b": False, "bias": True}, {},
    ),
    "softmax": ([X], [X], {"axis": -1}, {}),
    "layernorm": ([X, (4,), (4,)], [X, ROWS, (2, 3, 1)], {"axis": 2, "eps": 1e-12}, {}),
    "gelu": ([X], [X], {"approximate": "tanh"}, {}),
    "tanh": ([X], [X], {}, {}),
    "relu": ([X], [X], {}, {}),
    "elementwise": ([(2, 1, 4), (3, 1)], [X], {"function": "add", "arity": 2}, {}),
    "reduce": ([X], [(2, 4)], {"function": "sum", "axes": [1]}, {}),
    "gather": ([(9, 4), ROWS], [X], {"axis": 0}, {"in1": "int64"}),
    "scatter_add": ([X, ROWS], [(9, 4)], {"axis": 0}, {"in1": "int64"}),
    "transpose": ([X], [X], {}, {}),
    "cast": ([X], [X], {"from": "fp32", "to": "int8"}, {"out0": "int8"}),
    "dropout": ([X], [X, X], {"p": 0.1}, {"out1": "bool"}),
    "loss": ([(6, 9), (6,)], [()], {"function": "cross_entropy"}, {"in1": "int64"}),
    "optimizer_update": ([X, X, X, X], [X, X, X], {"function": "adam", "lr": 1e-4, "beta1": 0.9}, {}),
    "collective": ([(8,)], [(32,)], {"function": "all_gather", "participants": 4}, {}),
    "softmax_backward": ([X, X], [X], {"axis": -1}, {}),
    "layernorm_backward": ([X, X, (4,), ROWS, ROWS], [X, (4,), (4,)], {"axis": -1, "eps": 1e-12}, {}),
    "gelu_backward": ([X, X], [X], {"approximate": "none"}, {}),
    "tanh_backward": ([X, X], [X], {}, {}),
    "relu_backward": ([X, X], [X], {}, {}),
    "dropout_backward": ([X, X], [X], {"p": 0.1}, {}),
    "loss_backward": ([(6, 9), (6,), ()], [(6, 9)], {"function": "cross_entropy"}, {"in1": "int64"}),
}  # fmt: skip


def test_the_table_holds_every_kind_and_no_other() -> None:
    assert set(KIND_RULES) == KINDS == set(GOOD)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_good_operator_of_each_kind_is_accepted(kind: str) -> None:
    inputs, outputs, attributes, dtypes = GOOD[kind]
    op = one_op(kind, inputs, outputs, attributes, **dtypes).ops[-1]
    assert op.kind == kind


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_attribute_missing_unknown_null_or_mistyped_is_refused(kind: str) -> None:
    inputs, outputs, attributes, dtypes = GOOD[kind]
    with pytest.raises(InputError, match=r"attributes must be .*got 'colour'"):
        one_op(kind, inputs, outputs, {**attributes, "colour": 1}, **dtypes)
    for name in attributes:
        for value in (None, {}, "spam", [1.5]):
            with pytest.raises(InputError, match=rf"attributes\.{name} must be "):
                one_op(kind, inputs, outputs, {**attributes, name: value}, **dtypes)
    for name in KIND_RULES[kind].attributes:
        rest = {other: value for other, value in attributes.items() if other != name}
        with pytest.raises(InputError, match=rf"attributes\.{name} must be given"):
            one_op(kind, inputs, outputs, rest, **dtypes)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_operands_of_another_shape_are_refused(kind: str) -> None:
    inputs, outputs, attributes, dtypes = GOOD[kind]
    for position in range(len(outputs)):
        if (kind == "optimizer_update" and position > 0) or (kind == "loss" and position > 0):
            continue  # states and kept values may have any shape
        wrong = [(7, 7, 7) if i == position else shape for i, shape in enumerate(outputs)]
        with pytest.raises(InputError, match=r"must be|must have"):
            one_op(kind, inputs, wrong, attributes, **dtypes)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("softmax", {"attributes": {"axis": 0}}, r"attributes.axis must be the last axis .*got 0"),
        ("softmax", {"attributes": {"axis": True}}, "attributes.axis must be an integer .*got True"),
        ("layernorm", {"attributes": {"axis": 1, "eps": 0}}, "attributes.axis must be the last axis"),
        ("layernorm", {"attributes": {"axis": -1, "eps": -1}}, "attributes.eps must be a finite number >= 0; got -1"),
        ("layernorm", {"inputs": [X, (3,), (4,)]}, r"inputs\[1\].shape must be \(4,\); got \(3,\)"),
        ("layernorm", {"outputs": [X, (4,)]}, r"outputs\[1\].shape must be \(2, 3\) or \(2, 3, 1\)"),
        ("gelu", {"attributes": {"approximate": "tan"}}, r"one of none, tanh \(nearest: tanh\)"),
        ("elementwise", {"attributes": {"function": "addd", "arity": 2}}, r"nearest: add"),
        ("elementwise", {"attributes": {"function": "add", "arity": 3}}, "arity must be 1 or 2 for add"),
        ("elementwise", {"attributes": {"function": "add", "arity": 1, "scalar": 1}}, "inputs must be 1 in number"),
        ("elementwise", {"attributes": {"function": "add", "arity": 2, "scalar": 1}}, "scalar must not be given"),
        (
            "elementwise",
            {"inputs": [X], "attributes": {"function": "scale", "arity": 1}},
            "scalar must be given for scale",
        ),
        ("elementwise", {"inputs": [X, (2, 3)]}, "inputs must have shapes that broadcast together"),
        ("elementwise", {"outputs": [(2, 3, 1)]}, r"outputs\[0\].shape must be \(2, 3, 4\)"),
        ("reduce", {"attributes": {"function": "sum", "axes": [3]}}, r"axes must be different axes .*got \(3,\)"),
        ("reduce", {"attributes": {"function": "sum", "axes": [1, -2]}}, "axes must be different axes"),
        ("reduce", {"attributes": {"function": "sum", "axes": []}}, "axes must be different axes"),
        ("gather", {"dtypes": {}}, r"inputs\[1\] must be indices of an integer dtype; got 'fp32'"),
        ("gather", {"attributes": {"axis": 2}}, r"attributes.axis must be an axis of a table of shape \(9, 4\)"),
        ("scatter_add", {"inputs": [(2, 4), ROWS]}, r"inputs\[0\].shape must be \(2, 3, 4\)"),
        ("transpose", {"dtypes": {"out0": "int8"}}, "must have the input's dtype fp32"),
        ("cast", {"dtypes": {}}, "attributes.to must be fp32, as its tensor is; got 'int8'"),
        ("cast", {"attributes": {"from": "fp32", "to": "fp32"}, "dtypes": {}}, "must differ from attributes.from"),
        ("dropout", {"attributes": {"p": 1.0}}, r"p must be a finite number >= 0 and < 1; got 1.0"),
        ("loss", {"inputs": [(6, 9), (9,)]}, r"inputs\[1\].shape must be \(6,\) or \(6, 9\)"),
        ("optimizer_update", {"inputs": [X, (2,)]}, r"inputs\[1\].shape must be \(2, 3, 4\)"),
        ("collective", {"attributes": {"function": "all_reduce", "participants": 4}}, "must have 8/1 elements"),
        ("matmul", {"inputs": [(2, 3, 4), (5, 4), (5,)]}, r"inputs\[1\].shape must have k = 4 rows"),
        ("matmul", {"inputs": [(2, 3, 4), (3, 4, 5)]}, r"inputs\[1\].shape must have A's leading dimensions \(2,\)"),
        ("matmul", {"inputs": [(2, 3, 4), (4, 5), (4,)]}, r"inputs\[2\].shape must be \(5,\), a bias"),
        ("matmul", {"inputs": [(4,), (4, 5)]}, r"inputs\[0\].shape must have two dimensions"),
        ("matmul", {"inputs": [(2, 3, 4), (4, 5)]}, "attributes.bias must be False, as its operands are; got True"),
        ("matmul", {"inputs": [X]}, "inputs must be 2 to 3 in number for kind matmul; got 1"),
    ],
)
def test_a_broken_rule_names_field_value_and_expectation(kind: str, changes: dict[str, Any], message: str) -> None:
    inputs, outputs, attributes, dtypes = GOOD[kind]
    given_dtypes = changes.get("dtypes", dtypes)
    with pytest.raises(InputError, match=message):
        one_op(
            kind,
            changes.get("inputs", inputs),
            changes.get("outputs", outputs),
            changes.get("attributes", attributes),
            **given_dtypes,
        )


@pytest.mark.parametrize("field", ["batch", "m", "n", "k"])
def test_a_matmul_size_that_its_operands_do_not_have_is_refused(field: str) -> None:
    inputs, outputs, attributes, _ = GOOD["matmul"]
    wrong = {**attributes, field: 127}
    with pytest.raises(InputError, match=rf"attributes\.{field} must be {attributes[field]}, .*got 127"):
        one_op("matmul", inputs, outputs, wrong)


def test_a_transpose_writes_a_contiguous_copy() -> None:
    builder = TraceBuilder("transpose")
    x = builder.tensor("x", (4, 3), "fp32", "input")
    y = builder.tensor("y", (3, 4), "fp32")
    turned, back = Operand(x.id, (3, 4), (1, 3)), Operand(y.id, (3, 4), (1, 3))
    builder.op("transpose", [turned], [y])
    builder.build()
    builder.ops.clear()
    builder._writer.clear()
    builder.op("transpose", [turned], [back])
    with pytest.raises(InputError, match=r"outputs\[0\].strides must be \(4, 1\), contiguous"):
        builder.build()


@given(st.lists(st.lists(st.integers(1, 3), max_size=4).map(tuple), min_size=1, max_size=3))
def test_broadcasting_follows_numpy(shapes: list[Shape]) -> None:
    try:
        expected: Shape | None = np.broadcast_shapes(*shapes)
    except ValueError:
        expected = None
    assert broadcast_shape(shapes) == expected
