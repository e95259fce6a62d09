"""Fused attention: what it keeps on chip, in which order it runs, and where it is declined."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import simulate
from accelsim.compile import compile_program, driver, dump_mapping, read_mapping
from accelsim.compile.program import COUNTERS, LOAD, STORE, Program
from accelsim.engine import ENGINES, run
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Tensor, Trace
from tests.compile.attentions import MASK, OTHER, SCALE, AttentionChecker, Shape, attention, attention_notes
from tests.compile.checker import check
from tests.compile.machines import OVERLAPS, bert_tiny, entry, shipped_arch, shipped_trace, small
from tests.compile.test_special import HOST, scores, unit

FORMS = ("two_pass", "spilled", "online")
SIDES = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 17, 24))
SOFTMAX: dict[str, dict[str, Any]] = {
    "vector": {}, "array_output": {"special": {"softmax": unit()}},
    "scratchpad": {"special": {"softmax": unit("scratchpad", passes=2)}},
}  # fmt: skip


def checked(arch: Any, trace: Trace, **how: Any) -> Program:
    """The Program of a fused attention, checked; both engines and every law agree."""
    result = simulate(arch, trace, fusion="attention", **how)
    program, timeline = result.program, result.timeline
    assert program is not None
    assert timeline is not None
    other = run(program, "reference")
    assert np.array_equal(timeline.start, other.start)
    assert np.array_equal(timeline.done, other.done)
    assert program.macs.sum() == trace.macs
    AttentionChecker(arch, trace, program, timeline).check()
    return program


def total(program: Program, counter: str) -> int:
    return int(program.counters[:, COUNTERS.index(counter)].sum())


@settings(max_examples=60)
@given(
    st.integers(1, 3), SIDES, SIDES, SIDES, st.sampled_from(FORMS), st.sampled_from(tuple(SOFTMAX)),
    st.sampled_from(("ws", "os", "is")), st.sampled_from(OVERLAPS), st.integers(1, 3),
    st.sampled_from(((), (SCALE,), (SCALE, MASK), (SCALE, MASK, OTHER))), st.integers(0, 3), st.booleans(),
    st.sampled_from((1, 4, 16)), st.sampled_from((2, 64)),
)  # fmt: skip
def test_every_form_reads_nothing_early_and_keeps_scores_on_chip(
    batch: int, m: int, n: int, d: int, form: str, softmax: str, dataflow: str, overlap: tuple[bool, bool],
    arrays: int, chain: tuple[str, ...], mask: int, shared: bool, lanes: int, window: int,
) -> None:  # fmt: skip
    if softmax == "array_output" and dataflow != "ws":
        softmax = "vector"
    arch = small(
        array__dataflow=dataflow, array__fold_overlap=overlap[0], array__weight_double_buffer=overlap[1],
        array__count=arrays, vector__lanes=lanes, dma__prefetch_window=window, scratchpad__ports=4,
        accumulator__capacity_kib=8, **SOFTMAX[softmax],
    )  # fmt: skip
    mask_shape = ((1, 1, n), (batch, 1, n), (1, m, n), (batch, m, n))[mask]
    trace = attention(Shape(batch, m, n, d), chain, mask_shape, shared=shared)
    with suppress(InputError):  # a form that the operators or the buffers rule out
        checked(arch, trace, rules={"attention": form})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("residency", [True, False])
def test_arithmetic_of_each_form_follows_from_its_recipe(form: str, residency: bool) -> None:
    arch, trace = small(accumulator__capacity_kib=8), attention(Shape(2, 24, 24, 8), (SCALE, MASK), (1, 1, 24))
    apart = compile_program(arch, trace, residency=residency)
    fused = checked(arch, trace, rules={"attention": form}, residency=residency)
    keys = int(attention_notes(fused)[0].split(" keys")[0].split()[-1])
    rescaled = 2 * 24 * -(-24 // keys) if form == "online" else 0  # exp(old maximum - new one), of each row and step
    assert total(fused, "vector_special_ops") == total(apart, "vector_special_ops") + rescaled
    if form != "online":
        assert total(fused, "vector_simple_ops") == total(apart, "vector_simple_ops")
        assert fused.request_bytes.sum() <= apart.request_bytes.sum()


@pytest.mark.parametrize("form", ["two_pass", "spilled"])
def test_keys_and_values_are_loaded_once_where_a_block_takes_all_of_them(form: str) -> None:
    trace = attention(Shape(3, 12, 4, 4), ())
    program = checked(small(), trace, rules={"attention": form})
    assert program.request_bytes[program.kind == LOAD].sum() == 3 * (12 * 4 + 2 * 4 * 4)
    assert program.request_bytes[program.kind == STORE].sum() == 3 * 12 * 4


def test_spilled_scores_visit_the_scratchpad_and_those_in_the_accumulator_do_not() -> None:
    trace = attention(Shape(2, 12, 8, 4), ())
    written = {
        form: total(checked(small(), trace, rules={"attention": form}), "scratchpad_write_bytes")
        for form in ("two_pass", "spilled")
    }
    assert written["spilled"] - written["two_pass"] == 2 * 12 * 8 * 2  # the scores in bf16


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("arrays", [1, 2])
def test_a_drain_of_an_output_stationary_array_never_waits_for_the_pass_that_scales_sums(
    lanes: int, arrays: int
) -> None:
    arch = small(array__dataflow="os", vector__lanes=lanes, array__count=arrays, accumulator__capacity_kib=8)
    checked(arch, attention(Shape(2, 24, 24, 16), ()), rules={"attention": "online"})


def test_few_keys_are_one_step_of_the_online_form() -> None:
    program = checked(small(), attention(Shape(2, 9, 3, 4), ()), rules={"attention": "online"})
    assert {note.split(" and ")[1] for note in attention_notes(program)} == {"3 keys a step"}


def test_a_higher_level_is_never_worse_for_the_whole_run() -> None:
    """On this machine attention wins among its neighbours, and loses in the run against units at the array's output."""
    arch, trace = shipped_arch("gemmini_16_norm", dram__model="pattern"), shipped_trace("bert_tiny_fwd_b1_s128")
    cycles = [simulate(arch, trace, fusion=level).cycles for level in ("elementwise", "attention", "all")]
    assert cycles == sorted(cycles, reverse=True)
    assert simulate(arch, trace, rules={"attention": "always"}).cycles > cycles[0]


