"""Small machines and traces for the tests of the compiler."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from accelsim.arch import load_arch
from accelsim.arch.spec import Arch
from accelsim.compile import MappingEntry, compile_program
from accelsim.compile.driver import Compiler
from accelsim.compile.fuse import Group
from accelsim.compile.place import Placement, place
from accelsim.compile.plan import Planner
from accelsim.compile.program import Program
from accelsim.compile.rules import fusion_of
from accelsim.compile.score import Judge
from accelsim.compile.work import HOST_UNIT
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.find import find_trace
from accelsim.trace.format import read_trace
from accelsim.trace.model import Operand, Tensor, Trace
from accelsim.trace.slice import slice_layers

# A machine of 4x4 PEs with small buffers and exact, slow memory: 8 bytes a cycle, 20 cycles latency.
SMALL: Mapping[str, Any] = {
    "array.rows": 4, "array.cols": 4, "array.rate": {"int8": 1, "bf16": "1/2", "fp32": "1/3"},
    "accumulator.capacity_kib": 4, "accumulator.drain_elements_per_cycle": 4, "scratchpad.capacity_kib": 16,
    "dram.model": "bandwidth", "dram.bandwidth_gbps": 8, "dram.latency_ns": 20, "dma.issue_cycles": 0,
    "dma.prefetch_window": 64,
}  # fmt: skip
OVERLAPS = ((True, True), (True, False), (False, False))  # fold_overlap, weight_double_buffer
ORDERS = tuple((x, y, z) for x in "mnk" for y in "mnk" for z in "mnk" if {x, y, z} == set("mnk"))
SIZES = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 17))


def small(**changes: Any) -> Arch:
    """The small machine; `array__rows=3` changes `array.rows`."""
    return load_arch("gemmini_16", {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}})


@cache
def shipped_arch(name: str = "tpu_like", **changes: Any) -> Arch:
    return load_arch(name, {key.replace("__", "."): value for key, value in changes.items()})


@cache
def shipped_trace(name: str, layers: tuple[int, int] | None = None) -> Trace:
    trace = read_trace(find_trace(name))
    return slice_layers(trace, *layers) if layers else trace


@cache
def bert_tiny() -> Trace:
    return shipped_trace("bert_tiny_fwd_b1_s128")


Rules = Mapping[str, str] | None


def groups_of(
    trace: Trace, arch: Arch, fusion: str = "elementwise", residency: bool = True, rules: Rules = None
) -> tuple[Group, ...]:
    planner = Planner(trace, arch, {})
    return Compiler(arch, trace, planner, fusion_of(fusion, rules), residency, Judge()).choose()[-1].groups


def placement_of(
    trace: Trace, arch: Arch, fusion: str = "elementwise", residency: bool = True, rules: Rules = None
) -> Placement:
    groups, planner = groups_of(trace, arch, fusion, residency, rules), Planner(trace, arch, {})
    on_host = [group for group in groups if planner.work(group).unit == HOST_UNIT]
    off_chip = frozenset(view.tensor for group in on_host for view in (*group.inputs, *group.outputs))
    return place(groups, trace, arch, residency, off_chip)


def entry(
    tile: Sequence[int], order: Sequence[str] = ("m", "n", "k"), resident: Collection[str] = (), operator: int = 0
) -> dict[int, MappingEntry]:
    """A mapping of one operator; `tile` is [m, n, k]."""
    m, n, k = tile
    return {operator: MappingEntry(operator, (m, n, k), tuple(order), None, frozenset(resident), "test")}


def mapped(arch: Arch, trace: Trace, tile: Sequence[int], **how: Any) -> Program:
    """A trace of one matmul, lowered with the given tile."""
    return compile_program(arch, trace, mapping=entry(tile, **how))


def chain(sizes: Sequence[int], rows: int, dtype: str = "int8", bias: bool = False, final: str | None = None) -> Trace:
    """Matmuls one after another: [rows, sizes[0]] x [sizes[0], sizes[1]] x ... ."""
    builder = TraceBuilder("chain", run={"batch": 1, "precision": dtype})
    x = builder.tensor("x", (rows, sizes[0]), dtype, "input")
    for index, (k, n) in enumerate(pairwise(sizes)):
        w = builder.tensor(f"w{index}", (k, n), dtype, "weight")
        last = index == len(sizes) - 2
        y = builder.tensor(f"y{index}", (rows, n), dtype, final=final if last else None)
        extra = [builder.tensor(f"bias{index}", (n,), "fp32", "weight")] if bias else []
        builder.op("matmul", [x, w, *extra], [y])
        x = y
    return builder.build()


def encoder(seq: int, hidden: int, heads: int, wide: int, dtype: str = "int8") -> Trace:
    """A small encoder layer: projections, attention with a mask, output, residuals, LayerNorms and GELU in bf16."""
    b = TraceBuilder("encoder", run={"batch": 1, "precision": dtype})
    width = hidden // heads

    def dense(x: Tensor, name: str, n: int, out: str) -> Tensor:
        w = b.tensor(f"{name}.w", (x.shape[-1], n), dtype, "weight")
        bias = b.tensor(f"{name}.bias", (n,), "fp32", "weight")
        y = b.tensor(name, (seq, n), out)
        b.op("matmul", [x, w, bias], [y], name=name)
        return y

    def one(kind: str, name: str, inputs: list[Tensor | Operand], like: Tensor, out: str, **attributes: Any) -> Tensor:
        y = b.tensor(name, like.shape, out)
        b.op(kind, inputs, [y], attributes, name=name)
        return y

    def cast(x: Tensor) -> Tensor:
        return x if x.dtype == dtype else one("cast", f"{x.name}.cast", [x], x, dtype, **{"from": x.dtype, "to": dtype})

    def norm(x: Tensor, name: str) -> Tensor:
        gamma, beta = (b.tensor(f"{name}.{part}", (hidden,), "fp32", "weight") for part in ("gamma", "beta"))
        return one("layernorm", name, [x, gamma, beta], x, "bf16", axis=-1, eps=1e-12)

    def split(x: Tensor, swap: bool = False) -> Operand:
        """[seq, hidden] as [heads, seq, width], its last two exchanged if `swap`."""
        shape, strides = (heads, seq, width), (width, hidden, 1)
        if swap:
            shape, strides = (heads, width, seq), (width, 1, hidden)
        return Operand(x.id, shape, strides)

    x = b.tensor("x", (seq, hidden), "bf16", "input")
    mask = b.tensor("mask", (1, seq, seq), "bf16", "mask")
    narrow_x = cast(x)
    q, k, v = (dense(narrow_x, name, hidden, dtype) for name in "qkv")
    scores = b.tensor("scores", (heads, seq, seq), "bf16")
    b.op("matmul", [split(q), split(k, swap=True)], [scores], name="scores")
    scaled = one("elementwise", "scale", [scores], scores, "bf16", function="scale", arity=1, scalar=0.5)
    masked = one("elementwise", "masked", [scaled, mask], scaled, "bf16", function="add", arity=2)
    p = cast(one("softmax", "softmax", [masked], masked, "bf16", axis=-1))
    context = b.tensor("context", (heads, seq, width), dtype)
    b.op("matmul", [p, split(v)], [context], name="context")
    merged = b.tensor("merged", (seq, hidden), dtype)
    turned = Operand(context.id, (seq, heads, width), (width, seq * width, 1))
    b.op("transpose", [turned], [Operand(merged.id, (seq, heads, width), (hidden, width, 1))], {}, name="merge")
    y = dense(merged, "attention", hidden, "bf16")
    y = norm(one("elementwise", "residual", [y, x], y, "bf16", function="add", arity=2), "norm")
    z = cast(one("gelu", "gelu", [dense(cast(y), "wide", wide, "bf16")], b.tensors[-1], "bf16", approximate="none"))
    z = dense(z, "narrow", hidden, "bf16")
    norm(one("elementwise", "residual_2", [z, y], z, "bf16", function="add", arity=2), "norm_2")
    return b.build()
