"""The two memory models, on Programs small enough to work out by hand."""

from __future__ import annotations

import pytest

from accelsim.compile.program import DONE, Memory
from accelsim.engine import ENGINES, run
from accelsim.engine.random_programs import ProgramBuilder
from tests.engine.programs import bandwidth, core, tile_chain

both_engines = pytest.mark.parametrize("engine", ENGINES)


@both_engines
def test_ideal_memory_takes_no_time_whatever_else_is_set(engine: str) -> None:
    builder, unit = core(Memory("ideal", None, None, latency_cycles=100, issue_cycles=9))
    load = builder.request(unit["load"], 10**9)
    work = builder.task(unit["vector"], 5, 7, edges=[(load, DONE, 0)])
    builder.request(unit["store"], 10**9, edges=[(work, DONE, 0)])
    timeline = run(builder.program(), engine)
    assert timeline.start.tolist() == [0, 0, 7]
    assert timeline.done.tolist() == [0, 7, 7]
    assert timeline.served.tolist() == [0, -1, 7]


@both_engines
def test_the_server_keeps_fractions_of_a_cycle(engine: str) -> None:
    """At 7/3 bytes a cycle a byte takes 3/7 cycle: seven loads of one byte on seven queues end at ceil(3 i / 7)."""
    builder = ProgramBuilder(bandwidth("7/3", latency=10))
    for index in range(7):
        builder.request(builder.unit(f"core0.load{index}", "load"), 1)
    timeline = run(builder.program(), engine)
    assert timeline.released.tolist() == [1, 1, 2, 2, 3, 3, 3]
    assert timeline.served.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert timeline.total == 13


@both_engines
def test_a_queue_presents_its_next_request_at_a_whole_cycle_after_the_issue(engine: str) -> None:
    builder, unit = core(bandwidth("2/3", latency=4, issue=2))
    for _ in range(2):
        builder.request(unit["load"], 1)
    timeline = run(builder.program(), engine)
    assert timeline.served.tolist() == [2, 6]
    assert timeline.released.tolist() == [4, 8]  # 2 + 1.5 and 6 + 1.5, rounded up
    assert timeline.done.tolist() == [8, 12]


@both_engines
def test_requests_of_one_cycle_are_served_by_id(engine: str) -> None:
    """Task 3 comes to the server in cycle 0 after a chain of zero-time work, and still goes before task 4."""
    builder, unit = core(bandwidth(1))
    other = builder.unit("core0.load1", "load")
    quick = builder.task(unit["vector"], 0)
    quick = builder.task(unit["stream"], 0, edges=[(quick, DONE, 0)])
    quick = builder.task(unit["drain"], 0, edges=[(quick, DONE, 0)])
    builder.request(unit["load"], 10, edges=[(quick, DONE, 0)])
    builder.request(other, 10)
    timeline = run(builder.program(), engine)
    assert timeline.served[3:].tolist() == [0, 10]


@both_engines
def test_loads_and_stores_share_the_server_at_their_own_rates(engine: str) -> None:
    builder, unit = core(bandwidth(2, 4, latency=50))
    builder.request(unit["store"], 100)
    builder.request(unit["load"], 100)
    timeline = run(builder.program(), engine)
    assert timeline.released.tolist() == [25, 75]
    assert timeline.done.tolist() == [25, 125]


@both_engines
def test_an_unlimited_direction_does_not_queue(engine: str) -> None:
    builder, unit = core(bandwidth(1, None, latency=3, issue=1))
    builder.request(unit["load"], 100)
    builder.request(unit["store"], 100)
    timeline = run(builder.program(), engine)
    assert timeline.released.tolist() == [101, 1]
    assert timeline.served.tolist() == [1, 1]


@both_engines
@pytest.mark.parametrize("latency", [0, 100])
def test_unlimited_and_very_fast_memory_agree_within_a_cycle_a_load(engine: str, latency: int) -> None:
    tiles = 50
    unlimited = run(tile_chain(tiles, bandwidth(None, latency=latency)), engine)
    fast = run(tile_chain(tiles, bandwidth(10**12, latency=latency)), engine)
    requests = 3 * tiles
    assert 0 <= fast.total - unlimited.total <= requests


def test_no_stall_with_unlimited_memory_without_latency() -> None:
    unlimited = run(tile_chain(50, bandwidth(None)))
    assert unlimited.equals(run(tile_chain(50, Memory("ideal"))))


@both_engines
def test_an_empty_program_takes_no_time(engine: str) -> None:
    for memory in (Memory("ideal"), bandwidth(64)):
        timeline = run(core(memory)[0].program(), engine)
        assert timeline.total == 0
        assert timeline.start.size == 0
