"""Laws of lowering one matmul, over odd shapes, all dataflows, overlaps, loop orders and residencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.api import Result, simulate
from accelsim.arch.spec import Arch
from accelsim.compile import compile_program
from accelsim.compile.place import dram_addresses
from accelsim.compile.program import COUNTERS, DRAIN, LOAD, STORE, STREAM, VECTOR, WEIGHTS, Program
from accelsim.engine import run
from accelsim.engine.timeline import Timeline
from accelsim.errors import InputError
from accelsim.hardware import systolic
from accelsim.trace.builder import TraceBuilder, gemm_trace
from accelsim.trace.model import DTYPE_BYTES, Operand, Tensor, Trace
from tests.compile.checker import check
from tests.compile.machines import ORDERS, OVERLAPS, SIZES, entry, groups_of, mapped, small

OPERANDS = ("int8", "bf16", "fp32")


@dataclass(frozen=True)
class Case:
    """A matmul, the machine it runs on and the tile it is cut in."""

    sizes: tuple[int, int, int]  # m, n, k
    tile: tuple[int, int, int]
    order: tuple[str, ...]
    batch: int
    dtypes: tuple[str, str]  # of the operands and of the result
    resident: frozenset[str]  # held whole by the mapping
    on_chip: frozenset[str]  # there from the start
    machine: Mapping[str, Any]

    @property
    def trace(self) -> Trace:
        m, n, k = self.sizes
        return gemm_trace(m, n, k, self.batch, *self.dtypes, self.on_chip)

    @property
    def arch(self) -> Arch:
        return small(**self.machine)

    @property
    def arrays(self) -> int:
        return int(self.machine["array__count"])

    @property
    def trips(self) -> dict[str, int]:
        return {name: -(-size // tile) for name, size, tile in zip("mnk", self.sizes, self.tile, strict=True)}

    def run(self) -> Result:
        tiles = entry(self.tile, self.order, self.resident)
        try:
            return simulate(self.arch, self.trace, mapping=tiles)
        except InputError:
            assume(False)  # the tile does not fit
            raise


@st.composite
def cases(draw: st.DrawFn, arrays: int = 3) -> Case:
    sizes = tuple(draw(SIZES) for _ in range(3))
    fold_overlap, double_buffer = draw(st.sampled_from(OVERLAPS))
    operands = st.frozensets(st.sampled_from("ab"))
    machine = {
        "array__rows": draw(st.sampled_from((1, 3, 4))), "array__cols": draw(st.sampled_from((1, 4, 5))),
        "array__count": draw(st.integers(1, arrays)), "array__dataflow": draw(st.sampled_from(("ws", "os", "is"))),
        "array__fold_overlap": fold_overlap, "array__weight_double_buffer": double_buffer,
        "array__output_double_buffer": draw(st.booleans()),
        "accumulator__drain_elements_per_cycle": draw(st.sampled_from((1, 4, ".inf"))),
        "scratchpad__banks": draw(st.sampled_from((1, 4))), "scratchpad__bank_width_bytes": 16,
        "dma__load_queues": draw(st.integers(1, 2)), "dma__store_queues": draw(st.integers(1, 2)),
        "dma__issue_cycles": draw(st.sampled_from((0, 3))), "dma__prefetch_window": draw(st.sampled_from((1, 2, 64))),
        "dram__model": draw(st.sampled_from(("bandwidth", "ideal"))),
        "dram__bandwidth_gbps": draw(st.sampled_from((0.5, 8, ".inf"))),
    }  # fmt: skip
    return Case(
        sizes, tuple(draw(st.integers(1, size)) for size in sizes), draw(st.sampled_from(ORDERS)),
        draw(st.integers(1, 3)), draw(st.tuples(*(st.sampled_from(dtypes) for dtypes in (OPERANDS, ("int8", "bf16"))))),
        draw(operands), draw(operands), machine,
    )  # fmt: skip


def counted(result: Result, name: str) -> int:
    assert result.program is not None
    return int(result.program.counters[:, COUNTERS.index(name)].sum())


def fetched_elements(case: Case, operand: str) -> int:
    """By walking the loop nest with two fingers: a tile is fetched when it is not the one that was read last."""
    first, second = {"a": "mk", "b": "kn"}[operand]
    ranges = [range(case.batch), *(range(case.trips[name]) for name in case.order)]
    held: tuple[int, ...] | None = None
    seen: set[tuple[int, ...]] = set()
    total = 0
    for point in np.ndindex(*(len(r) for r in ranges)):
        index = dict(zip(("batch", *case.order), point, strict=True))
        tile = (index["batch"], index[first], index[second])
        if tile != held and not (operand in case.resident and tile in seen):
            sizes = dict(zip("mnk", zip(case.sizes, case.tile, strict=True), strict=True))
            total += prod(min(t, s - index[name] * t) for name in (first, second) for s, t in (sizes[name],))
        held = tile
        seen.add(tile)
    return total


@settings(max_examples=60)
@given(cases())
def test_both_engines_agree_and_no_tile_is_read_before_it_is_there(case: Case) -> None:
    result = case.run()
    assert result.program is not None
    assert result.timeline is not None
    assert result.timeline.equals(run(result.program, "reference"))
    reads = check(case.arch, case.trace, result.program, result.timeline)
    assert reads > 0 or case.on_chip == {"a", "b"}


@settings(max_examples=50)
@given(cases(arrays=1))
def test_dram_bytes_are_those_of_the_loop_nest(case: Case) -> None:
    program = case.run().program
    assert program is not None
    wide, out = (DTYPE_BYTES[dtype] for dtype in case.dtypes)
    expected = sum(fetched_elements(case, operand) for operand in "ab" if operand not in case.on_chip) * wide
    assert int(program.request_bytes[program.kind == LOAD].sum()) == expected
    m, n, _ = case.sizes
    assert int(program.request_bytes[program.kind == STORE].sum()) == case.batch * m * n * out


@settings(max_examples=30)
@given(cases())
def test_several_arrays_never_fetch_more_than_one(case: Case) -> None:
    program = case.run().program
    assert program is not None
    wide, out = (DTYPE_BYTES[dtype] for dtype in case.dtypes)
    m, n, k = case.sizes
    most = sum(fetched_elements(case, operand) for operand in "ab" if operand not in case.on_chip) * wide
    least = sum({"a": m * k, "b": k * n}[operand] for operand in "ab" if operand not in case.on_chip) * wide
    assert least * case.batch <= int(program.request_bytes[program.kind == LOAD].sum()) <= most
    assert int(program.request_bytes[program.kind == STORE].sum()) == case.batch * m * n * out


@settings(max_examples=40)
@given(cases())
def test_macs_and_partial_sums_are_exact(case: Case) -> None:
    result = case.run()
    program = result.program
    assert program is not None
    (m, n, k), (_, _, tk) = case.sizes, case.tile
    assert int(program.macs.sum()) == case.batch * m * n * k
    assert int(program.macs[program.kind != STREAM].sum()) == 0
    rows = int(case.machine["array__rows"])
    whole, rest = divmod(k, tk)
    if case.machine["array__dataflow"] == "os":  # one partial sum a K tile, none where there is one tile only
        written = case.trips["k"] if case.trips["k"] > 1 else 0
    else:
        written = whole * -(-tk // rows) + (-(-rest // rows))
    assert counted(result, "accumulator_writes") == written * case.batch * m * n
    assert counted(result, "accumulator_reads") == max(0, written - 1) * case.batch * m * n
    assert counted(result, "accumulator_drain_reads") == (case.batch * m * n if written else 0)


def assert_weights_wait(program: Program, timeline: Timeline, double: bool) -> int:
    """An array holds one set of weights; shadow registers take one more once the first stream on the last has begun."""
    names, checked = [unit.name for unit in program.units], 0
    for name in (name for name in names if name.endswith(".weights")):
        units = names.index(name), names.index(name.replace(".weights", ".stream"))
        streams: list[int] = []  # since the latest weights
        for task in np.flatnonzero(np.isin(program.unit, units)).tolist():
            if program.kind[task] == STREAM:
                streams.append(task)
            elif streams:
                free = timeline.start[streams[0]] if double else timeline.released[streams[-1]]
                assert timeline.start[task] >= free
                streams, checked = [], checked + 1
    return checked


@settings(max_examples=40)
@given(cases())
def test_each_array_holds_one_set_of_weights_at_a_time(case: Case) -> None:
    result = case.run()
    assert result.program is not None
    assert result.timeline is not None
    assert_weights_wait(result.program, result.timeline, case.machine["array__weight_double_buffer"])


def independent(dtypes: Sequence[str], k: int = 4) -> Trace:
    """Matmuls [12, k] x [k, 4], one for each dtype, that share nothing and start on chip."""
    b = TraceBuilder("independent")
    for index, dtype in enumerate(dtypes):
        a, w = (
            b.tensor(f"{name}{index}", shape, dtype, "input", initial="on_chip")
            for name, shape in (("a", (12, k)), ("w", (k, 4)))
        )
        b.op("matmul", [a, w], [b.tensor(f"out{index}", (12, 4), "int8")])
    return b.build()


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("dataflow", ["ws", "is"])
def test_next_operators_weights_wait_for_the_array_too(dataflow: str, overlap: tuple[bool, bool]) -> None:
    arch = small(
        array__dataflow=dataflow, array__fold_overlap=overlap[0], array__weight_double_buffer=overlap[1],
        scratchpad__banks=64,
    )  # fmt: skip
    program = compile_program(arch, independent(["int8"] * 4))
    assert assert_weights_wait(program, run(program), overlap[1]) >= 3


def drains_on_time(program: Program, timeline: Timeline) -> int:
    """os: number of drains, all of which begin when the closed form says: no result waits to be overwritten."""
    drains = np.flatnonzero(program.kind == DRAIN).tolist()
    for drain in drains:
        edges = slice(program.edge_begin[drain], program.edge_begin[drain + 1])
        from_stream = program.kind[program.edge_producer[edges]] == STREAM
        stream, lag = program.edge_producer[edges][from_stream][0], program.edge_lag[edges][from_stream][0]
        assert timeline.start[drain] == timeline.start[stream] + lag, f"drain {drain} is late"
    return len(drains)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_next_operators_results_find_the_output_registers_free(double: bool, k: int) -> None:
    arch = small(array__dataflow="os", array__output_double_buffer=double, scratchpad__banks=64)
    program = compile_program(arch, independent(["int8"] * 4, k))
    assert drains_on_time(program, run(program)) >= 4


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_operands_of_another_rate_wait_for_an_empty_array(dataflow: str) -> None:
    program = compile_program(small(array__dataflow=dataflow, scratchpad__banks=64), independent(["fp32", "int8"]))
    timeline = run(program)
    slow = (program.op == 0) & (program.kind == (DRAIN if dataflow == "os" else STREAM))
    fast = (program.op == 1) & np.isin(program.kind, (WEIGHTS, STREAM))
    assert timeline.start[fast].min() >= timeline.done[slow].max()


def test_first_fold_of_a_tile_of_several_is_shifted_in_each_time() -> None:
    """What the array holds after a tile of two folds is its second fold; a tile of one fold need not come again."""
    for tk, times in ((4, 1), (8, 3)):
        program = mapped(small(), gemm_trace(12, 4, tk), (4, 4, tk))
        assert int((program.kind == WEIGHTS).sum()) == times


@settings(max_examples=40)
@given(cases())
def test_sums_begin_when_their_place_in_the_accumulator_is_free(case: Case) -> None:
    """By address: outputs take an array's accumulator in turn."""
    result = case.run()
    program, timeline = result.program, result.timeline
    assert program is not None
    assert timeline is not None
    streams = np.flatnonzero(program.kind == STREAM).tolist()
    drains = {tuple(program.tile[t][:3]): t for t in np.flatnonzero(program.kind == DRAIN).tolist()}
    for unit in np.unique(program.unit[streams]):
        array = program.units[unit].name.split(".")[1]
        held = sum(a.bytes for a in program.allocations if a.name.startswith(f"{array}.sums"))
        slots = held // (case.tile[0] * case.tile[1] * 4)
        if not slots:
            continue  # results go past the accumulator
        first = {tuple(program.tile[t][:3]): t for t in reversed(streams) if program.unit[t] == unit}
        begun = sorted(first.items(), key=lambda item: item[1])
        for (left, _), (_, stream) in zip(begun, begun[slots:], strict=False):
            assert timeline.start[stream] >= timeline.released[drains[left]]


