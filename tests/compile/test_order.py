"""Whole traces, run: nothing is read before it is there, whatever the machine, the fusion and the residency."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.api import simulate
from accelsim.compile import compile_program
from accelsim.compile.program import LOAD, STORE, VECTOR
from accelsim.engine import run
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Tensor, Trace
from tests.compile.checker import Checker, check
from tests.compile.machines import chain, encoder, entry, placement_of, shipped_arch, shipped_trace, small
from tests.compile.views import request_bytes


def run_checked(trace: Trace, fusion: str = "elementwise", residency: bool = True, **machine: object) -> int:
    """Simulate (which checks every law), compare the engines, and check every read; the number of reads."""
    arch = small(**machine)
    result = simulate(arch, trace, fusion=fusion, residency=residency)
    assert result.program is not None
    assert result.timeline is not None
    assert result.timeline.equals(run(result.program, "reference"))
    return check(arch, trace, result.program, result.timeline)


@settings(max_examples=14)
@given(
    seq=st.sampled_from((1, 3, 5, 8)), heads=st.sampled_from((1, 2, 3)), width=st.sampled_from((1, 4, 5)),
    wide=st.sampled_from((3, 12)), dtype=st.sampled_from(("int8", "bf16")),
    fusion=st.sampled_from(("none", "elementwise")),
    residency=st.booleans(), arrays=st.integers(1, 3), dataflow=st.sampled_from(("ws", "os", "is")),
    queues=st.integers(1, 2), lanes=st.sampled_from((1, 4)), kib=st.sampled_from((1, 4, 16)),
    window=st.sampled_from((1, 64)),
)  # fmt: skip
def test_no_read_of_an_encoder_layer_is_early(
    seq: int, heads: int, width: int, wide: int, dtype: str, fusion: str, residency: bool, arrays: int, dataflow: str,
    queues: int, lanes: int, kib: int, window: int,
) -> None:  # fmt: skip
    assume(seq not in (heads, heads * width))  # as many rows as columns: test_vector_of_as_many_elements_as_rows
    reads = run_checked(
        encoder(seq, heads * width, heads, wide, dtype), fusion, residency, array__count=arrays,
        array__dataflow=dataflow, dma__load_queues=queues, dma__store_queues=queues, vector__lanes=lanes,
        scratchpad__capacity_kib=kib, dma__prefetch_window=window,
    )  # fmt: skip
    assert reads > 20


@pytest.mark.parametrize("fusion", ["none", "elementwise"])
@pytest.mark.parametrize("residency", [True, False])
@pytest.mark.parametrize("machine", ["tpu_like", "tpu_v4i"])
def test_no_read_of_a_bert_layer_is_early(machine: str, fusion: str, residency: bool) -> None:
    arch, trace = shipped_arch(machine), shipped_trace("bert_tiny_fwd_b1_s128", (0, 1))
    program = compile_program(arch, trace, fusion=fusion, residency=residency)
    assert check(arch, trace, program, run(program)) > 30


def elementwise(shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> Trace:
    builder = TraceBuilder("elementwise")
    inputs = [builder.tensor(f"in{i}", shape, "bf16", "input") for i, shape in enumerate(shapes)]
    builder.op("elementwise", list(inputs), [builder.tensor("out", out, "bf16")], {"function": "add", "arity": 2})
    return builder.build()


@pytest.mark.parametrize("kib", [2, 8, 64])
@pytest.mark.parametrize(
    "shapes",
    [
        [(4, 64, 64), (1, 64, 64)],
        [(1, 64, 64), (4, 64, 64)],
        [(4, 64, 64), (64, 64)],
        [(2, 2, 32, 64), (2, 1, 32, 64)],
        [(2, 2, 32, 64), (1, 2, 32, 64)],
        [(3, 64, 32), (64, 1)],
        [(3, 64, 32), (3, 64, 1)],
        [(3, 64, 32), (32,)],
        [(4, 64, 32), ()],
    ],
)
def test_broadcast_operand_is_there_whole_or_part_by_part(shapes: list[tuple[int, ...]], kib: int) -> None:
    out = max(shapes, key=lambda shape: int(np.prod(shape)))
    assert run_checked(elementwise(shapes, out), scratchpad__capacity_kib=kib, vector__lanes=2) > 0


def reader_of(b: TraceBuilder, y: Tensor, how: str) -> None:
    """An operator that reads the [rows, cols] tensor y in an unusual way."""
    rows, cols = y.shape
    strides = (cols, 1)
    if how.startswith("sum"):
        axis = int(how[-1])
        out = b.tensor("out", (y.shape[1 - axis],), "bf16")
        b.op("reduce", [y], [out], {"function": "sum", "axes": [axis]})
        return
    if how == "broadcast":
        x = b.tensor("big", (3, rows, cols), "bf16", "input")
        b.op("elementwise", [x, y], [b.tensor("out", x.shape, "bf16")], {"function": "add", "arity": 2})
        return
    view = {
        "left": Operand(y.id, (rows, cols // 2), strides),
        "right": Operand(y.id, (rows, cols // 2), strides, cols // 2),
        "lower": Operand(y.id, (rows // 2, cols), strides, rows // 2 * cols),
        "turned": Operand(y.id, (cols, rows), (1, cols)),
        "heads": Operand(y.id, (2, rows, cols // 2), (cols // 2, cols, 1)),
        "every_other": Operand(y.id, (rows, cols // 2), (cols, 2)),
    }[how]
    b.op("elementwise", [view], [b.tensor("out", view.shape, "bf16")], {"function": "neg", "arity": 1})


READERS = ("sum0", "sum1", "broadcast", "left", "right", "lower", "turned", "heads", "every_other")


@settings(max_examples=40)
@given(
    rows=st.sampled_from((2, 7, 16, 33)), cols=st.sampled_from((2, 6, 12)), how=st.sampled_from(READERS),
    kib=st.sampled_from((0.4, 1, 8)), lanes=st.sampled_from((1, 4)), queues=st.integers(1, 3), residency=st.booleans(),
)  # fmt: skip
def test_unusual_view_of_a_computed_tensor_waits_for_its_writers(
    rows: int, cols: int, how: str, kib: float, lanes: int, queues: int, residency: bool
) -> None:
    b = TraceBuilder("view")
    x, y = b.tensor("x", (rows, cols), "bf16", "input"), b.tensor("y", (rows, cols), "bf16")
    b.op("elementwise", [x], [y], {"function": "neg", "arity": 1})
    reader_of(b, y, how)
    queued = {"dma__load_queues": queues, "dma__store_queues": queues}
    trace = b.build()
    assert run_checked(trace, residency=residency, scratchpad__capacity_kib=kib, vector__lanes=lanes, **queued) > 0


def test_transposed_read_stays_inside_its_tensor() -> None:
    b = TraceBuilder("turned")
    x, out = b.tensor("x", (6, 8), "bf16", "input"), b.tensor("out", (8, 6), "bf16")
    b.op("transpose", [Operand(x.id, (8, 6), (1, 8))], [out], {})
    program = compile_program(small(), b.build())
    (load,) = np.flatnonzero(program.kind == LOAD)
    assert request_bytes(program, load).tolist() == list(range(6 * 8 * 2))


@pytest.mark.parametrize("residency", [True, False])
def test_chain_of_ragged_matmuls_waits_tile_by_tile(residency: bool) -> None:
    trace, arch = chain((13, 9, 11, 5), rows=17, bias=True), small(array__count=2, dma__load_queues=2)
    entries = {**entry((5, 4, 3)), **entry((3, 2, 9), ("n", "k", "m"), operator=1), **entry((4, 5, 11), operator=2)}
    result = simulate(arch, trace, residency=residency, mapping=entries)
    assert result.program is not None
    assert result.timeline is not None
    assert check(arch, trace, result.program, result.timeline) > 100
    first = result.timeline.start[result.program.op == 1].min()
    assert first < result.timeline.done[result.program.op == 0].max(), "the second matmul overlaps with the first"


# ---- the check itself ------------------------------------------------------------------------------------------------


def tampered(change: Callable[[Checker], None]) -> Checker:
    arch, trace = small(), encoder(5, 8, 2, 12)
    program = compile_program(arch, trace, residency=False)
    timeline = run(program)
    checker = Checker(arch, trace, program, timeline)
    change(checker)
    return checker


@pytest.mark.parametrize("kind", [LOAD, STORE, VECTOR])
def test_check_finds_a_task_that_is_late_for_its_readers(kind: int) -> None:
    def delay(checker: Checker) -> None:
        task = np.flatnonzero(checker.program.kind == kind)[0]
        checker.timeline.done[task] += 10**6

    with pytest.raises(AssertionError):
        tampered(delay).check()


def test_check_finds_a_request_for_other_bytes() -> None:
    def shift(checker: Checker) -> None:
        checker.program.address[np.flatnonzero(checker.program.kind == LOAD)[3]] += 1

    with pytest.raises(AssertionError):
        tampered(shift).check()


# ---- operands of unusual form ----------------------------------------------------------------------------------------


def test_vector_of_as_many_elements_as_rows() -> None:
    run_checked(elementwise([(16, 16), (16,)], (16, 16)), scratchpad__capacity_kib=0.5, vector__lanes=1)


def test_two_broadcast_operands_of_which_neither_is_full() -> None:
    run_checked(elementwise([(1, 64, 32), (4, 1, 32)], (4, 64, 32)), scratchpad__capacity_kib=0.45, vector__lanes=2)


@pytest.mark.parametrize("residency", [True, False])
def test_gather_waits_for_all_of_a_computed_table(residency: bool) -> None:
    b = TraceBuilder("gather")
    x, table = b.tensor("x", (64, 64), "bf16", "input"), b.tensor("table", (64, 64), "bf16")
    index, out = b.tensor("index", (4,), "int64", "input"), b.tensor("out", (4, 64), "bf16")
    b.op("elementwise", [x], [table], {"function": "neg", "arity": 1})
    b.op("gather", [table, index], [out], {"axis": 0})
    run_checked(b.build(), residency=residency, vector__lanes=1, vector__pipeline_depth=16, dma__load_queues=2)


def test_statistics_of_a_layernorm_are_written_once_a_row() -> None:
    b = TraceBuilder("layernorm")
    x, y = b.tensor("x", (8, 16), "bf16", "input"), b.tensor("y", (8, 16), "bf16")
    mean, rstd = (b.tensor(name, (8, 1), "fp32", final="dram") for name in ("mean", "rstd"))
    b.op("layernorm", [x], [y, mean, rstd], {"axis": -1, "eps": 1e-12})
    program = compile_program(small(), b.build())
    assert program.request_bytes[program.kind == STORE].sum() == 8 * 16 * 2 + 2 * 8 * 4


def test_short_tiles_of_a_strided_view_are_read_where_they_lie() -> None:
    b = TraceBuilder("strided")
    x, out = b.tensor("x", (4, 4096), "bf16", "input"), b.tensor("out", (4, 2048), "bf16")
    b.op("elementwise", [Operand(x.id, (4, 2048), (4096, 1))], [out], {"function": "neg", "arity": 1})
    program = compile_program(small(scratchpad__capacity_kib=2, vector__lanes=2), b.build())
    loads = program.kind == LOAD
    assert (program.address + program.request_bytes)[loads].max() == (3 * 4096 + 2048) * 2


def test_sum_over_rows_waits_for_all_rows() -> None:
    b = TraceBuilder("reduce")
    x, y = b.tensor("x", (64, 32), "bf16", "input"), b.tensor("y", (64, 32), "bf16")
    out = b.tensor("out", (32,), "bf16")
    b.op("elementwise", [x], [y], {"function": "neg", "arity": 1})
    b.op("reduce", [y], [out], {"function": "sum", "axes": [0]})
    program = compile_program(small(vector__lanes=1), b.build(), residency=False)
    timeline = run(program)
    first = np.flatnonzero((program.kind == VECTOR) & (program.op == 1))[0]
    assert timeline.start[first] >= timeline.done[(program.kind == STORE) & (program.op == 0)].max()


def test_new_version_of_a_storage_waits_for_the_readers_of_the_old_one() -> None:
    b = TraceBuilder("overwritten")
    w, x = b.tensor("w", (64, 64), "int8", "weight"), b.tensor("x", (64, 64), "int8", "input")
    y, g = b.tensor("y", (64, 64), "int8"), b.tensor("g", (64, 64), "int8", "input", initial="on_chip")
    new: Tensor = b.tensor("w_new", (64, 64), "int8", "weight", overwrites=w)
    b.op("matmul", [x, w], [y])
    b.op("elementwise", [g], [new], {"function": "neg", "arity": 1})
    trace, arch = b.build(), small(vector__lanes=64, dma__store_queues=2)
    program = compile_program(arch, trace, residency=False, mapping=entry((16, 16, 16)))
    timeline, base = run(program), placement_of(trace, arch, residency=False).dram_address[w.storage]
    old = (program.kind == LOAD) & (program.address >= base) & (program.address < base + 64 * 64)
    assert timeline.done[old].max() <= timeline.start[(program.kind == STORE) & (program.op == 1)].min()


def test_tensor_in_the_second_level_is_stored_to_its_own_dram_address() -> None:
    b = TraceBuilder("both")
    x, y = b.tensor("x", (4096, 4096), "int8", "input"), b.tensor("y", (4096, 4096), "int8", final="dram")
    z = b.tensor("z", (4096, 4096), "int8")
    b.op("elementwise", [x], [y], {"function": "neg", "arity": 1})
    b.op("elementwise", [y], [z], {"function": "neg", "arity": 1})
    trace, arch = b.build(), shipped_arch("tpu_v4i")
    program, placed = compile_program(arch, trace), placement_of(trace, arch)
    assert placed.place_of(y.id) == "level2"
    stores = (program.kind == STORE) & (program.op == 0)
    assert program.address[stores].min() == placed.dram_address[y.storage]
