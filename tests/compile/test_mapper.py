"""The mapper: what it chooses fits, is never worse on a better machine, and is close to what the engine then finds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.api import simulate
from accelsim.compile import compile_program
from accelsim.compile.candidates import (
    DramRuns,
    MatmulCosts,
    Tiling,
    accumulator_slots,
    buffer_bytes,
    fits,
    single_candidate,
)
from accelsim.compile.estimate import estimate_cycles, traffic_bytes
from accelsim.compile.plan import Planner
from accelsim.compile.search import Aim, Space, candidates_of, ranked_mappings
from accelsim.compile.work import MatmulWork
from accelsim.errors import InputError
from accelsim.trace.builder import gemm_trace
from tests.compile.machines import SIZES, groups_of, shipped_arch, small

STEPS_PER_DOUBLING = 64  # of the scale on which times are compared


def work_of(m: int, n: int, k: int, batch: int = 1, **machine: object) -> MatmulWork:
    trace, arch = gemm_trace(m, n, k, batch), small(**machine)
    work = Planner(trace, arch, {}).work(groups_of(trace, arch)[0])
    assert isinstance(work, MatmulWork)
    return work


COSTS = MatmulCosts(
    scratchpad_bytes=4096, accumulator_bytes=4096, accumulator_width=4, arrays=1, a_on_chip=False, b_on_chip=False,
    staged_bytes=1, stored_bytes=1, kept_bytes=0, load_rate=Fraction(8), store_rate=Fraction(8), latency=20, issue=2,
    epilogue_cycles=0, stream_share=8, weights_share=8, runs=DramRuns(None),
)  # fmt: skip
BETTER = {  # field -> values from worse to better
    "scratchpad_bytes": (96, 200, 1024, 4096, 10**6),
    "accumulator_bytes": (64, 256, 1024, 4096, 10**6),
    "load_rate": (Fraction(1, 2), Fraction(3), Fraction(8), None),
    "store_rate": (Fraction(1, 2), Fraction(3), Fraction(8), None),
    "latency": (200, 20, 0),
    "issue": (9, 2, 0),
    "epilogue_cycles": (1000, 10, 0),
    "stream_share": (1, 3, 8, None),
    "weights_share": (1, 3, 8, None),
}


def step(cycles: float) -> int:
    return ceil(log2(cycles) * STEPS_PER_DOUBLING)


def best_mapping(work: MatmulWork, costs: MatmulCosts, where: str) -> tuple[Tiling, int]:
    """The best candidate by estimated time, and its cycles."""
    best = ranked_mappings([Space.of(work, costs)], Aim(), where)[0]
    return best.tiling, int(best.cycles)


def best_step(work: MatmulWork, costs: MatmulCosts) -> float:
    try:
        tiling, _ = best_mapping(work, costs, "here")
    except InputError:
        return float("inf")
    return step(float(estimate_cycles(single_candidate(work, tiling, costs.arrays), costs)))


@settings(max_examples=25)
@given(SIZES, SIZES, SIZES, st.integers(1, 3), st.sampled_from(("ws", "os", "is")), st.sampled_from(sorted(BETTER)))
def test_time_never_rises_with_a_better_machine(m: int, n: int, k: int, batch: int, dataflow: str, field: str) -> None:
    work = work_of(m, n, k, batch, array__dataflow=dataflow)
    steps = [best_step(work, replace(COSTS, **{field: value})) for value in BETTER[field]]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] < float("inf")


@settings(max_examples=10)
@given(SIZES, SIZES, SIZES, st.sampled_from(("ws", "os", "is")))
def test_time_never_rises_with_the_arrays_rate(m: int, n: int, k: int, dataflow: str) -> None:
    work = work_of(m, n, k, array__dataflow=dataflow)
    rates = (Fraction(1, 4), Fraction(1, 3), Fraction(1), Fraction(2))
    steps = [best_step(replace(work, array=replace(work.array, rate=rate)), COSTS) for rate in rates]
    assert steps == sorted(steps, reverse=True)


@settings(max_examples=20)
@given(SIZES, SIZES, SIZES, st.integers(1, 2), st.integers(1, 3), st.sampled_from((96, 300, 2000)))
def test_choice_fits_and_nothing_that_fits_is_a_step_faster(
    m: int, n: int, k: int, batch: int, arrays: int, room: int
) -> None:
    work, costs = work_of(m, n, k, batch), replace(COSTS, scratchpad_bytes=room, accumulator_bytes=512, arrays=arrays)
    tiling, cycles = best_mapping(work, costs, "here")
    chosen = single_candidate(work, tiling, arrays)
    assert fits(chosen, costs)
    assert buffer_bytes(chosen, costs) <= room
    assert int(accumulator_slots(chosen)) * arrays * tiling.tm * tiling.tn * 4 <= 512
    best = float(estimate_cycles(chosen, costs))
    assert abs(best - cycles) < 1
    for candidate in candidates_of(work, costs):
        times = np.where(fits(candidate, costs), estimate_cycles(candidate, costs), 2.0**60)
        assert step(float(times.min())) >= step(best)


def test_among_equal_times_the_fewest_bytes_win() -> None:
    work, costs = work_of(64, 64, 64), replace(COSTS, load_rate=None, store_rate=None, scratchpad_bytes=10**6)
    best = single_candidate(work, best_mapping(work, costs, "here")[0], 1)
    cycles, chosen = float(estimate_cycles(best, costs)), int(traffic_bytes(best, costs)[0])
    for candidate in candidates_of(work, costs):
        equal = fits(candidate, costs) & (estimate_cycles(candidate, costs) <= cycles)
        loads = np.broadcast_to(traffic_bytes(candidate, costs)[0], equal.shape)
        assert not equal.any() or int(loads[equal].min()) >= chosen


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("sizes", [(512, 512, 512), (49, 1024, 1024), (1, 256, 768)])
def test_traffic_is_compulsory_where_everything_fits(dataflow: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    arch = shipped_arch("edge_32", array__dataflow=dataflow, scratchpad__capacity_kib=8192)
    program = compile_program(arch, gemm_trace(m, n, k))
    assert int(program.request_bytes.sum()) == m * k + k * n + m * n


def test_traffic_falls_to_the_compulsory_as_the_scratchpad_grows() -> None:
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024, 4096]
    traffic = []
    for kib in sizes:
        arch = shipped_arch("edge_32", scratchpad__capacity_kib=kib, dram__bandwidth_gbps=8)
        traffic.append(int(compile_program(arch, gemm_trace(512, 512, 512)).request_bytes.sum()))
    assert traffic == sorted(traffic, reverse=True)
    assert traffic[0] > traffic[-1] == 3 * 512**2


@pytest.mark.parametrize("machine", ["tpu_like", "gemmini_16", "edge_32", "tpu_v1"])
@pytest.mark.parametrize(
    "sizes", [(128, 768, 768), (512, 512, 512), (49, 1024, 1024), (256, 256, 768), (1, 1024, 1024)]
)
def test_estimate_is_near_the_simulated_time(machine: str, sizes: tuple[int, int, int]) -> None:
    """With the memory that the estimate knows: bytes over bandwidth."""
    m, n, k = sizes
    result = simulate(shipped_arch(machine, dram__model="bandwidth"), gemm_trace(m, n, k))
    assert result.program is not None
    (plan,) = result.program.plans
    assert 0.7 <= result.data["total"]["cycles"] / plan.estimated_cycles <= 1.3


def speed_up(arrays: int, m: int, n: int, k: int, batch: int = 1) -> float:
    one, many = (
        shipped_arch(
            "edge_32", array__count=count, dram__model="ideal", accumulator__capacity_kib=1024, scratchpad__ports=8
        )
        for count in (1, arrays)
    )
    before, after = (simulate(arch, gemm_trace(m, n, k, batch)).data["total"]["cycles"] for arch in (one, many))
    return float(before / after)


def test_two_arrays_are_nearly_twice_as_fast_where_the_array_is_what_limits() -> None:
    assert 1.9 <= speed_up(2, 256, 256, 256) <= 2


def test_four_arrays_are_nearly_four_times_as_fast() -> None:
    assert 3.5 <= speed_up(4, 256, 256, 256) <= 4


def test_arrays_share_the_batches_among_them() -> None:
    assert 3.5 <= speed_up(4, 128, 32, 32, batch=32) <= 4


def test_tile_that_fits_nowhere_is_refused_with_the_sizes() -> None:
    with pytest.raises(InputError, match=r"no tile of matmul 0 'gemm' fits 3 bytes of .*m=4, n=4, k=4.*enlarge"):
        compile_program(small(scratchpad__capacity_kib=0.003), gemm_trace(4, 4, 4))
    with pytest.raises(InputError, match=r"and 2 of accumulator"):
        compile_program(small(accumulator__capacity_kib=0.002), gemm_trace(4, 4, 4))


def test_sums_of_outputs_inside_the_k_loop_need_accumulator() -> None:
    work = work_of(16, 16, 16)
    inner, outer = (single_candidate(work, Tiling(4, 4, 4, order), 1) for order in (("m", "n", "k"), ("k", "m", "n")))
    assert (int(accumulator_slots(inner)), int(accumulator_slots(outer))) == (2, 16)
    assert not fits(outer, replace(COSTS, accumulator_bytes=16 * 4 * 4 * 4 - 1))
    assert fits(outer, replace(COSTS, accumulator_bytes=16 * 4 * 4 * 4))