@pytest.mark.parametrize("machine", ["tpu_like", "tpu_like_softmax", "tpu_like_no_vector", "tpu_v1"])
@pytest.mark.parametrize("fusion", ["attention", "all"])
def test_a_whole_network_runs_alike_on_both_engines(machine: str, fusion: str) -> None:
    result = simulate(shipped_arch(machine, dram__model="bandwidth"), bert_tiny(), fusion=fusion)
    assert result.program is not None
    assert result.timeline is not None
    other = run(result.program, "reference")
    assert np.array_equal(result.timeline.start, other.start)
    assert np.array_equal(result.timeline.done, other.done)
    fused = bool(attention_notes(result.program))
    assert fused == (machine in ("tpu_like", "tpu_v1")), "a softmax unit at the output leaves attention little to win"


# ---- declined --------------------------------------------------------------------------------------------------------


def fused(trace: Trace, arch: Any = None, fusion: str = "attention", **rules: str) -> bool:
    result = simulate(arch or small(), trace, fusion=fusion, rules={"attention": "always", **rules})
    assert result.program is not None
    return bool(attention_notes(result.program))


def test_attention_is_fused_where_nothing_rules_it_out() -> None:
    assert fused(attention(Shape(1, 8, 8, 8)))
    assert not fused(attention(Shape(1, 8, 8, 8)), attention="off")
    apart = compile_program(small(), attention(Shape(1, 8, 8, 8)), fusion="elementwise")
    assert not attention_notes(apart)


