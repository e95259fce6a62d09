"""Placement: who stays on chip, at which address, for how long."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.api import simulate
from accelsim.compile import compile_program
from accelsim.compile.place import RESIDENT_SHARE, Placement
from accelsim.compile.program import LEVEL2_LOAD, LEVEL2_STORE, LOAD, STORE
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder, gemm_trace
from accelsim.trace.model import Trace
from tests.compile.machines import bert_tiny, chain, encoder, entry, groups_of, placement_of, shipped_arch, small


def conflicts(placement: Placement) -> list[tuple[int, int]]:
    """Residents of one space that share bytes and live at the same time."""
    found = []
    for space in (placement.scratchpad, placement.level2):
        for (a, x), (b, y) in combinations(space.items(), 2):
            if x.address < y.end and y.address < x.end and x.first <= y.last and y.first <= x.last:
                found.append((a, b))
    return found


def life(trace: Trace, tensor: int, arch_groups: tuple[object, ...]) -> tuple[int, int]:
    """Groups from the writer to the last reader."""
    touching = [
        index
        for index, group in enumerate(arch_groups)
        if tensor in {view.tensor for view in (*group.inputs, *group.outputs)}  # type: ignore[attr-defined]
    ]
    return min(touching), max(touching)


@settings(max_examples=40)
@given(
    st.sampled_from(("none", "elementwise")), st.sampled_from((0.25, 1, 2, 8)), st.sampled_from((3, 6, 13)),
    st.sampled_from((1, 2)),
)  # fmt: skip
def test_residents_never_share_bytes_and_live_from_writer_to_last_reader(
    fusion: str, kib: float, seq: int, heads: int
) -> None:
    trace, arch = encoder(seq, 4 * heads, heads, 12), small(scratchpad__capacity_kib=kib)
    placement, groups = placement_of(trace, arch, fusion), groups_of(trace, arch, fusion)
    assert conflicts(placement) == []
    for tensor, region in placement.scratchpad.items():
        assert region.bytes >= trace.tensors[tensor].bytes
        assert 0 <= region.address <= region.end <= arch.scratchpad.capacity_bytes * RESIDENT_SHARE
        first, last = life(trace, tensor, groups)
        assert region.first <= first <= last <= region.last
    for index, top in enumerate(placement.resident_top):
        alive = [r.end for r in placement.scratchpad.values() if r.first <= index <= r.last]
        assert top == max(alive, default=0)


@pytest.mark.parametrize("machine", ["tpu_like", "gemmini_16", "edge_32", "tpu_v1", "tpu_v4i"])
def test_residents_of_bert_do_not_share_bytes(machine: str) -> None:
    placement = placement_of(bert_tiny(), shipped_arch(machine))
    assert placement.scratchpad
    assert conflicts(placement) == []


def test_dram_addresses_are_aligned_and_apart() -> None:
    arch, trace = small(dram__tensor_align_bytes=512), encoder(5, 8, 2, 12)
    addresses = placement_of(trace, arch).dram_address
    spans = sorted((address, address + trace.tensors[storage].bytes) for storage, address in addresses.items())
    assert all(address % 512 == 0 for address, _ in spans)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_versions_of_a_storage_share_one_address() -> None:
    b = TraceBuilder("versions")
    w, g = b.tensor("w", (8, 8), "bf16", "weight"), b.tensor("g", (8, 8), "bf16", "input")
    new = b.tensor("new", (8, 8), "bf16", "weight", overwrites=w)
    b.op("elementwise", [w, g], [new], {"function": "add", "arity": 2})
    trace, arch = b.build(), small()
    assert len(placement_of(trace, arch).dram_address) == 2
    program = compile_program(arch, trace)
    first = program.address[program.kind == LOAD].min()
    assert program.address[program.kind == STORE].tolist() == [first]


def test_without_residency_only_what_the_trace_demands_stays_on_chip() -> None:
    trace, arch = chain((8, 8, 8), 8, final="on_chip"), small()
    names = {trace.tensors[t].name for t in placement_of(trace, arch, residency=False).scratchpad}
    assert names == {"y1"}
    assert {trace.tensors[t].name for t in placement_of(trace, arch).scratchpad} == {"y0", "y1"}


def test_resident_tensor_moves_no_bytes() -> None:
    trace, arch = chain((128, 768, 768), 128), shipped_arch("tpu_like", scratchpad__capacity_kib=4096)
    size = 128 * 768
    on, off = (compile_program(arch, trace, residency=residency) for residency in (True, False))
    assert off.request_bytes.sum() - on.request_bytes.sum() == 2 * size
    tiny = compile_program(shipped_arch("tpu_like", scratchpad__capacity_kib=64), trace)
    assert all(plan.places.get("out") != "scratchpad" for plan in tiny.plans)


@pytest.mark.parametrize("how", ["initial", "final"])
def test_required_tensor_that_does_not_fit_is_refused_by_name(how: str) -> None:
    if how == "initial":
        trace, name = gemm_trace(64, 64, 512, resident=("b",)), "b"
    else:
        trace, name = chain((8, 4096), 16, final="on_chip"), "y0"
    with pytest.raises(InputError, match=rf"tensor '{name}' is on chip in the trace but does not fit: \d+ bytes"):
        compile_program(small(), trace)
    assert placement_of(trace, small(scratchpad__capacity_kib=256)).scratchpad


def test_required_tensor_may_take_more_than_the_residents_share() -> None:
    trace = gemm_trace(4, 4, 4096, resident=("b",))  # 16 KiB minus a little for the tiles
    arch = small(scratchpad__capacity_kib=20)
    assert placement_of(trace, arch).scratchpad[1].bytes > arch.scratchpad.capacity_bytes * RESIDENT_SHARE
    assert compile_program(arch, trace).request_bytes.sum() == 4 * 4096 + 16


def test_initial_resident_is_not_loaded_and_final_resident_is_not_stored() -> None:
    trace = chain((8, 8), 8, final="on_chip")
    program = compile_program(small(), trace)
    assert (program.kind != STORE).all()
    program = compile_program(small(), gemm_trace(8, 8, 8, resident=("a", "b")))
    assert (program.kind != LOAD).all()


def test_resident_that_must_reach_dram_is_stored_once_and_read_on_chip() -> None:
    b = TraceBuilder("kept")
    x, y = b.tensor("x", (8, 8), "bf16", "input"), b.tensor("y", (8, 8), "bf16", final="dram")
    z = b.tensor("z", (8, 8), "bf16")
    b.op("gelu", [x], [y], {"approximate": "none"})
    b.op("gelu", [y], [z], {"approximate": "none"})
    program = compile_program(small(), b.build())
    assert program.plans[1].places["in0"] == "scratchpad"
    assert int(program.request_bytes[program.kind == LOAD].sum()) == 128
    assert int(program.request_bytes[program.kind == STORE].sum()) == 256


def test_second_level_takes_what_the_scratchpad_cannot_hold() -> None:
    arch, trace = shipped_arch("tpu_v4i"), chain((1024, 12288, 1024), 1024)
    size = 1024 * 12288  # 12 MiB: more than half of the scratchpad
    placement = placement_of(trace, arch)
    assert {trace.tensors[t].name for t in placement.level2} == {"y0"}
    program = compile_program(arch, trace)
    moved = {kind: int(program.request_bytes[program.kind == kind].sum()) for kind in (LEVEL2_STORE, LEVEL2_LOAD)}
    assert moved[LEVEL2_STORE] == size
    assert moved[LEVEL2_LOAD] >= size
    assert all(program.occupy[program.kind == LEVEL2_LOAD] > 0)
    without = shipped_arch("tpu_v4i", second_level="none")
    assert int(program.request_bytes[program.is_memory].sum()) < int(
        (p := compile_program(without, trace)).request_bytes[p.is_memory].sum()
    )


def test_allocations_stay_inside_every_space() -> None:
    for arch in (small(), small(scratchpad__capacity_kib=2, array__count=2), shipped_arch("tpu_v4i")):
        trace = encoder(6, 8, 2, 12)
        second = arch.second_level.capacity_bytes if arch.second_level else 0
        room = {
            "scratchpad": arch.scratchpad.capacity_bytes, "accumulator": arch.accumulator.capacity_bytes,
            "level2": second,
        }  # fmt: skip
        program = compile_program(arch, trace)
        assert {a.space for a in program.allocations} >= {"scratchpad", "accumulator"}
        assert all(a.address >= 0 and a.address + a.bytes <= room[a.space] for a in program.allocations)
        touched = np.array([[a.first_writer, a.last_reader] for a in program.allocations])
        assert (touched[:, 0] <= touched[:, 1]).all()


@pytest.mark.parametrize("kib", [0.45, 0.6, 1])
def test_next_operators_loads_wait_until_their_bytes_are_free(kib: float) -> None:
    """Operators that share nothing but the scratchpad: the law that no buffers overlap is checked by the run."""
    b = TraceBuilder("neighbours")
    for index in range(3):
        a, w = (b.tensor(f"{name}{index}", (16, 16), "int8", "input") for name in "aw")
        b.op("matmul", [a, w], [b.tensor(f"out{index}", (16, 16), "int8")])
    tiles = {op: tile for op in range(3) for tile in entry((8, 8, 8), operator=op).values()}
    arch = small(scratchpad__capacity_kib=kib, accumulator__capacity_kib=0.5, dram__bandwidth_gbps=64)
    result = simulate(arch, b.build(), mapping=tiles)
    assert result.program is not None
    sizes = [plan.buffer_bytes for plan in result.program.plans]
    assert sum(sizes) > arch.scratchpad.capacity_bytes >= max(sizes)
