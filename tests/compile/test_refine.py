"""Refinement: a matmul simulated alone is never slower than the heuristic's, and near the best of all candidates."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from accelsim.api import gemm, judge_of, simulate
from accelsim.compile import compile_program, mapper
from accelsim.compile.candidates import Tiling
from accelsim.compile.mapper import forget
from accelsim.compile.program import OperatorPlan, Program
from accelsim.compile.refine import WORTH, refined
from accelsim.compile.score import Judge, Score, check_objective, check_refine
from accelsim.compile.search import ORDERS, Choice
from accelsim.engine import run
from accelsim.errors import InputError
from accelsim.trace.builder import gemm_trace
from accelsim.trace.model import Trace
from tests.compile.machines import bert_tiny, entry, shipped_arch, small

ARCHS = (
    "tpu_like",
    "tpu_like_softmax",
    "gemmini_16",
    "gemmini_16_norm",
    "edge_32",
    "tpu_v1",
    "tpu_v4i",
    "scalesim_like",
)
GEMMS = ((1, 1, 1), (1, 257, 33), (129, 127, 65), (37, 300, 1000), (512, 16, 48))


@pytest.fixture
def heuristic_only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the mapper see nothing but the heuristic's choice."""

    def only() -> None:
        monkeypatch.setattr(
            mapper, "ranked_mappings", lambda spaces, aim, where, few=1: [_usual(spaces[0], aim, where)]
        )
        forget()

    yield only
    monkeypatch.undo()
    forget()


def _usual(space: Any, aim: Any, where: str) -> Choice:
    return mapper.choice_of(mapper.heuristic_mapping(space, where)[0], space, aim)


def alone(arch: Any, trace: Trace, optimize: str = "time") -> dict[int, Score]:
    """The score of each matmul simulated alone, as the mapper saw it last."""
    found: dict[int, Score] = {}
    judge, whole = judge_of(arch, trace, optimize, 4), judge_of(arch, trace, "energy")

    def score(program: Program) -> Score:
        result = judge.score(program)  # type: ignore[misc]
        seen[program.plans[0].op, result.cycles] = whole.score(program)  # type: ignore[misc]  # static energy too
        return result

    seen: dict[tuple[int, int], Score] = {}
    program = compile_program(arch, trace, judge=Judge(optimize, judge.prices, score, 4))
    for plan in program.plans:
        if plan.tile and (plan.op, plan.simulated_cycles) in seen:
            found[plan.op] = seen[plan.op, int(plan.simulated_cycles or 0)]
    return found


@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize("sizes", [*GEMMS, None])
def test_no_operator_alone_is_slower_than_with_the_heuristic(
    name: str, sizes: tuple[int, int, int] | None, heuristic_only: Any
) -> None:
    arch = shipped_arch(name, dram__model="bandwidth")
    trace = gemm_trace(*sizes) if sizes else bert_tiny()
    forget()
    chosen = alone(arch, trace)
    heuristic_only()
    usual = alone(arch, trace)
    assert chosen
    assert chosen.keys() == usual.keys()
    assert all(chosen[op].cycles <= usual[op].cycles for op in chosen)


@pytest.mark.parametrize("name", ["gemmini_16", "edge_32", "tpu_v1"])
@pytest.mark.parametrize("sizes", GEMMS)
def test_an_objective_gets_what_it_asks_for(name: str, sizes: tuple[int, int, int]) -> None:
    arch, trace = shipped_arch(name, dram__model="bandwidth"), gemm_trace(*sizes)
    scores = {}
    for objective in ("time", "energy", "edp"):
        forget()
        scores[objective] = alone(arch, trace, objective)[0]
    product_of = {objective: score.cycles * score.energy_pj for objective, score in scores.items()}
    slack = 1 + 1e-9
    assert scores["energy"].energy_pj <= scores["time"].energy_pj * slack
    assert product_of["edp"] <= min(product_of.values()) * slack


