"""What a choice is judged by."""

from __future__ import annotations

import pytest

from accelsim.compile import compile_program
from accelsim.compile.program import COUNTERS
from accelsim.compile.score import OBJECTIVES, Judge, Score, busiest, check_objective
from accelsim.engine import run
from accelsim.errors import InputError
from accelsim.trace.builder import gemm_trace
from tests.compile.machines import small


def test_ranks_put_first_what_is_to_be_small() -> None:
    fast, frugal = Score(10, 40.0), Score(20, 10.0)
    assert fast.rank("time") < frugal.rank("time")
    assert frugal.rank("energy") < fast.rank("energy")
    assert frugal.rank("edp") < fast.rank("edp")  # 200 against 400
    assert Score(10, 19.0).rank("edp") < frugal.rank("edp")


def test_ties_are_broken_by_the_other_measure() -> None:
    assert Score(10, 1.0).rank("time") < Score(10, 2.0).rank("time")
    assert Score(1, 10.0).rank("energy") < Score(2, 10.0).rank("energy")
    assert Score(1, 20.0).rank("edp") < Score(2, 10.0).rank("edp")


def test_an_unknown_objective_is_refused() -> None:
    assert [check_objective(name) for name in OBJECTIVES] == list(OBJECTIVES)
    with pytest.raises(InputError, match=r"unknown objective; got 'power'; use time, energy, edp"):
        check_objective("power")


def test_busiest_is_the_longest_unit_or_the_memory() -> None:
    trace = gemm_trace(24, 16, 8)
    slow, fast = (compile_program(small(dram__bandwidth_gbps=rate), trace) for rate in (0.5, 512))
    occupied = {unit: int(fast.occupy[fast.unit == unit].sum()) for unit in set(fast.unit.tolist())}
    assert busiest(fast).cycles == max(occupied.values())
    assert busiest(slow).cycles == slow.request_bytes.sum() * 2  # half a byte a cycle
    for program in (slow, fast):
        assert 0 < busiest(program).cycles <= run(program).total


def test_busiest_takes_the_bytes_moved_for_energy() -> None:
    program = compile_program(small(), gemm_trace(24, 16, 8))
    moved = sum(program.counters[:, COUNTERS.index(f"scratchpad_{way}_bytes")].sum() for way in ("read", "write"))
    assert busiest(program).energy_pj == moved + program.request_bytes.sum()


def test_a_judge_ranks_by_its_objective_and_scorer() -> None:
    program = compile_program(small(), gemm_trace(4, 4, 4))
    assert Judge("energy", score=lambda each: Score(3, 7.0)).rank(program) == (7.0, 3)
    assert Judge("time", score=lambda each: Score(3, 7.0)).rank(program) == (3, 7.0)