@settings(max_examples=30)
@given(cases())
def test_output_registers_are_shifted_out_on_time(case: Case) -> None:
    """os: the drain starts when the closed form says, or the next tile would overwrite the results."""
    case = Case(**{**case.__dict__, "machine": {**case.machine, "array__dataflow": "os", "scratchpad__banks": 64}})
    result = case.run()
    program, timeline = result.program, result.timeline
    assert program is not None
    assert timeline is not None
    drains_on_time(program, timeline)


def test_output_registers_are_shifted_out_on_time_through_a_narrow_scratchpad() -> None:
    arch = small(array__dataflow="os", scratchpad__banks=1, scratchpad__bank_width_bytes=16, dram__model="ideal")
    program = mapped(arch, gemm_trace(16, 16, 2, dtype="int8", out_dtype="fp32"), (4, 4, 2))
    drains_on_time(program, run(program))


def test_os_sums_that_an_epilogue_reads_are_written_to_the_accumulator() -> None:
    b = TraceBuilder("epilogue")
    x, w = b.tensor("x", (8, 8), "int8", "input"), b.tensor("w", (8, 8), "int8", "weight")
    y, z = b.tensor("y", (8, 8), "bf16"), b.tensor("z", (8, 8), "bf16")
    b.op("matmul", [x, w], [y])
    b.op("gelu", [y], [z], {"approximate": "none"})
    result = simulate(small(array__dataflow="os"), b.build(), mapping=entry((8, 8, 8)))
    assert counted(result, "accumulator_drain_reads") == counted(result, "accumulator_writes") == 64