@pytest.mark.parametrize("sizes", [(3, 4, 5), (5, 4, 3), (1, 5, 8)])
@pytest.mark.parametrize("machine", [{}, {"scratchpad__capacity_kib": 0.0625, "array__dataflow": "os"}])
def test_choice_is_near_the_best_of_all_candidates_simulated(sizes: tuple[int, int, int], machine: Any) -> None:
    arch, trace = small(**machine), gemm_trace(*sizes)
    forget()
    chosen = run(compile_program(arch, trace, judge=judge_of(arch, trace, refine=1000))).total
    tiles = product(*(range(1, size + 1) for size in sizes))
    best = min(time for tile in tiles for time in times(arch, trace, tile))
    assert chosen <= best / (1 - WORTH)


@pytest.mark.parametrize(
    ("sizes", "machine"),
    [((17, 18, 19), {"scratchpad__capacity_kib": 0.25}), ((33, 5, 40), {"scratchpad__capacity_kib": 0.5})],
)
def test_usual_number_of_candidates_is_near_the_best_too(sizes: tuple[int, int, int], machine: Any) -> None:
    """Of the tiles of powers of two, which are many enough; depths of the mapper's own may be better than any."""
    arch, trace = small(**machine), gemm_trace(*sizes)
    forget()
    chosen = run(compile_program(arch, trace, judge=judge_of(arch, trace))).total
    tiles = product(*(sorted({min(size, 2**power) for power in range(7)}) for size in sizes))
    best = min(time for tile in tiles for time in times(arch, trace, tile))
    assert chosen <= best / (1 - WORTH)


def times(arch: Any, trace: Trace, tile: tuple[int, ...]) -> list[int]:
    """Simulated cycles of a tile in every order and residency, where it fits."""
    found = []
    for order, held in product(ORDERS, ("", "a", "b", "ab")):
        try:
            found.append(run(compile_program(arch, trace, mapping=entry(tile, order, held))).total)
        except InputError:
            continue
    return found


def test_simulated_alone_is_what_the_run_of_one_matmul_takes() -> None:
    arch = shipped_arch("edge_32", dram__model="pattern")
    result = gemm(arch, 100, 200, 300)
    (plan,) = result.data["program"]["tiles"]
    assert plan["simulated_cycles"] == result.cycles
    assert plan["distance"] == result.cycles / plan["bound_cycles"] >= 1


@pytest.mark.parametrize("name", ARCHS)
def test_bound_holds(name: str) -> None:
    forget()
    program = compile_program(shipped_arch(name), bert_tiny(), judge=judge_of(shipped_arch(name), bert_tiny()))
    simulated = [plan for plan in program.plans if plan.simulated_cycles is not None]
    assert simulated
    assert all(0 < plan.bound_cycles <= int(plan.simulated_cycles or 0) for plan in simulated)


def test_the_same_matmul_is_searched_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    arch, trace = small(), gemm_trace(9, 10, 11)
    forget()
    first = simulate(arch, trace).data["program"]
    monkeypatch.setattr(mapper, "ranked_mappings", None)
    assert simulate(arch, trace).data["program"] == first
    with pytest.raises(TypeError):
        simulate(arch, trace, optimize="energy")


def test_nothing_is_simulated_where_nobody_asks() -> None:
    forget()
    result = gemm(small(), 9, 10, 11, refine=0)
    assert result.data["program"]["tiles"][0]["simulated_cycles"] is None
    assert result.data["provenance"]["arguments"]["refine"] == 0


def test_within_half_a_percent_the_other_metric_decides() -> None:
    scores = {1: Score(1000, 50.0), 2: Score(1004, 40.0), 3: Score(1006, 10.0), 4: Score(2000, 60.0)}
    choices = [Choice(Tiling(index, 1, 1, ("m", "n", "k")), 500.0, 1.0, (500.0,) * 4) for index in scores]
    best = refined(choices, choices[3:], 1, Judge(refine=9), lambda t: t.tm, lambda t: scores[t.tm])
    assert best.choice.tiling.tm == 2
    usual = refined(choices, choices[:1], 1, Judge(refine=9), lambda t: t.tm, lambda t: scores[t.tm])
    assert usual.choice.tiling.tm == 1  # never slower than the heuristic one


def test_unknown_objectives_and_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown objective.*speed.*time, energy, edp"):
        check_objective("speed")
    for wrong in (-1, 1.5, True, "2", 10**6):
        with pytest.raises(InputError, match="--refine"):
            check_refine(wrong)


def test_plan_of_other_kinds_has_no_bound() -> None:
    assert OperatorPlan(0).distance is None