@pytest.mark.parametrize("tail", ["gelu", "layernorm"])
@pytest.mark.parametrize("special", [True, False])
def test_a_context_whose_rows_something_takes_is_left_alone(tail: str, special: bool) -> None:
    arch = small(**({"special": {tail: unit()}} if special else {}))
    trace = attention(Shape(1, 8, 8, 8), tail=(tail,))
    rules = {"array_output": "always", "matmul_layernorm": "always"}
    assert fused(trace, arch, "all", **rules) == (tail == "layernorm" and not special)


class Parts:
    """Scores, softmax and context, to be spoiled by a test."""

    def __init__(self) -> None:
        self.b = TraceBuilder("parts", run={"batch": 1, "precision": "bf16"})
        self.q, self.k, self.v = (self.b.tensor(name, (8, 8), "bf16", "input") for name in "qkv")
        self.s, self.p, self.out = (self.b.tensor(name, (8, 8), "bf16") for name in ("scores", "p", "out"))

    def scores(self, *more: Any) -> None:
        self.b.op("matmul", [self.q, self.k, *more], [self.s], name="scores")

    def softmax(self) -> None:
        self.b.op("softmax", [self.s], [self.p], {"axis": -1}, name="softmax")

    def context(self, p: Any = None, *more: Any) -> Trace:
        self.b.op("matmul", [p or self.p, self.v, *more], [self.out], name="context")
        return self.b.build()


def test_the_parts_alone_are_fused() -> None:
    parts = Parts()
    parts.scores()
    parts.softmax()
    assert fused(parts.context())


@pytest.mark.parametrize("name", ["s", "p"])
def test_scores_or_softmax_that_are_read_elsewhere_are_left_alone(name: str) -> None:
    parts = Parts()
    parts.scores()
    parts.softmax()
    other = parts.b.tensor("other", (8, 8), "bf16")
    parts.b.op("relu", [getattr(parts, name)], [other])
    assert not fused(parts.context())


def test_a_transposed_softmax_is_left_alone() -> None:
    parts = Parts()
    parts.scores()
    parts.softmax()
    assert not fused(parts.context(Operand(parts.p.id, (8, 8), (1, 8))))


@pytest.mark.parametrize("where", ["scores", "context"])
def test_a_bias_is_left_alone(where: str) -> None:
    parts = Parts()
    bias = parts.b.tensor("bias", (8,), "fp32", "weight")
    parts.scores(*([bias] if where == "scores" else []))
    parts.softmax()
    assert not fused(parts.context(None, *([bias] if where == "context" else [])))


def test_operands_that_are_written_in_place_are_left_alone() -> None:
    parts = Parts()
    new = parts.b.tensor("new", (8, 8), "bf16", overwrites=parts.v)
    parts.scores()
    parts.softmax()
    parts.b.op("matmul", [parts.p, parts.v], [parts.out], name="context")
    parts.b.op("relu", [parts.out], [new])
    assert not fused(parts.b.build())


def test_matmuls_at_rates_of_their_own_are_left_alone() -> None:
    arch = small(array__rate={"int8": 1, "bf16": "1/2", "bf16 x int8": "1/2"})
    assert fused(attention(Shape(1, 8, 8, 8)), arch)
    assert not fused(attention(Shape(1, 8, 8, 8), cast=False), arch)


def test_a_matmul_between_two_softmaxes_belongs_to_one_attention_only() -> None:
    b = TraceBuilder("chain", run={"batch": 1, "precision": "bf16"})
    x = b.tensor("x", (8, 8), "bf16", "input")
    for index in range(3):
        w, y = b.tensor(f"w{index}", (8, 8), "bf16", "weight"), b.tensor(f"y{index}", (8, 8), "bf16")
        b.op("matmul", [x, w], [y], name=f"matmul {index}")
        if index < 2:
            x = b.tensor(f"p{index}", (8, 8), "bf16")
            b.op("softmax", [y], [x], {"axis": -1}, name=f"softmax {index}")
    result = simulate(small(), b.build(), fusion="attention", rules={"attention": "always"})
    assert result.program is not None
    assert result.program.macs.sum() == 3 * 8**3
    assert "in another fused group already" in " ".join(plan.note for plan in result.program.plans)