def test_what_an_epilogue_of_two_passes_keeps_is_held_in_the_scratchpad() -> None:
    first = {"name": "first", "reads": ["in0"], "writes": ["tmp"], "functions": {"mul": 1}}
    second = {"name": "second", "reads": ["in0", "tmp"], "writes": ["out"], "functions": {"mul": 1}}
    b = TraceBuilder("two_passes")
    x, w = b.tensor("x", (8, 8), "int8", "input"), b.tensor("w", (8, 8), "int8", "weight")
    y, z = b.tensor("y", (8, 8), "bf16"), b.tensor("z", (8, 8), "bf16")
    b.op("matmul", [x, w], [y])
    b.op("gelu", [y], [z], {"approximate": "none"})
    program = compile_program(small(vector__recipes={"gelu": [first, second]}), b.build())
    assert "passes" in {allocation.name for allocation in program.allocations}


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 4, 4), (9, 7, 5), (3, 17, 11)])
def test_one_tile_takes_the_isolated_time(
    dataflow: str, overlap: tuple[bool, bool], sizes: tuple[int, int, int]
) -> None:
    fold_overlap, double_buffer = overlap
    arch = small(
        array__dataflow=dataflow, array__fold_overlap=fold_overlap, array__weight_double_buffer=double_buffer,
        dram__model="ideal", scratchpad__banks=256,
    )  # fmt: skip
    m, n, k = sizes
    result = simulate(arch, gemm_trace(m, n, k), mapping=entry(sizes))
    p = systolic.ArrayParameters(4, 4, dataflow, double_buffer, True, fold_overlap, drain_elements_per_cycle=4)  # type: ignore[arg-type]
    assert result.data["total"]["cycles"] == systolic.isolated_cycles(p, m, k, n)


