"""A matmul's operands brought to one form: [batch, m, k] x [batch, k, n] -> [batch, m, n], each with its strides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from accelsim.errors import InputError
from accelsim.trace.checks import Problem
from accelsim.trace.model import Op, Operand


@dataclass(frozen=True, slots=True)
class Layout:
    """How a [batch, row, column] operand lies in its storage: strides and offset in elements.

    A stride of a dimension of size 1 carries no meaning; a batch stride of 0 means "the same for all batches".
    """

    batch_stride: int
    row_stride: int
    column_stride: int
    offset: int


@dataclass(frozen=True, slots=True)
class MatmulView:
    """A matmul in normal form. `a` is [batch, m, k], `b` [batch, k, n], `out` [batch, m, n], all logical."""

    batch: int
    m: int
    n: int
    k: int
    a: Layout
    b: Layout
    out: Layout


def matmul_view(op: Op) -> MatmulView:
    """The normal form of a matmul operator.

    With B [k, n] the leading dimensions of A count as rows: A [8, 128, 768] is batch 1, m 1024. With B
    [batch..., k, n] they are the batch.

    Raises:
        InputError: the operator is no matmul, its shapes do not agree, or the leading dimensions of an operand
            cannot be walked with one stride.
    """
    where = f"operator {op.id} {op.name!r}"
    if op.kind != "matmul":
        raise InputError("only a matmul has a matmul view", where=where, value=op.kind)
    for problem in shape_problems(op):
        raise InputError(f"{problem.field} {problem.expected}", where=where, value=problem.value)
    return _normal_form(op)


def matmul_attributes(a: Operand, b: Operand, bias: bool = False) -> dict[str, Any]:
    """The attributes of a matmul of these operands: batch, m, n, k, transpose_a, transpose_b, bias."""
    batch = _size(a.shape[:-2]) if len(b.shape) > 2 else 1
    m = _size(a.shape[:-1]) // batch
    sizes = {"batch": batch, "m": m, "n": b.shape[-1], "k": a.shape[-1]}
    return {**sizes, "transpose_a": is_transposed(a), "transpose_b": is_transposed(b), "bias": bias}


def is_transposed(operand: Operand) -> bool:
    """True when the rows of a [..., row, column] view lie closer together in storage than its columns."""
    return _clear_orientation(operand) and operand.strides[-2] < operand.strides[-1]


def matmul_problems(op: Op) -> Iterator[Problem]:
    """What is wrong with a matmul's operands, then with its attributes against them."""
    yield from shape_problems(op)
    expected = matmul_attributes(op.inputs[0], op.inputs[1], bias=len(op.inputs) == 3)
    for field, value in expected.items():
        if field.startswith("transpose") and not _clear_orientation(op.inputs[field == "transpose_b"]):
            continue
        if op.attributes[field] != value:
            yield Problem(f"attributes.{field}", f"must be {value}, as its operands are", op.attributes[field])


def shape_problems(op: Op) -> Iterator[Problem]:
    """Where the operands are no [batch..., m, k] x [batch..., k, n] or [k, n] (+ [n]) -> [batch..., m, n]."""
    a, b = op.inputs[:2]
    for position, operand in enumerate((a, b)):
        if len(operand.shape) < 2:
            yield Problem(f"inputs[{position}].shape", "must have two dimensions at least", operand.shape)
    if b.shape[-2] != a.shape[-1]:
        yield Problem("inputs[1].shape", f"must have k = {a.shape[-1]} rows, as A has columns", b.shape)
    if len(b.shape) > 2 and b.shape[:-2] != a.shape[:-2]:
        yield Problem("inputs[1].shape", f"must have A's leading dimensions {a.shape[:-2]} or none", b.shape)
    if len(op.inputs) == 3 and op.inputs[2].shape != b.shape[-1:]:
        yield Problem("inputs[2].shape", f"must be {b.shape[-1:]}, a bias of n elements", op.inputs[2].shape)
    if op.outputs[0].shape != a.shape[:-1] + b.shape[-1:]:
        yield Problem("outputs[0].shape", f"must be {a.shape[:-1] + b.shape[-1:]}", op.outputs[0].shape)
    yield from _merge_problems(op)


def _merge_problems(op: Op) -> Iterator[Problem]:
    shared = len(op.inputs[1].shape) == 2
    for field, operand in _named_operands(op).items():
        leading = slice(None, -1) if shared and field != "inputs[1]" else slice(None, -2)
        if not _merge(operand.shape[leading], operand.strides[leading]):
            expected = f"must merge the leading dimensions {operand.shape[leading]} into one stride (copy it first)"
            yield Problem(f"{field}.strides", expected, operand.strides)


def _named_operands(op: Op) -> Mapping[str, Operand]:
    return {"inputs[0]": op.inputs[0], "inputs[1]": op.inputs[1], "outputs[0]": op.outputs[0]}


def _normal_form(op: Op) -> MatmulView:
    a, b = op.inputs[:2]
    shared = len(b.shape) == 2
    batch = 1 if shared else _size(a.shape[:-2])
    return MatmulView(
        batch=batch,
        m=_size(a.shape[:-1]) // batch,
        n=b.shape[-1],
        k=a.shape[-1],
        a=_layout(a, rows_merged=shared),
        b=_layout(b, rows_merged=False),
        out=_layout(op.outputs[0], rows_merged=shared),
    )


def _layout(operand: Operand, rows_merged: bool) -> Layout:
    split = 0 if rows_merged else len(operand.shape) - 2
    batch = _inner_stride(operand.shape[:split], operand.strides[:split])
    row = _inner_stride(operand.shape[split:-1], operand.strides[split:-1])
    return Layout(batch, row, operand.strides[-1], operand.offset)


def _merge(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True when one stride walks all these dimensions in row-major order."""
    walked = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size > 1]
    return all(outer == size * inner for (_, outer), (size, inner) in pairwise(walked))


def _inner_stride(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The stride that walks dimensions that merge: the innermost one's that is not of size 1; 0 for no dimensions."""
    walked = [stride for size, stride in zip(shape, strides, strict=True) if size > 1]
    return (walked or strides or (0,))[-1]


def _clear_orientation(operand: Operand) -> bool:
    """False for a row, a column or a broadcast, which lie the same way either way round."""
    return min(operand.shape[-2:]) > 1 and min(operand.strides[-2:]) > 0


def _size(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
