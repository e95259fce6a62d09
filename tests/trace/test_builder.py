"""Traces built in Python."""

from __future__ import annotations

import doctest

import pytest

from accelsim.errors import InputError
from accelsim.trace import Operand, TraceBuilder, builder, gemm_trace, matmul_view
from tests.trace.examples import layers_trace


def test_the_example_in_the_documentation_runs() -> None:
    assert doctest.testmod(builder) == (0, 6)


def test_dependencies_follow_from_reads_and_writes() -> None:
    trace = layers_trace(1)
    assert [op.deps for op in trace.ops] == [(), (0,), (1,), (2,), (3,)]
    assert [(tensor.storage, tensor.version) for tensor in trace.tensors[5:7]] == [(5, 0), (5, 1)]


def test_an_overwrite_waits_for_every_reader_of_the_old_value() -> None:
    build = TraceBuilder("war")
    x = build.tensor("x", (4,), "fp32", "input")
    for reader in range(3):
        build.op("tanh", [x], [build.tensor(f"y{reader}", (4,), "fp32")])
    new = build.tensor("x_new", (4,), "fp32", "input", overwrites=x)
    assert build.op("relu", [x], [new]).deps == (0, 1, 2)
    build.build()


def test_a_matmul_takes_its_attributes_from_its_operands() -> None:
    op = layers_trace(1).ops[1]
    sizes = {"batch": 1, "m": 4, "n": 8, "k": 8, "transpose_a": False, "transpose_b": True, "bias": True}
    assert op.attributes == sizes


def test_a_matmul_of_vectors_is_refused() -> None:
    build = TraceBuilder("vectors")
    x, y = build.tensor("x", (4,), "int8", "input"), build.tensor("y", (4,), "int8")
    with pytest.raises(InputError, match=r"operator 'dot': a matmul reads A .*got \[\(4,\), \(4,\)\]"):
        build.op("matmul", [x, x], [y], name="dot")


def test_a_wrong_trace_is_named_by_its_name_and_operator() -> None:
    build = TraceBuilder("wrong")
    x, y = build.tensor("x", (4,), "int8", "input"), build.tensor("y", (5,), "int8")
    build.op("relu", [x], [y], name="act")
    with pytest.raises(InputError, match=r"^wrong: operator 0 'act' \(relu\): outputs\[0\].shape must be \(4,\); got"):
        build.build()


def test_operands_may_be_given_as_lists() -> None:
    build = TraceBuilder("lists")
    x, y = build.tensor("x", [4, 3], "int8", "input"), build.tensor("y", [3, 4], "int8")
    build.op("transpose", [Operand(x.id, [3, 4], [1, 3])], [y])  # type: ignore[arg-type]
    assert build.build().ops[0].inputs[0] == Operand(0, (3, 4), (1, 3))


def test_gemm_trace_is_one_matmul_with_the_output_in_the_operand_dtype() -> None:
    trace = gemm_trace(128, 64, 32, batch=12)
    assert trace.macs == 12 * 128 * 64 * 32
    assert [tensor.dtype for tensor in trace.tensors] == ["int8"] * 3
    assert [tensor.shape for tensor in trace.tensors] == [(12, 128, 32), (12, 32, 64), (12, 128, 64)]
    assert matmul_view(trace.ops[0]).batch == 12
    assert len(trace.sha256) == 64


def test_gemm_trace_of_one_batch_has_two_dimensions() -> None:
    assert gemm_trace(5, 6, 7).tensors[2].shape == (5, 6)


def test_gemm_trace_places_resident_operands_on_chip() -> None:
    trace = gemm_trace(4, 4, 4, dtype="bf16", out_dtype="fp32", resident=("b",))
    assert [tensor.initial for tensor in trace.tensors] == ["dram", "on_chip", "dram"]
    assert [tensor.dtype for tensor in trace.tensors] == ["bf16", "bf16", "fp32"]


def test_gemm_trace_counts_beyond_32_bits_exactly() -> None:
    assert gemm_trace(65536, 65536, 65536).macs == 281_474_976_710_656


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 0}, "gemm: m must be an integer >= 1 .*got 0"),
        ({"n": -3}, "gemm: n must be .*got -3"),
        ({"k": True}, "gemm: k must be .*got True"),
        ({"m": 2.0}, "gemm: m must be .*got 2.0"),
        ({"batch": 0}, "gemm: batch must be .*got 0"),
        ({"dtype": "int7"}, r"gemm: dtype must be one of .*nearest: int8\).*got 'int7'"),
        ({"out_dtype": "x"}, "gemm: out_dtype must be one of"),
        ({"resident": ("c",)}, "gemm: resident must be one of a, b; got 'c'"),
        ({"m": 2**40, "n": 2**40}, r"2\^63"),
    ],
)
def test_gemm_trace_refuses_what_is_no_matmul(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gemm_trace(**{"m": 4, "n": 4, "k": 4, **arguments})  # type: ignore[arg-type]