def test_partial_sums_of_four_k_folds() -> None:
    arch = small(array__rows=128, array__cols=128, accumulator__capacity_kib=256, scratchpad__capacity_kib=1024)
    for tile in ((128, 128, 512), (128, 128, 128), (64, 128, 256)):
        result = simulate(arch, gemm_trace(128, 128, 512), mapping=entry(tile))
        assert counted(result, "accumulator_writes") == 4 * 128 * 128
        assert counted(result, "accumulator_reads") == 3 * 128 * 128
        assert counted(result, "accumulator_drain_reads") == 128 * 128


@pytest.mark.parametrize("dtype", ["int8", "bf16", "fp32"])
def test_rate_of_the_dtype_stretches_the_streams(dtype: str) -> None:
    arch, steps = small(scratchpad__banks=256), {"int8": 1, "bf16": 2, "fp32": 3}[dtype]
    program = mapped(arch, gemm_trace(8, 4, 4, dtype=dtype), (8, 4, 4))
    assert program.occupy[program.kind == STREAM].tolist() == [8 * steps]
    assert program.occupy[program.kind == WEIGHTS].tolist() == [4 * steps]


def biased(columns: int) -> tuple[Trace, Tensor]:
    """A matmul with a bias of fp32 and a GELU behind it; the trace and the bias."""
    builder = TraceBuilder("biased")
    x, w = builder.tensor("x", (9, 7), "int8", "input"), builder.tensor("w", (7, columns), "int8", "weight")
    bias, y = builder.tensor("bias", (columns,), "fp32", "weight"), builder.tensor("y", (9, columns), "bf16")
    gelu = builder.tensor("gelu", (9, columns), "bf16")
    builder.op("matmul", [x, w, bias], [y])
    builder.op("gelu", [y], [gelu], {"approximate": "none"})
    return builder.build(), bias