def test_a_host_softmax_is_left_alone_and_told_when_forced() -> None:
    arch, trace = small(vector="none", host=HOST), attention(Shape(1, 8, 8, 8))
    assert not attention_notes(compile_program(arch, trace, fusion="attention"))
    with pytest.raises(InputError, match="cannot run block by block"):
        compile_program(arch, trace, fusion="attention", rules={"attention": "always"})


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        ("two_pass", {"accumulator__capacity_kib": 0.25}),
        ("spilled", {"scratchpad__capacity_kib": 0.5}),
        ("always", {"scratchpad__capacity_kib": 0.5}),
        ("online", {"scratchpad__capacity_kib": 0.5}),
    ],
)
def test_a_form_that_fits_no_buffer_is_refused_when_forced_and_noted_when_not(
    form: str, changes: dict[str, Any]
) -> None:
    arch, trace = small(**changes), attention(Shape(1, 17, 24, 17), (SCALE,))
    with pytest.raises(InputError, match="no block of attention"):
        compile_program(arch, trace, fusion="attention", rules={"attention": form})
    if form == "always":
        program = compile_program(arch, trace, fusion="attention")
        assert not attention_notes(program)
        assert any(plan.note.startswith("attention: no block") for plan in program.plans)


def test_attention_that_loses_is_declined_with_both_figures_and_kept_when_forced() -> None:
    arch, trace = small(dram__model="ideal"), attention(Shape(2, 17, 9, 33), ())
    program = compile_program(arch, trace, fusion="attention")
    assert not attention_notes(program)
    assert any("attention loses, or wins too little" in plan.note for plan in program.plans)
    assert fused(trace, arch)


def test_attention_that_has_no_room_beside_the_whole_run_is_taken_apart() -> None:
    """Its neighbours alone leave it the scratchpad; a tensor from long before to long after takes half of it."""
    trace = beside_a_long_life(Shape(1, 16, 32, 16))
    program = compile_program(small(scratchpad__capacity_kib=4), trace, fusion="attention")
    assert not attention_notes(program)
    assert any("fits 2048 bytes of free scratchpad" in plan.note for plan in program.plans)
    assert program.macs.sum() == trace.macs
    with pytest.raises(InputError, match="no block of attention"):
        fused(trace, small(scratchpad__capacity_kib=4))
    assert attention_notes(compile_program(small(), trace, fusion="attention"))


