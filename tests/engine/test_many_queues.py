"""Many queues that wait for the memory at once are served in the order presented, ties by id, by both engines."""

from __future__ import annotations

import random

import pytest

from accelsim.compile import compile_program
from accelsim.compile.program import Program
from accelsim.engine.random_programs import compare
from accelsim.trace.builder import gemm_trace
from tests.compile.machines import entry, small


def many_queues(seed: int) -> Program:
    """A matmul of small tiles whose loads and stores fill up to 24 queues of a slow memory."""
    choose = random.Random(seed)
    arch = small(
        dma__load_queues=choose.randint(12, 24),
        dma__store_queues=choose.randint(3, 9),
        dma__issue_cycles=choose.choice((0, 3, 17)),
        dram__model="bandwidth",
        dram__bandwidth_gbps=choose.choice((1, 3, 7)),
        scratchpad__capacity_kib=64,
    )
    tile = [choose.randint(3, 9) for _ in range(3)]
    return compile_program(arch, gemm_trace(25, 27, 29), mapping=entry(tile, choose.sample("mnk", 3)))


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_serve_many_queues_in_the_same_order(seed: int) -> None:
    comparison = compare(many_queues(seed), f"many queues {seed}")
    assert comparison.difference is None
    assert comparison.tasks > 80