@pytest.mark.parametrize("order", ORDERS)
def test_bias_is_loaded_once_and_before_the_first_result_leaves(order: tuple[str, ...]) -> None:
    (trace, _), arch = biased(6), small()
    for fusion, reader in (("none", DRAIN), ("elementwise", VECTOR)):
        result = simulate(arch, trace, fusion=fusion, mapping=entry((4, 3, 2), order))
        program, timeline = result.program, result.timeline
        assert program is not None
        assert timeline is not None
        check(arch, trace, program, timeline)
        loads = np.flatnonzero((program.kind == LOAD) & (program.request_bytes == 6 * 4) & (program.op == 0))
        assert loads.size == 1
        first = np.flatnonzero((program.kind == reader) & (program.op == 0))[0]
        assert timeline.start[first] >= timeline.done[loads[0]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("arrays", [1, 3])
@pytest.mark.parametrize("fusion", ["none", "elementwise"])
def test_a_bias_too_large_to_keep_comes_column_by_column(order: tuple[str, ...], arrays: int, fusion: str) -> None:
    """70 columns of 4 bytes are more than a quarter of 1 KiB; the mapper finds tiles that leave room for parts."""
    (trace, bias), arch = biased(70), small(array__count=arrays, scratchpad__capacity_kib=1)
    for mapping in (None, entry((4, 3, 4), order)):
        result = simulate(arch, trace, fusion=fusion, mapping=mapping)
        assert result.program is not None
        assert result.timeline is not None
        check(arch, trace, result.program, result.timeline)
        program = result.program
        first = dram_addresses(groups_of(trace, arch, fusion), trace, arch)[bias.id]
        loads = (program.kind == LOAD) & (program.address >= first) & (program.address < first + 280)
        assert program.request_bytes[loads].sum() >= 280
        assert program.request_bytes[loads].max() <= 280 // 2


def test_transposed_operands_are_fetched_as_they_lie() -> None:
    builder = TraceBuilder("transposed")
    a, b = builder.tensor("a", (9, 6), "int8", "input"), builder.tensor("b", (5, 9), "int8", "weight")
    out = builder.tensor("out", (6, 5), "int8")
    builder.op("matmul", [Operand(a.id, (6, 9), (1, 6)), Operand(b.id, (9, 5), (1, 9))], [out])
    trace, arch = builder.build(), small()
    for order in ORDERS:
        result = simulate(arch, trace, mapping=entry((4, 3, 2), order))
        assert result.program is not None
        assert result.timeline is not None
        assert check(arch, trace, result.program, result.timeline) > 0


@pytest.mark.parametrize("flows", [("ws", "os"), ("os", "ws"), ("is", "os"), ("ws", "is")])
def test_array_is_empty_before_it_changes_its_dataflow(flows: tuple[str, str]) -> None:
    trace = independent(["int8"] * 2)
    tiles = {op: replace(entry((4, 4, 4), operator=op)[op], dataflow=flow) for op, flow in enumerate(flows)}
    program = compile_program(small(array__dataflow=["ws", "os", "is"]), trace, mapping=tiles)
    assert [plan.dataflow for plan in program.plans] == list(flows)
    timeline = run(program)
    on_array = np.isin(program.kind, (WEIGHTS, STREAM, DRAIN) if flows[0] == "os" else (WEIGHTS, STREAM))
    first, second = (np.flatnonzero(on_array & (program.op == op)) for op in (0, 1))
    assert timeline.start[second].min() >= timeline.done[first].max()