def test_a_placement_that_fails_after_an_attention_without_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only while a group is lowered does taking it apart help."""
    arch, trace = small(scratchpad__capacity_kib=0.5), attention(Shape(1, 17, 24, 17), (SCALE,))
    place = driver.place
    calls = 0

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:  # the fused one alone, and now the whole
            raise InputError("no place")
        return place(*arguments)

    monkeypatch.setattr(driver, "place", failing)
    with pytest.raises(InputError, match="no place"):
        compile_program(arch, trace, fusion="attention")


def beside_a_long_life(shape: Shape) -> Trace:
    """An attention amid other operators, and a tensor of 1,900 bytes from the first to the last of them."""
    b, m, n, d = TraceBuilder("long", run={"batch": 1, "precision": "int8"}), shape.m, shape.n, shape.d

    def relu(x: Tensor, name: str) -> Tensor:
        y = b.tensor(name, x.shape, x.dtype)
        b.op("relu", [x], [y], name=name)
        return y

    long = relu(b.tensor("x", (950,), "bf16", "input"), "long")
    short = b.tensor("y", (8,), "bf16", "input")
    for index in range(6):
        short = relu(short, f"before {index}")
    q, k, v = (b.tensor(name, (side, d), "int8", "input") for name, side in (("q", m), ("k", n), ("v", n)))
    s, masked, mask = (b.tensor(name, (m, n), "bf16", role) for name, role in zip(NAMES, ROLES, strict=True))
    b.op("matmul", [q, Operand(k.id, (d, n), (1, d))], [s], name="scores")
    b.op("elementwise", [s, mask], [masked], {"function": "add", "arity": 2}, name="mask")
    p, out = b.tensor("p", (m, n), "int8"), b.tensor("out", (m, d), "int8")
    b.op("softmax", [masked], [p], {"axis": -1}, name="softmax")
    b.op("matmul", [p, v], [out], name="context")
    for index in range(6):
        short = relu(short, f"after {index}")
    relu(long, "end")
    return b.build()


NAMES = ("s", "masked", "mask")
ROLES = ("activation", "activation", "mask")


# ---- a LayerNorm on the rows of a matmul ----------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.integers(1, 3), SIDES, SIDES, SIDES, st.sampled_from(((), ("scale",), ("scale", "mask"), ("exp", "mask"))),
    st.sampled_from(("ws", "os", "is")), st.sampled_from(OVERLAPS), st.integers(1, 2), st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_layernorm_takes_whole_rows_and_reads_nothing_early(
    batch: int, m: int, n: int, k: int, chain: tuple[str, ...], dataflow: str, overlap: tuple[bool, bool], arrays: int,
    cast: bool, residency: bool,
) -> None:  # fmt: skip
    arch = small(
        array__dataflow=dataflow, array__fold_overlap=overlap[0], array__weight_double_buffer=overlap[1],
        array__count=arrays, accumulator__capacity_kib=8, scratchpad__ports=4,
    )  # fmt: skip
    trace, rules = scores(batch, m, n, k, chain, cast, kind="layernorm"), {"matmul_layernorm": "always"}
    program = compile_program(arch, trace, fusion="all", rules=rules, residency=residency)
    timelines = [run(program, engine=engine) for engine in ENGINES]
    assert np.array_equal(timelines[0].start, timelines[1].start)
    assert check(arch, trace, program, timelines[0], rules) > 0
    apart = compile_program(arch, trace, residency=residency)
    assert total(program, "vector_special_ops") == total(apart, "vector_special_ops")
    assert {plan.op: plan.fused_into for plan in program.plans}[len(trace.ops) - 1 - cast] == 0


def test_a_layernorm_whose_statistics_are_kept_is_left_alone() -> None:
    for kept in range(2):
        b = TraceBuilder("kept", run={"batch": 1, "precision": "int8"})
        x, w = b.tensor("x", (8, 8), "int8", "input"), b.tensor("w", (8, 8), "int8", "weight")
        y, z, z8 = (b.tensor(name, (8, 8), dtype) for name, dtype in (("y", "bf16"), ("z", "bf16"), ("z8", "int8")))
        rows = [b.tensor(f"s{index}", (8,), "fp32", final="dram" if index == kept else None) for index in range(2)]
        b.op("matmul", [x, w], [y])
        b.op("layernorm", [y], [z, *rows], {"axis": -1, "eps": 1e-5})
        b.op("cast", [z], [z8], {"from": "bf16", "to": "int8"})
        program = compile_program(small(), b.build(), fusion="all", rules={"matmul_layernorm": "always"})
        assert program.request_bytes[program.kind == STORE].sum() == 8 * 8 + 8 * 4


# ---- mappings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scores", "context"])
def test_a_mapping_of_a_matmul_in_attention_is_refused(name: str) -> None:
    trace = attention(Shape(1, 8, 8, 8))
    operator = next(op.id for op in trace.ops if op.name == name)
    with pytest.raises(InputError, match="part of attention that runs block by block"):
        compile_program(
            small(), trace, fusion="attention", rules={"attention": "always"},
            mapping=entry((4, 4, 4), operator=operator),
        )  # fmt: skip


def test_a_written_mapping_can_be_read_again(tmp_path: Path) -> None:
    trace, how = attention(Shape(1, 8, 8, 8)), {"fusion": "attention", "rules": {"attention": "always"}}
    first = compile_program(small(), trace, **how)  # type: ignore[arg-type]
    path = tmp_path / "map.yaml"
    path.write_text(dump_mapping(first), encoding="utf-8")
    again = compile_program(small(), trace, mapping=read_mapping(path), **how)  # type: ignore[arg-type]
    assert again.plans == first.plans
