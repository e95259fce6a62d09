"""Rewriting dtypes, on small traces built by hand: no PyTorch needed."""

import pytest

from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.export.precision import to_precision
from accelsim.trace.format import validated
from accelsim.trace.model import Operand


class Graph:
    """A TraceBuilder of [4, 4] fp32 tensors."""

    def __init__(self):
        self.builder = TraceBuilder("small")

    def given(self, name, role="input", dtype="fp32", shape=(4, 4)):
        return self.builder.tensor(name, shape, dtype, role)

    def apply(self, kind, *inputs, name, final=None, **attributes):
        out = self.builder.tensor(name, (4, 4), "fp32", final=final)
        self.builder.op(kind, inputs, [out], attributes or None)
        return out

    def int8(self):
        return validated(to_precision(self.builder.build(), "int8"))


def dtypes(trace):
    return {tensor.name: tensor.dtype for tensor in trace.tensors}


def casts(trace):
    return [trace.tensors[op.inputs[0].tensor].name for op in trace.ops if op.kind == "cast"]


def test_one_cast_is_shared_by_all_matmuls_and_other_readers_keep_the_bf16():
    graph = Graph()
    x, w = graph.given("x"), graph.given("w", "weight")
    h = graph.apply("tanh", x, name="h")
    q = graph.apply("matmul", h, w, name="q")
    k = graph.apply("matmul", h, w, name="k")
    graph.apply("elementwise", q, h, name="sum", function="add", arity=2)
    graph.apply("tanh", k, name="end")
    trace = graph.int8()
    assert casts(trace) == ["h"]
    assert [op.kind for op in trace.ops][:2] == ["tanh", "cast"]
    read = {op.name: [trace.tensors[operand.tensor].name for operand in op.inputs] for op in trace.ops}
    assert read["matmul_1"] == read["matmul_2"] == ["h.int8", "w"]
    assert read["elementwise_3"] == ["q", "h"]
    assert dtypes(trace) == {
        "x": "bf16", "w": "int8", "h": "bf16", "h.int8": "int8", "q": "bf16", "k": "bf16", "sum": "bf16", "end": "bf16",
    }  # fmt: skip


def test_a_matmul_output_is_int8_only_when_matmuls_alone_read_it():
    graph = Graph()
    a = graph.given("a")
    only = graph.apply("matmul", a, a, name="only")
    both = graph.apply("matmul", only, a, name="both")
    kept = graph.apply("matmul", both, only, name="kept", final="dram")
    graph.apply("matmul", kept, both, name="last")
    graph.apply("tanh", both, name="t")
    trace = graph.int8()
    assert {n: d for n, d in dtypes(trace).items() if n in ("only", "both", "kept", "last")} == {
        "only": "int8", "both": "bf16", "kept": "bf16", "last": "bf16",
    }  # fmt: skip
    assert casts(trace) == ["a", "both", "kept"]


def test_a_transposed_copy_for_matmuls_is_int8_and_needs_no_cast_of_its_own():
    graph = Graph()
    a = graph.given("a")
    q = graph.apply("matmul", a, a, name="q")
    copied = graph.builder.tensor("copied", (4, 4), "fp32")
    graph.builder.op("transpose", [Operand(q.id, (4, 4), (1, 4))], [copied])
    graph.apply("matmul", copied, a, name="out")
    trace = graph.int8()
    assert dtypes(trace)["q"] == dtypes(trace)["copied"] == "int8"
    assert casts(trace) == ["a"]


def test_a_transposed_copy_with_other_readers_stays_bf16_and_is_cast_behind_the_copy():
    graph = Graph()
    a = graph.given("a")
    q = graph.apply("matmul", a, a, name="q")
    copied = graph.apply("transpose", q, name="copied")
    graph.apply("matmul", copied, a, name="out")
    graph.apply("tanh", copied, name="t")
    trace = graph.int8()
    assert dtypes(trace)["q"] == dtypes(trace)["copied"] == "bf16"
    assert casts(trace) == ["a", "copied"]


def test_an_overwritten_storage_keeps_one_dtype_and_its_overwriter_waits_for_the_cast():
    graph = Graph()
    a = graph.given("a")
    y = graph.apply("matmul", a, a, name="y")
    graph.apply("matmul", y, a, name="z")
    again = graph.builder.tensor("again", (4, 4), "fp32", overwrites=y)
    graph.builder.op("relu", [a], [again])
    trace = graph.int8()
    assert dtypes(trace)["y"] == dtypes(trace)["again"] == "bf16"
    cast = next(op for op in trace.ops if trace.tensors[op.outputs[0].tensor].name == "y.int8")
    assert cast.id in next(op for op in trace.ops if op.kind == "relu").deps


@pytest.mark.parametrize(("is_tied", "dtype"), [(True, "int8"), (False, "bf16")])
def test_a_table_is_int8_only_when_a_matmul_reads_it_too(is_tied, dtype):
    graph = Graph()
    table, a = graph.given("table", "weight"), graph.given("a")
    ids = graph.given("ids", dtype="int64", shape=(4,))
    graph.apply("gather", table, ids, name="rows", axis=0)
    if is_tied:
        graph.apply("matmul", a, table, name="logits")
    trace = graph.int8()
    assert dtypes(trace)["table"] == dtype
    assert dtypes(trace)["rows"] == "bf16"
    assert dtypes(trace)["ids"] == "int64"


def test_a_weight_with_other_readers_stays_bf16_and_is_cast_for_the_matmul():
    graph = Graph()
    w, a = graph.given("w", "weight"), graph.given("a")
    graph.apply("tanh", w, name="t")
    graph.apply("matmul", a, w, name="y")
    trace = graph.int8()
    assert dtypes(trace)["w"] == "bf16"
    assert casts(trace) == ["w", "a"]


def test_the_bias_of_a_matmul_is_int32():
    graph = Graph()
    a, bias = graph.given("a"), graph.given("bias", "weight", shape=(4,))
    graph.apply("matmul", a, a, bias, name="y")
    assert dtypes(graph.int8())["bias"] == "int32"


def test_bf16_changes_floats_and_nothing_else():
    graph = Graph()
    table, ids = graph.given("table", "weight"), graph.given("ids", dtype="int64", shape=(4,))
    graph.apply("gather", table, ids, name="rows", axis=0)
    before = graph.builder.build()
    after = to_precision(before, "bf16")
    assert dtypes(after) == {"table": "bf16", "ids": "int64", "rows": "bf16"}
    assert after.ops == before.ops
    assert to_precision(before, "fp32") == before


def test_an_unknown_precision_is_refused():
    graph = Graph()
    graph.apply("tanh", graph.given("x"), name="y")
    with pytest.raises(InputError, match="unknown precision"):
        to_precision(graph.builder.build(), "int4")
