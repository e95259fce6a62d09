"""The normal form of a matmul: its strides find the same product as NumPy's on the views themselves."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from accelsim.errors import InputError
from accelsim.trace import Layout, MatmulView, Op, Operand, TraceBuilder, is_transposed, matmul_attributes, matmul_view
from accelsim.trace.shapes import contiguous_strides


def matmul(a: Operand, b: Operand, out: Operand) -> Op:
    return Op(0, "matmul", "mm", "forward", None, "", (a, b), (out,), matmul_attributes(a, b))


def operand(tensor: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, offset: int = 0) -> Operand:
    return Operand(tensor, shape, contiguous_strides(shape) if strides is None else strides, offset)


def test_leading_dimensions_are_rows_when_b_is_shared() -> None:
    op = matmul(operand(0, (8, 128, 768)), operand(1, (768, 64)), operand(2, (8, 128, 64)))
    view = matmul_view(op)
    assert (view.batch, view.m, view.n, view.k) == (1, 1024, 64, 768)
    assert (view.a, view.b, view.out) == (Layout(0, 768, 1, 0), Layout(0, 64, 1, 0), Layout(0, 64, 1, 0))
    assert op.macs == 8 * 128 * 768 * 64


def test_leading_dimensions_are_the_batch_when_b_has_them() -> None:
    """Attention scores of BERT-Base, heads sliced out of [seq, hidden] without a copy."""
    queries = operand(0, (1, 12, 128, 64), (98304, 64, 768, 1))
    keys = operand(1, (1, 12, 64, 128), (98304, 64, 1, 768), offset=5)
    op = matmul(queries, keys, operand(2, (1, 12, 128, 128)))
    assert matmul_view(op) == MatmulView(
        12, 128, 128, 64, Layout(64, 768, 1, 0), Layout(64, 1, 768, 5), Layout(16384, 128, 1, 0)
    )
    assert op.attributes["transpose_b"] is True
    assert op.attributes["transpose_a"] is False


def test_a_batch_dimension_of_one_changes_nothing() -> None:
    with_batch = matmul(operand(0, (1, 128, 768)), operand(1, (768, 64)), operand(2, (1, 128, 64)))
    without = matmul(operand(0, (128, 768)), operand(1, (768, 64)), operand(2, (128, 64)))
    assert matmul_view(with_batch) == matmul_view(without)


def test_a_broadcast_operand_has_batch_stride_zero() -> None:
    b = operand(1, (2, 3, 4, 5), (0, 0, 5, 1))
    view = matmul_view(matmul(operand(0, (2, 3, 2, 4)), b, operand(2, (2, 3, 2, 5))))
    assert view.b == Layout(0, 5, 1, 0)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_leading_dimensions_that_need_two_strides_are_refused(broken: int) -> None:
    operands = [operand(0, (2, 3, 4, 8)), operand(1, (2, 3, 8, 5)), operand(2, (2, 3, 4, 5))]
    item = operands[broken]
    operands[broken] = operand(broken, item.shape, (item.strides[0] + 1, *item.strides[1:]))
    field = ["inputs.0.", "inputs.1.", "outputs.0."][broken]
    with pytest.raises(InputError, match=rf"operator 0 'mm': {field}.strides must merge .*\(2, 3\) into one stride"):
        matmul_view(matmul(*operands))


def test_another_kind_has_no_matmul_view() -> None:
    op = Op(3, "tanh", "act", "forward", None, "", (operand(0, (4,)),), (operand(1, (4,)),))
    with pytest.raises(InputError, match="operator 3 'act': only a matmul has a matmul view; got 'tanh'"):
        matmul_view(op)


def test_a_dimension_of_one_keeps_the_stride_it_was_given() -> None:
    view = matmul_view(matmul(operand(0, (1, 1, 8)), operand(1, (8, 5)), operand(2, (1, 1, 5))))
    assert (view.a.row_stride, view.out.row_stride) == (8, 5)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_column_may_be_called_transposed_or_not(transpose_b: bool) -> None:
    build = TraceBuilder("column")
    a, b = build.tensor("a", (4, 8), "int8", "input"), build.tensor("b", (8, 1), "int8", "weight")
    sizes = {"batch": 1, "m": 4, "n": 1, "k": 8, "transpose_a": False, "transpose_b": transpose_b, "bias": False}
    build.op("matmul", [a, b], [build.tensor("out", (4, 1), "int8")], sizes)
    assert build.build().ops[0].attributes["transpose_b"] is transpose_b


def test_a_matrix_that_is_called_transposed_and_is_not_is_refused() -> None:
    build = TraceBuilder("matrix")
    a, b = build.tensor("a", (4, 8), "int8", "input"), build.tensor("b", (8, 2), "int8", "weight")
    sizes = {"batch": 1, "m": 4, "n": 2, "k": 8, "transpose_a": False, "transpose_b": True, "bias": False}
    build.op("matmul", [a, b], [build.tensor("out", (4, 2), "int8")], sizes)
    with pytest.raises(InputError, match=r"attributes\.transpose_b must be False, .*got True"):
        build.build()


def test_rows_columns_and_broadcasts_lie_the_same_either_way() -> None:
    assert is_transposed(operand(0, (8, 4), (1, 8)))
    assert not is_transposed(operand(0, (8, 4)))
    assert not is_transposed(operand(0, (8, 1), (1, 8)))
    assert not is_transposed(operand(0, (8, 4), (0, 1)))


def walk(data: NDArray[np.int64], layout: Layout, shape: tuple[int, int, int]) -> NDArray[np.int64]:
    strides = (layout.batch_stride, layout.row_stride, layout.column_stride)
    return as_strided(data[layout.offset :], shape, tuple(8 * stride for stride in strides))


@st.composite
def views(draw: st.DrawFn, leading: tuple[int, ...], rows: int, columns: int) -> Operand:
    """A view of a buffer with room between rows and batches, either way round, perhaps the same for every batch."""
    pad, offset = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    turned = draw(st.booleans())
    strides = (1, rows + pad) if turned else (columns + pad, 1)
    gap = 0 if draw(st.booleans()) else max(rows * strides[0], columns * strides[1]) + draw(st.integers(0, 3))
    lead = tuple(gap * stride for stride in contiguous_strides(leading))
    return Operand(0, (*leading, rows, columns), (*lead, *strides), offset)


@given(st.data(), st.lists(st.integers(1, 3), max_size=2).map(tuple), *[st.integers(1, 4)] * 3)
def test_the_normal_form_finds_the_product(
    data: st.DataObject, leading: tuple[int, ...], m: int, n: int, k: int
) -> None:
    a, b = data.draw(views(leading, m, k)), data.draw(views(leading, k, n))
    op = matmul(a, b, operand(2, (*leading, m, n)))
    view = matmul_view(op)
    buffers = [np.arange(1, 2000, dtype=np.int64), np.arange(2000, 1, -1, dtype=np.int64)]
    expected = np.matmul(
        *(
            as_strided(buffer[item.offset :], item.shape, tuple(8 * stride for stride in item.strides))
            for buffer, item in zip(buffers, (a, b), strict=True)
        )
    )
    product = walk(buffers[0], view.a, (view.batch, m, k)) @ walk(buffers[1], view.b, (view.batch, k, n))
    out = np.zeros(prod((*leading, m, n)), dtype=np.int64)
    walk(out, view.out, (view.batch, m, n))[...] = product
    assert np.array_equal(out, expected.ravel())
    assert view.batch * view.m * view.n * view.k == op.macs
