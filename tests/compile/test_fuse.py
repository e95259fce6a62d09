"""Which operators run as one group, and what fusion must leave as it is."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.compile import compile_program
from accelsim.compile.program import COUNTERS, VECTOR
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Tensor, Trace
from tests.compile.machines import bert_tiny, encoder, groups_of, shipped_arch, shipped_trace, small


def fired(trace: Trace, fusion: str = "elementwise") -> dict[str, tuple[str, ...]]:
    """What was folded into each group's head, by the head's name; heads alone are left out."""
    return {group.head.name: group.fired for group in groups_of(trace, small(), fusion) if group.fired}


def test_each_layer_of_bert_folds_scale_mask_residuals_activation_and_casts() -> None:
    layer = fired(shipped_trace("bert_tiny_fwd_b1_s128", (0, 1)))
    at = "encoder.layer.0."
    assert layer == {
        f"{at}attention.self.softmax": (
            f"softmax: {at}attention.self.scale", f"softmax: {at}attention.self.add_mask",
            f"cast: {at}attention.self.softmax.cast",
        ),
        f"{at}attention.output.LayerNorm.layernorm": (
            f"layernorm: {at}attention.output.add", f"cast: {at}attention.output.LayerNorm.layernorm.cast",
        ),
        f"{at}intermediate.dense.matmul": (
            f"activation: {at}intermediate.intermediate_act_fn.gelu",
            f"cast: {at}intermediate.intermediate_act_fn.gelu.cast",
        ),
        f"{at}output.LayerNorm.layernorm": (
            f"layernorm: {at}output.add", f"cast: {at}output.LayerNorm.layernorm.cast",
        ),
    }  # fmt: skip


def test_embeddings_fold_into_their_layernorm_and_the_poolers_tanh_into_its_matmul() -> None:
    whole = fired(bert_tiny())
    assert whole["embeddings.LayerNorm.layernorm"][:2] == ("layernorm: embeddings.add", "layernorm: embeddings.add_1")
    assert whole["pooler.dense.matmul"] == ("activation: pooler.activation.tanh",)


def test_cast_of_a_tensor_with_other_readers_keeps_both() -> None:
    groups = {group.head.name: group for group in groups_of(bert_tiny(), small())}
    norm = groups["encoder.layer.0.attention.output.LayerNorm.layernorm"]
    names = [bert_tiny().tensors[view.tensor].dtype for view in norm.outputs]
    assert names == ["int8", "bf16"], "the cast result, and what the next residual reads"
    gelu = groups["encoder.layer.0.intermediate.dense.matmul"]
    assert [bert_tiny().tensors[view.tensor].dtype for view in gelu.outputs] == ["int8"]


def test_level_none_folds_nothing_and_keeps_every_operator() -> None:
    groups = groups_of(bert_tiny(), small(), "none")
    assert [group.head.id for group in groups] == list(range(len(bert_tiny().ops)))
    assert fired(bert_tiny(), "none") == {}


@pytest.mark.parametrize("trace", [bert_tiny(), encoder(5, 8, 2, 12)], ids=["bert_tiny", "encoder"])
def test_every_operator_is_in_exactly_one_group_and_every_read_tensor_is_somewhere(trace: Trace) -> None:
    groups = groups_of(trace, small())
    assert sorted(op.id for group in groups for op in group.ops) == list(range(len(trace.ops)))
    written: set[int] = set()
    for group in groups:
        for view in group.inputs:
            assert trace.writers[view.tensor] is None or view.tensor in written, f"{group.head.name} reads too early"
        written |= {view.tensor for view in group.outputs}


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown fusion level.*al.*none, elementwise, attention, all"):
        compile_program(small(), encoder(5, 8, 2, 12), fusion="al")


class Pair:
    """x -> scale -> y -> softmax -> z, to be changed by a test before it is built."""

    def __init__(self, final: str | None = None) -> None:
        self.builder = TraceBuilder("pair")
        self.x = self.tensor("x", role="input")
        self.y = self.tensor("y", final=final)
        self.elementwise(self.x, self.y)

    def tensor(self, name: str, role: str = "activation", **how: object) -> Tensor:
        return self.builder.tensor(name, (4, 6), "bf16", role, **how)  # type: ignore[arg-type]

    def elementwise(self, source: Tensor | Operand, target: Tensor) -> None:
        self.builder.op("elementwise", [source], [target], {"function": "scale", "arity": 1, "scalar": 2.0}, name="e")

    def softmax(self, source: Tensor | Operand) -> dict[str, tuple[str, ...]]:
        z = self.builder.tensor("z", source.shape, "bf16")
        self.builder.op("softmax", [source], [z], {"axis": -1}, name="softmax")
        return fired(self.builder.build())


def test_producer_of_a_private_tensor_is_folded() -> None:
    pair = Pair()
    assert pair.softmax(pair.y) == {"softmax": ("softmax: e",)}


@pytest.mark.parametrize("final", ["dram", "on_chip"])
def test_tensor_that_must_exist_after_the_run_leaves_the_group_beside_its_result(final: str) -> None:
    pair = Pair(final)
    assert pair.softmax(pair.y) == {"softmax": ("softmax: e",)}
    (group,) = groups_of(pair.builder.build(), small())
    assert [view.tensor for view in group.outputs] == [group.head.outputs[0].tensor, pair.y.id]


def test_tensor_that_is_read_again_later_leaves_the_group_too() -> None:
    pair = Pair()
    z = pair.tensor("z")
    pair.builder.op("softmax", [pair.y], [z], {"axis": -1}, name="softmax")
    pair.builder.op("gelu", [pair.y], [pair.tensor("other")], {"approximate": "none"}, name="later")
    first, later = groups_of(pair.builder.build(), small())
    assert [view.tensor for view in first.outputs] == [z.id, pair.y.id]
    assert later.inputs[0].tensor == pair.y.id


def test_dropout_joins_its_softmax_and_leaves_its_mask_for_the_backward_pass() -> None:
    b = TraceBuilder("dropout")
    x, p = b.tensor("x", (4, 6), "bf16", "input"), b.tensor("p", (4, 6), "bf16")
    y, mask = b.tensor("y", (4, 6), "bf16"), b.tensor("mask", (4, 6), "bool", "mask", final="dram")
    b.op("softmax", [x], [p], {"axis": -1}, name="softmax")
    b.op("dropout", [p], [y, mask], {"p": 0.1}, name="dropout")
    (group,) = groups_of(b.build(), small())
    assert group.fired == ("softmax: dropout",)
    assert [view.tensor for view in group.outputs] == [y.id, mask.id]


def test_dropout_and_residual_join_the_layernorm_after_them() -> None:
    b = TraceBuilder("residual")
    x, r = b.tensor("x", (4, 6), "bf16", "input"), b.tensor("r", (4, 6), "bf16", "input")
    dropped, mask = b.tensor("dropped", (4, 6), "bf16"), b.tensor("mask", (4, 6), "bool", "mask", final="dram")
    total, y = b.tensor("total", (4, 6), "bf16", final="dram"), b.tensor("y", (4, 6), "bf16")
    b.op("dropout", [x], [dropped, mask], {"p": 0.1}, name="dropout")
    b.op("elementwise", [dropped, r], [total], {"function": "add", "arity": 2}, name="add")
    b.op("layernorm", [total], [y], {"axis": -1, "eps": 1e-12}, name="norm")
    (group,) = groups_of(b.build(), small())
    assert group.fired == ("layernorm: dropout", "layernorm: add")
    assert {view.tensor for view in group.inputs} == {x.id, r.id}
    assert [view.tensor for view in group.outputs] == [y.id, mask.id, total.id]


def test_tensor_with_two_readers_is_not_folded_away() -> None:
    pair = Pair()
    pair.builder.op("gelu", [pair.y], [pair.tensor("other")], {"approximate": "none"})
    assert pair.softmax(pair.y) == {}


def test_transposed_read_is_not_folded() -> None:
    pair = Pair()
    assert pair.softmax(Operand(pair.y.id, (6, 4), (1, 6))) == {}


@pytest.mark.parametrize(("overwritten", "read"), [("x", "y"), ("x", "new"), ("y", "new")])
def test_storage_that_is_written_in_place_is_left_alone(overwritten: str, read: str) -> None:
    pair = Pair()
    source, new = pair.tensor("source", role="input"), pair.tensor("new", overwrites=getattr(pair, overwritten))
    pair.elementwise(source, new)
    assert pair.softmax(pair.y if read == "y" else new) == {}


def cast(b: TraceBuilder, source: Tensor | Operand, dtype: str, name: str) -> Tensor:
    """A cast of bf16."""
    result = b.tensor(name, source.shape, dtype)
    b.op("cast", [source], [result], {"from": "bf16", "to": dtype}, name=name)
    return result


def test_cast_of_a_part_is_not_folded() -> None:
    pair = Pair()
    cast(pair.builder, Operand(pair.y.id, (2, 6), (6, 1)), "int8", "part")
    assert fired(pair.builder.build()) == {}


def test_nothing_is_folded_after_a_cast() -> None:
    b = TraceBuilder("after_cast")
    x, w = b.tensor("x", (8, 8), "int8", "input"), b.tensor("w", (8, 8), "int8", "weight")
    y, z = b.tensor("y", (8, 8), "bf16"), b.tensor("z", (8, 8), "fp32")
    b.op("matmul", [x, w], [y], name="matmul")
    wide = cast(b, y, "fp32", "cast")
    b.op("gelu", [wide], [z], {"approximate": "none"})
    assert fired(b.build()) == {"matmul": ("cast: cast",)}


def test_cast_that_overwrites_a_storage_keeps_its_place_in_the_order() -> None:
    b = TraceBuilder("in_place")
    x, w = b.tensor("x", (8, 8), "int8", "input"), b.tensor("w", (8, 8), "int8", "weight")
    y, old = b.tensor("y", (8, 8), "bf16"), b.tensor("old", (8, 8), "int8", "input")
    read, new = b.tensor("read", (8, 8), "int8"), b.tensor("new", (8, 8), "int8", overwrites=old)
    b.op("matmul", [x, w], [y])
    b.op("elementwise", [old], [read], {"function": "neg", "arity": 1})
    b.op("cast", [y], [new], {"from": "bf16", "to": "int8"})
    assert fired(b.build()) == {}


def test_scale_of_gamma_is_not_taken_for_a_prologue_of_the_rows() -> None:
    b = TraceBuilder("one_row")
    x, scale = b.tensor("x", (2, 16), "bf16", "input"), b.tensor("scale", (16,), "bf16", "input")
    gamma, y = b.tensor("gamma", (16,), "bf16"), b.tensor("y", (1, 16), "bf16")
    b.op("elementwise", [scale], [gamma], {"function": "neg", "arity": 1})
    b.op("layernorm", [Operand(x.id, (1, 16), (16, 1), 16), gamma], [y], {"axis": -1, "eps": 1e-12})
    (*_, group) = groups_of(b.build(), small())
    assert group.inputs[0].tensor == x.id


@pytest.mark.parametrize("machine", ["tpu_like", "gemmini_16"])
@pytest.mark.parametrize("residency", [True, False])
def test_fusion_saves_traffic_not_arithmetic(machine: str, residency: bool) -> None:
    arch = shipped_arch(machine)
    plain, fused = (
        compile_program(arch, bert_tiny(), fusion=level, residency=residency) for level in ("none", "elementwise")
    )
    assert plain.macs.sum() == fused.macs.sum() == bert_tiny().macs
    special = COUNTERS.index("vector_special_ops")
    assert plain.counters[:, special].sum() == fused.counters[:, special].sum() > 0
    simple = COUNTERS.index("vector_simple_ops")
    assert plain.counters[:, simple].sum() >= fused.counters[:, simple].sum() > 0  # casts on a drain are free
    assert fused.request_bytes.sum() <= plain.request_bytes.sum()
    if not residency:
        assert fused.request_bytes.sum() < plain.request_bytes.sum()


def test_arithmetic_of_a_softmax_with_scale_and_mask_is_the_sum_of_its_parts() -> None:
    trace = shipped_trace("bert_tiny_fwd_b1_s128", (0, 1))
    plain, fused = (compile_program(shipped_arch(), trace, fusion=level) for level in ("none", "elementwise"))
    names = [trace.ops[op].name.split(".")[-1] for op in range(len(trace.ops))]
    parts = [index for index, name in enumerate(names) if name in ("scale", "add_mask", "softmax")]
    casts = [i for i, op in enumerate(trace.ops) if op.kind == "cast" and "softmax" in op.name]
    ops = [COUNTERS.index("vector_simple_ops"), COUNTERS.index("vector_special_ops")]
    alone = plain.counters[np.isin(plain.op, parts + casts) & (plain.kind == VECTOR)][:, ops].sum(axis=0)
    together = fused.counters[np.isin(fused.op, parts) & (fused.kind == VECTOR)][:, ops].sum(axis=0)
    assert alone.tolist() == together.tolist()
