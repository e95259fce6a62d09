"""Ideal memory: the same mapping, lowered again for a better machine, is never slower. And what the DMA's keys do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.arch.spec import Arch
from accelsim.compile import MappingEntry, compile_program, dump_mapping, read_mapping
from accelsim.compile.program import LOAD, STORE, STREAM
from accelsim.engine import run
from accelsim.errors import InputError
from accelsim.trace.builder import gemm_trace
from accelsim.trace.model import Trace
from tests.compile.machines import ORDERS, OVERLAPS, SIZES, chain, encoder, entry, mapped, small

BETTER: dict[str, tuple[Any, ...]] = {  # key -> values from worse to better
    "scratchpad__capacity_kib": (2, 4, 64),
    "scratchpad__ports": (1, 2, 8),
    "accumulator__capacity_kib": (1, 2, 64),
    "accumulator__drain_elements_per_cycle": (4, 5, ".inf"),
    "array__rate": tuple({"int8": rate} for rate in ("1/3", "1/2", 1)),
    "vector__lanes": (1, 2, 3, 16),
    "vector__pipeline_depth": (20, 4, 0),
    "dma__load_queues": (1, 2, 4),
    "dma__prefetch_window": (1, 2, 5, 64),
}


def cycles(arch: Arch, trace: Trace, **how: Any) -> int:
    return run(compile_program(arch, trace, **how)).total


def mapping_of(arch: Arch, trace: Trace, folder: Path, **how: Any) -> dict[int, MappingEntry]:
    path = folder / "mapping.yaml"
    path.write_text(dump_mapping(compile_program(arch, trace, **how)), encoding="utf-8")
    return read_mapping(path)


@settings(max_examples=30)
@given(
    SIZES, SIZES, SIZES, st.data(), st.sampled_from(ORDERS), st.sampled_from(("ws", "os", "is")),
    st.sampled_from(OVERLAPS), st.integers(1, 2), st.sampled_from(sorted(BETTER)),
)  # fmt: skip
def test_one_matmul_is_never_slower(
    m: int, n: int, k: int, data: st.DataObject, order: tuple[str, ...], dataflow: str, overlap: tuple[bool, bool],
    arrays: int, key: str,
) -> None:  # fmt: skip
    tile = tuple(data.draw(st.integers(1, size)) for size in (m, n, k))
    fixed = {
        "array__dataflow": dataflow, "array__count": arrays, "array__fold_overlap": overlap[0],
        "array__weight_double_buffer": overlap[1], "dram__model": "ideal", "scratchpad__banks": 16,
    }  # fmt: skip
    times = []
    for value in BETTER[key]:
        try:
            times.append(cycles(small(**{**fixed, key: value}), gemm_trace(m, n, k), mapping=entry(tile, order)))
        except InputError:
            assume(not times)  # once a tile fits, it fits every larger machine
    assert times == sorted(times, reverse=True)
    assert times


@pytest.mark.parametrize("key", sorted(BETTER))
@pytest.mark.parametrize("dataflow", ["ws", "os"])
def test_encoder_layer_is_never_slower(key: str, dataflow: str, tmp_path: Path) -> None:
    trace, fixed = encoder(13, 12, 3, 17), {"dram__model": "ideal", "array__dataflow": dataflow}
    if key == "scratchpad__capacity_kib":
        trace = chain((12, 17, 12), 13, bias=True)  # the row tiles of vector operators are no part of a mapping
    how: dict[str, Any] = {"residency": False}  # more capacity would place other tensors
    worst = small(**{**fixed, key: BETTER[key][0]})
    mapping = mapping_of(worst, trace, tmp_path, **how)
    times = [cycles(small(**{**fixed, key: value}), trace, mapping=mapping, **how) for value in BETTER[key]]
    assert times == sorted(times, reverse=True)


# ---- the DMA's keys --------------------------------------------------------------------------------------------------

TRACE = chain((16, 24, 20), 16)
TILES = {**entry((8, 8, 8)), **entry((8, 5, 8), operator=1)}


def dma(**changes: Any) -> int:
    return cycles(small(**changes), TRACE, mapping=TILES, residency=False)


def test_a_window_of_one_is_slower_and_a_wide_one_is_enough() -> None:
    times = [dma(dma__prefetch_window=window) for window in (1, 2, 4, 64, 10**6)]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1] == times[-2]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_no_load_runs_further_ahead_than_the_window(window: int) -> None:
    program = compile_program(small(dma__prefetch_window=window), TRACE, mapping=TILES, residency=False)
    timeline = run(program)
    loads = np.flatnonzero(program.kind == LOAD)
    streams = np.flatnonzero(program.kind == STREAM)
    consumer = np.repeat(np.arange(program.size), np.diff(program.edge_begin))
    readers = [consumer[program.edge_producer == load] for load in loads]
    served = [streams[streams >= reader.min()][0] for reader in readers]
    for load, before in zip(loads[window:], served[:-window], strict=True):
        assert before >= served[loads.tolist().index(load)] or timeline.start[load] >= timeline.start[before]


@pytest.mark.parametrize("queues", [1, 3, 5])
def test_transfers_take_the_queues_in_turn(queues: int) -> None:
    arch = small(dma__load_queues=queues, dma__store_queues=queues)
    program = compile_program(arch, TRACE, mapping=TILES, residency=False)
    for kind, name in ((LOAD, "load"), (STORE, "store")):
        units = [program.units[unit].name for unit in program.unit[program.kind == kind]]
        assert units == [f"core0.{name}{index % queues}" for index in range(len(units))]


def test_issue_cycles_delay_every_load_of_a_queue() -> None:
    assert dma(dma__issue_cycles=0) < dma(dma__issue_cycles=5) < dma(dma__issue_cycles=50)
    one = mapped(small(dma__issue_cycles=7), gemm_trace(4, 4, 4), (4, 4, 4))
    assert run(one).served[one.kind == LOAD].tolist() == [
        7,
        16,
    ]  # the second is issued when the first, of two cycles, is served


def test_latency_is_paid_once_by_a_stream_of_loads() -> None:
    near, far = (dma(dram__latency_ns=nanoseconds) for nanoseconds in (0, 100))
    assert near + 100 <= far < near + 100 * (compile_program(small(), TRACE, mapping=TILES).kind == LOAD).sum()


def test_second_matmuls_weights_load_while_the_first_one_computes() -> None:
    program = compile_program(small(dram__bandwidth_gbps=64), TRACE, mapping=TILES)
    timeline = run(program)
    second = np.flatnonzero((program.kind == LOAD) & (program.op == 1))[0]
    assert timeline.start[second] < timeline.start[(program.kind == STREAM) & (program.op == 0)].max()
