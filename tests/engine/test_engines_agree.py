"""For every Program both engines give the same Timeline."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compile.program import Memory
from accelsim.engine import compiled, random_programs, reference
from accelsim.engine.random_programs import compare, first_difference, random_program, verify
from accelsim.engine.timeline import Timeline
from tests.engine.programs import bandwidth, tile_chain


@settings(max_examples=200)
@given(st.randoms(use_true_random=False))
def test_random_programs_give_the_same_timeline(choose: random.Random) -> None:
    program = random_program(choose)
    program.check()
    assert first_difference(compiled.run(program), reference.run(program)) is None


@pytest.mark.parametrize(
    "memory",
    [Memory("ideal"), bandwidth(64, latency=100, issue=3), bandwidth("7/3", "5/11", latency=9), bandwidth(None, 16)],
    ids=["ideal", "whole", "fractions", "one unlimited"],
)
def test_a_long_chain_gives_the_same_timeline(memory: Memory) -> None:
    program = tile_chain(200, memory)
    program.check()
    assert compare(program, "chain").difference is None


def test_verify_reports_a_row_a_program_and_is_repeatable() -> None:
    rows = verify(20, seed=5)
    assert [row.name for row in rows] == [f"random {seed}" for seed in range(5, 25)]
    assert all(row.difference is None for row in rows)
    assert rows == verify(20, seed=5)
    assert {row.memory for row in rows} == {"ideal", "bandwidth", "pattern", "command"}


def test_verify_names_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(program: object) -> Timeline:
        right = reference_run(program)
        done = right.done + (np.arange(right.done.size) >= 3)
        return Timeline(right.start, right.released, done, right.served, right.total)

    program = tile_chain(2, bandwidth(64))
    reference_run = reference.run
    monkeypatch.setattr(random_programs.reference, "run", late)
    done = compiled.run(program).done[3]
    assert compare(program, "x").difference == f"task 3: done is {done} compiled, {done + 1} reference"
