"""Dedicated units: where their rows come from, when they may begin, and what they leave to others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.compile import compile_program
from accelsim.compile.program import BREAKDOWN, COUNTERS, DRAIN, SPECIAL, VECTOR, Program
from accelsim.engine import ENGINES, run
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Trace
from tests.compile.checker import check
from tests.compile.machines import SIZES, bert_tiny, encoder, entry, shipped_arch, shipped_trace, small

MACHINES = ("tpu_like_softmax", "tpu_like_no_vector", "gemmini_16_norm")
HOST = {"rate_gops": dict.fromkeys(("simple", "exp", "erf", "tanh", "rsqrt", "div"), 1), "kernel_latency_us": 1}


def unit(attach: str = "array_output", rate: float = 4, latency: int = 3, passes: int = 1) -> dict[str, Any]:
    return {"elements_per_cycle": rate, "latency": latency, "passes": passes, "attach": attach}


def scores(
    batch: int,
    m: int,
    n: int,
    k: int,
    chain: tuple[str, ...] = ("scale", "mask"),
    cast: bool = True,
    kind: str = "softmax",
) -> Trace:
    """Softmax (or LayerNorm) of a batch of matmuls, after elementwise operators."""
    b = TraceBuilder("scores", run={"batch": 1, "precision": "int8"})
    a, other = b.tensor("a", (batch, m, k), "int8", "input"), b.tensor("b", (batch, k, n), "int8", "input")
    x = b.tensor("s", (batch, m, n), "bf16")
    b.op("matmul", [a, other], [x], name="scores")
    for name in chain:
        y = b.tensor(name, x.shape, "bf16")
        if name == "mask":
            mask = b.tensor("m", (1, m, n), "bf16", "mask")
            b.op("elementwise", [x, mask], [y], {"function": "add", "arity": 2}, name=name)
        else:
            function = {"scale": "scale", "exp": "exp", "more": "scale"}[name]
            scalar = {} if function == "exp" else {"scalar": 0.5}
            b.op("elementwise", [x], [y], {"function": function, "arity": 1, **scalar}, name=name)
        x = y
    y = b.tensor("p", x.shape, "bf16", final=None if cast else "dram")
    b.op(kind, [x], [y], {"axis": -1} if kind == "softmax" else {"axis": -1, "eps": 1e-12}, name=kind)
    if cast:
        b.op("cast", [y], [b.tensor("p8", y.shape, "int8", final="dram")], {"from": "bf16", "to": "int8"}, name="cast")
    return b.build()


def tasks(program: Program, kind: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.flatnonzero(program.kind == kind)


def notes(program: Program) -> list[str]:
    return [plan.note for plan in program.plans if plan.note]


@settings(max_examples=40)
@given(
    st.integers(1, 3), SIZES, SIZES, SIZES, st.sampled_from(("array_output", "scratchpad")),
    st.sampled_from((0.5, 1, 3, 4, 64)), st.integers(0, 9), st.integers(1, 2),
    st.sampled_from(((), ("scale",), ("scale", "mask"), ("scale", "more"), ("exp", "mask"))), st.booleans(),
    st.integers(1, 2), st.sampled_from(("1/2", "2/3", 1)), st.sampled_from((True, False)),
)  # fmt: skip
def test_no_row_is_taken_early_and_both_engines_agree(
    batch: int, m: int, n: int, k: int, attach: str, rate: float, latency: int, passes: int, chain: tuple[str, ...],
    cast: bool, arrays: int, array_rate: Any, overlap: bool,
) -> None:  # fmt: skip
    arch = small(
        special={"softmax": unit(attach, rate, latency, passes)}, array__count=arrays, array__rate={"int8": array_rate},
        array__fold_overlap=overlap, array__weight_double_buffer=overlap, scratchpad__ports=2,
    )  # fmt: skip
    trace = scores(batch, m, n, k, chain, cast)
    program = compile_program(arch, trace)
    timelines = [run(program, engine=engine) for engine in ENGINES]
    assert all(np.array_equal(timelines[0].start, other.start) for other in timelines[1:])
    assume(all(plan.tile_rows is None or plan.tile_rows >= 1 for plan in program.plans))
    assert check(arch, trace, program, timelines[0]) > 0
    special = tasks(program, SPECIAL)
    assert program.counters[special, COUNTERS.index("softmax_elements")].sum() == batch * m * n
    apart = attach == "scratchpad" or chain in (("scale", "more"), ("exp", "mask")) or bool(notes(program))
    assert (tasks(program, DRAIN).size > 0) == apart


def test_scores_at_the_array_output_never_visit_the_scratchpad() -> None:
    trace = scores(2, 12, 8, 4)
    found = {}
    for attach in ("array_output", "scratchpad"):
        program = compile_program(small(special={"softmax": unit(attach)}), trace, rules={"array_output": "always"})
        found[attach] = program.counters[:, COUNTERS.index("scratchpad_write_bytes")].sum()
        assert not notes(program)
    assert found["scratchpad"] - found["array_output"] == 2 * 12 * 8 * 2  # the scores in bf16


def test_a_multiply_and_an_add_are_taken_at_the_input_and_no_more() -> None:
    arch = small(special={"softmax": unit("scratchpad")})
    for chain, ops, before in (
        ((), 0, 0), (("scale",), 1, 0), (("scale", "mask"), 2, 0), (("scale", "more"), 0, 1), (("exp",), 0, 1),
    ):  # fmt: skip
        program = compile_program(arch, scores(1, 8, 8, 4, chain))
        special = tasks(program, SPECIAL)
        assert program.counters[special, COUNTERS.index("special_input_ops")].sum() == ops * 64
        assert (tasks(program, VECTOR).size > 0) == bool(before)


def test_a_layernorm_in_tiles_of_whole_rows_is_declined_where_that_costs_more() -> None:
    """Rows of 768 leave a 64 KiB accumulator ten at a time, and all weights are loaded anew for each ten."""
    trace = shipped_trace("bert_base_fwd_b1_s128", (0, 1))
    program = compile_program(shipped_arch("gemmini_16_norm"), trace)
    declined = [plan for plan in program.plans if plan.note]
    assert [trace.ops[plan.op].kind for plan in declined] == ["layernorm"] * 2
    assert all(plan.unit == "layernorm" and "among its neighbours" in plan.note for plan in declined)
    softmax = next(plan for plan in program.plans if plan.unit == "softmax")
    assert trace.ops[softmax.op].name.endswith("scores")


@pytest.mark.parametrize(
    ("changes", "chain", "note"),
    [
        ({"accumulator__capacity_kib": 0.0625}, ("scale",), "the accumulator does not hold two rows of 17 sums"),
        ({}, ("scale", "more"), "takes a multiplication and an addition before, not more"),
    ],
)
def test_what_cannot_be_attached_says_why_in_the_plan(
    changes: dict[str, Any], chain: tuple[str, ...], note: str
) -> None:
    program = compile_program(small(special={"softmax": unit()}, **changes), scores(1, 5, 17, 3, chain))
    assert note in notes(program)[0]
    assert tasks(program, DRAIN).size


def test_without_fusion_a_unit_reads_the_scratchpad_and_says_so() -> None:
    program = compile_program(small(special={"softmax": unit()}), scores(1, 8, 8, 4), fusion="none")
    assert notes(program) == ["fusion keeps operators apart"]


def test_a_mapping_that_splits_rows_is_refused() -> None:
    with pytest.raises(InputError, match="takes whole rows: tile n must be 8"):
        compile_program(
            small(special={"softmax": unit()}), scores(1, 8, 8, 4), rules={"array_output": "always"},
            mapping=entry((8, 4, 4)),
        )  # fmt: skip


EVERY = {kind: unit() for kind in ("softmax", "layernorm", "gelu")}
APART = {kind: unit("scratchpad", passes=1 if kind == "gelu" else 2) for kind in EVERY}
NO_VECTOR = {"vector": "none", "host": HOST}
MIXES: dict[str, dict[str, Any]] = {
    "output": {"special": EVERY},
    "scratchpad": {"special": APART},
    "output, host": {"special": EVERY, **NO_VECTOR},
    "scratchpad, host": {"special": APART, **NO_VECTOR},
    "host": NO_VECTOR,
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("fusion", ["none", "elementwise"])
@pytest.mark.parametrize("residency", [True, False])
def test_an_encoder_reads_nothing_early_on_any_mix_of_units(mix: str, fusion: str, residency: bool) -> None:
    arch = small(accumulator__capacity_kib=8, scratchpad__ports=4, **MIXES[mix])
    trace = encoder(9, 12, 3, 20)
    program = compile_program(arch, trace, fusion=fusion, residency=residency)
    timelines = [run(program, engine=engine) for engine in ENGINES]
    assert np.array_equal(timelines[0].start, timelines[1].start)
    assert check(arch, trace, program, timelines[0]) > 0


@pytest.mark.parametrize("name", MACHINES)
def test_whole_networks_read_nothing_early(name: str) -> None:
    arch = shipped_arch(name, dram__model="bandwidth")
    program = compile_program(arch, bert_tiny())
    assert check(arch, bert_tiny(), program, run(program)) > 0


def test_a_host_kernel_takes_its_call_and_its_work() -> None:
    arch = small(vector="none", host=HOST)
    program = compile_program(arch, scores(1, 8, 8, 4, ()))
    kernel = int(np.flatnonzero(program.counters[:, COUNTERS.index("host_ops")])[0])
    call, work = (int(program.breakdown[kernel, BREAKDOWN.index(part)]) for part in ("fill", "useful"))
    recipe = 64 * (1 + 3 + 1 + 1) + 8  # max; subtract, exp, sum; scale, cast; a division a row
    assert (call, work) == (1000, recipe)  # 1 us at 1000 MHz, a result a cycle
    assert program.counters[kernel, COUNTERS.index("host_read_bytes")] == 64 * 2


def test_a_host_reaches_no_tensor_on_chip() -> None:
    b = TraceBuilder("chip", run={"batch": 1, "precision": "bf16"})
    x = b.tensor("x", (4, 4), "bf16", "input", initial="on_chip")
    b.op("softmax", [x], [b.tensor("y", (4, 4), "bf16", final="dram")], {"axis": -1})
    with pytest.raises(InputError, match="the host that works on it reaches DRAM only"):
        compile_program(small(vector="none", host=HOST), b.build())
