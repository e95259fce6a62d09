"""The search: it finds what an exhaustive one finds, on every objective, dataflow and depth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compile.candidates import Candidates, MatmulCosts, Tiling, fits, single_candidate
from accelsim.compile.estimate import estimate_cycles
from accelsim.compile.plan import Planner
from accelsim.compile.score import OBJECTIVES, Prices
from accelsim.compile.search import DEPTHS, ORDERS, STEPS, Aim, Space, choice_of, heuristic_mapping, ranked_mappings
from accelsim.compile.work import MatmulWork
from accelsim.errors import InputError
from accelsim.trace.builder import gemm_trace
from tests.compile.machines import groups_of, small
from tests.compile.test_mapper import COSTS

ODD = st.sampled_from((1, 2, 3, 5, 7, 11))  # one, primes, and the array's 4 but one
PRICES = Prices(
    mac=lambda a, b, flow: {"ws": 2.0, "os": 3.0, "is": 2.5}[flow],
    counters={"scratchpad_read_bytes": 1.0, "scratchpad_write_bytes": 1.5, "accumulator_writes": 4.0},
    dram_read=40.0, dram_write=50.0, static=30.0,
)  # fmt: skip


def work_of(m: int, n: int, k: int, batch: int, dataflow: str) -> MatmulWork:
    trace, arch = gemm_trace(m, n, k, batch), small(array__dataflow=dataflow)
    work = Planner(trace, arch, {}).work(groups_of(trace, arch)[0])
    assert isinstance(work, MatmulWork)
    return work


def exhaustive(work: MatmulWork, costs: MatmulCosts, aim: Aim) -> float:
    """The least metric over every tile size, order, residency and depth, one candidate at a time in one large array."""
    view = work.view
    axes = [np.arange(1, size + 1) for size in (view.m, view.n, view.k)] + [np.array(DEPTHS)] * 2
    tm, tn, tk, a, b = (part.ravel() for part in np.meshgrid(*axes, indexing="ij"))
    best = np.inf
    for order, held in product(ORDERS, ("", "a", "b", "ab")):
        c = Candidates(work, tm, tn, tk, order, frozenset(held), costs.arrays, a, b)
        cycles = estimate_cycles(c, costs)
        metric = np.where(fits(c, costs), aim.metric(cycles, aim.energy(aim.moved(c, costs), cycles)), np.inf)
        best = min(best, float(metric.min()))
    return best


def step(metric: float) -> int:
    return ceil(log2(metric) * STEPS)


@settings(max_examples=25)
@given(
    ODD, ODD, ODD, st.integers(1, 2), st.integers(1, 2), st.sampled_from((40, 120, 400, 4096)),
    st.sampled_from(OBJECTIVES), st.lists(st.sampled_from(("ws", "os", "is")), min_size=1, max_size=3, unique=True),
)  # fmt: skip
def test_choice_costs_what_the_best_of_all_costs(
    m: int, n: int, k: int, batch: int, arrays: int, room: int, objective: str, flows: list[str]
) -> None:
    costs = replace(COSTS, scratchpad_bytes=room, accumulator_bytes=400, arrays=arrays)
    aim = Aim(objective, PRICES, ("int8", "int8"))
    works = [work_of(m, n, k, batch, flow) for flow in flows]
    best = min(exhaustive(work, costs, aim) for work in works)
    if best == np.inf:
        with pytest.raises(InputError, match="no tile of matmul"):
            ranked_mappings([Space.of(work, costs) for work in works], aim, "here")
        return
    found = ranked_mappings([Space.of(work, costs) for work in works], aim, "here")[0]
    assert step(found.metric) == step(best)
    chosen = works[flows.index(str(found.tiling.dataflow))]
    assert fits(single_candidate(chosen, found.tiling, arrays), costs)
    again = choice_of(found.tiling, Space.of(chosen, costs), aim)
    assert (again.cycles, again.metric) == pytest.approx((found.cycles, found.metric))


@settings(max_examples=20)
@given(ODD, ODD, ODD, st.integers(1, 4), st.integers(1, 4), st.sampled_from(ORDERS))
def test_more_depth_never_takes_longer_and_needs_no_less_room(
    m: int, n: int, k: int, a: int, b: int, order: tuple[str, ...]
) -> None:
    work = work_of(m, n, k, 2, "ws")
    shallow, deep = (
        single_candidate(work, Tiling(1, 2, 1, order, depth=depth), 1) for depth in ((a, b), (a + 1, b + 1))
    )
    assert estimate_cycles(deep, COSTS) <= estimate_cycles(shallow, COSTS)
    assert all(deep.slots(operand) >= shallow.slots(operand) for operand in "ab")


def test_a_single_slot_charges_loading_and_computing_in_turn() -> None:
    work, costs = work_of(8, 4, 64, 1, "ws"), replace(COSTS, b_on_chip=True)
    one, two = (
        float(estimate_cycles(single_candidate(work, Tiling(8, 4, 8, ("m", "n", "k"), depth=depth), 1), costs))
        for depth in ((1, 1), (2, 2))
    )
    load = 8 * 8 / 8 + COSTS.latency + COSTS.issue  # of a tile of a at 8 bytes a cycle
    assert one >= 8 * (load + 16)  # eight tiles, each streamed in two folds of eight rows
    assert two < 8 * load + 16 < one


def test_several_dataflows_are_tried() -> None:
    aim = Aim("energy", replace(PRICES, mac=lambda a, b, flow: {"ws": 9e3, "os": 1.0, "is": 9e3}[flow]), ("int8",) * 2)
    found = ranked_mappings([Space.of(work_of(5, 5, 5, 1, flow), COSTS) for flow in ("ws", "os")], aim, "here")
    assert found[0].tiling.dataflow == "os"


def test_a_few_are_different_orders_or_residencies() -> None:
    work = work_of(16, 24, 20, 1, "ws")
    found = ranked_mappings([Space.of(work, replace(COSTS, scratchpad_bytes=300))], Aim(), "here", few=4)
    assert len(found) >= 4
    assert len({(choice.tiling.order, choice.tiling.resident) for choice in found}) == len(found)
    assert [choice.rank for choice in found] == sorted(choice.rank for choice in found)


def test_heuristic_keeps_two_slots_and_is_never_estimated_better() -> None:
    space = Space.of(work_of(13, 17, 19, 1, "ws"), replace(COSTS, scratchpad_bytes=300))
    tiling, _ = heuristic_mapping(space, "here")
    assert tiling.depth == (2, 2)
    usual, best = choice_of(tiling, space, Aim()), ranked_mappings([space], Aim(), "here")[0]
    assert step(best.metric) <= step(usual.metric)


def test_operand_held_whole_is_loaded_before_the_second_sweep() -> None:
    """Many sweeps of small tiles wait for all of b in the first one; few sweeps compute while it is loaded."""
    work, costs = work_of(64, 4, 256, 1, "ws"), replace(COSTS, scratchpad_bytes=10**6, load_rate=Fraction(1))
    many, few = (
        float(estimate_cycles(single_candidate(work, Tiling(tm, 4, 4, ("m", "n", "k"), frozenset("b")), 1), costs))
        for tm in (4, 32)
    )
    array, b, memory = 64 * 64, 4 * 256, 64 * 256 + 4 * 256 + 64 * 4 / 8
    assert array < memory <= few < many  # bytes over bandwidth bound both
    costs = replace(costs, a_on_chip=True)
    many = float(estimate_cycles(single_candidate(work, Tiling(4, 4, 4, ("m", "n", "k"), frozenset("b")), 1), costs))
    assert many >= b + array * 15 / 16
