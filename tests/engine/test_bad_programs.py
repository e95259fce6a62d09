"""Programs that break the contract end with a message, never in a hang or a wrong number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accelsim.compile.program import DONE, RELEASED, START, Memory, Program
from accelsim.engine import ENGINES, run
from accelsim.errors import InputError, InternalError
from accelsim.hardware.dram import preset
from accelsim.hardware.dram.system import DramSystem
from tests.engine.programs import bandwidth, core, tile_chain, worked_example

both_engines = pytest.mark.parametrize("engine", ENGINES)
memories = pytest.mark.parametrize("memory", [Memory("ideal"), bandwidth(64)], ids=["ideal", "bandwidth"])


def circle(memory: Memory) -> Program:
    """Task 1 (vector) waits for the release of task 3 (load), which waits for the start of task 2 (vector)."""
    builder, unit = core(memory)
    builder.request(unit["load"], 64)
    builder.task(unit["vector"], 1, edges=[(0, DONE, 0), (3, RELEASED, 0)])
    builder.task(unit["vector"], 1)
    builder.request(unit["load"], 64, edges=[(2, START, 0)])
    return builder.program()


@both_engines
@memories
def test_a_deadlock_names_the_waiting_units_and_tasks(engine: str, memory: Memory) -> None:
    with pytest.raises(InternalError) as caught:
        run(circle(memory), engine)
    assert str(caught.value) == (
        "deadlock: 3 of 4 tasks can never start; "
        "core0.load0 holds task 3, which waits for the start of task 2 on core0.vector; "
        "core0.vector holds task 1, which waits for the release of task 3 on core0.load0"
    )


@both_engines
@memories
def test_an_edge_from_a_higher_id_runs_if_it_closes_no_circle(engine: str, memory: Memory) -> None:
    builder, unit = core(memory)
    builder.task(unit["vector"], 3, edges=[(1, DONE, 5)])
    builder.task(unit["stream"], 10, 20)
    builder.task(unit["vector"], 4)
    timeline = run(builder.program(), engine)
    assert timeline.start.tolist() == [25, 0, 28]
    assert timeline.total == 32


@both_engines
def test_a_request_that_waits_for_the_start_of_a_higher_id_still_goes_first(engine: str) -> None:
    builder, unit = core(bandwidth(1))
    other = builder.unit("core0.load1", "load")
    builder.request(other, 10, edges=[(1, START, 0)])
    builder.request(unit["load"], 10)
    assert run(builder.program(), engine).served.tolist() == [0, 10]


@both_engines
def test_a_deadlock_among_many_units_shows_the_first_of_them(engine: str) -> None:
    builder, _ = core(Memory("ideal"))
    for index in range(10):
        vector = builder.unit(f"core0.vector{index}", "vector")
        builder.task(vector, 1, edges=[(index, DONE, 0)])
    with pytest.raises(InternalError, match=r"core0.vector7 holds task 7, .*; and 2 more units$"):
        run(builder.program(), engine)


def changed(name: str, index: int, value: int) -> Program:
    program = worked_example()
    values = getattr(program, name).copy()
    values[index] = value
    return replace(program, **{name: values})


@both_engines
@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("unit", 0, 6),
        ("unit", 0, -1),
        ("kind", 3, 10),
        ("edge_producer", 0, 11),
        ("edge_producer", 0, -1),
        ("edge_event", 0, 3),
        ("edge_lag", 0, -1),
        ("occupy", 3, -1),
        ("latency", 3, -1),
        ("rows", 0, -1),
        ("row_bytes", 0, -1),
        ("edge_begin", 3, 2),
        ("edge_begin", 0, 1),
        ("edge_begin", 11, 4),
    ],
)
def test_an_entry_out_of_range_is_refused(engine: str, name: str, index: int, value: int) -> None:
    with pytest.raises(InternalError, match=f"cannot run this Program: `{name}`"):
        run(changed(name, index, value), engine)


@both_engines
def test_arrays_of_unequal_length_are_refused(engine: str) -> None:
    program = worked_example()
    for name in ("occupy", "row_bytes", "edge_lag", "edge_begin"):
        with pytest.raises(InternalError, match="cannot run this Program"):
            run(replace(program, **{name: getattr(program, name)[:-1]}), engine)


@both_engines
@pytest.mark.parametrize(
    ("memory", "law"),
    [
        (Memory("magic"), "'magic' is none of ideal, bandwidth"),
        (Memory("bandwidth", Fraction(0), Fraction(1)), "rate is not positive"),
        (Memory("bandwidth", Fraction(1), Fraction(-1)), "rate is not positive"),
        (bandwidth(1, latency=-1), "latency is negative"),
        (bandwidth(1, issue=-1), "issue time is negative"),
    ],
)
def test_memory_out_of_range_is_refused(engine: str, memory: Memory, law: str) -> None:
    with pytest.raises(InternalError, match=law):
        run(replace(worked_example(), memory=memory), engine)


def by_command(rows: int, pitch: int, address: int = 0) -> Program:
    """A read of `rows` rows through a DRAM that runs every command."""
    memory = Memory("command", Fraction(16), Fraction(16), system=DramSystem(preset("ddr4_2400"), 1000, 64))
    builder, unit = core(memory)
    builder.request(unit["load"], 64)
    where = {"rows": rows, "pitch": pitch, "address": address}
    return replace(builder.program(), **{name: np.array([value], np.int64) for name, value in where.items()})


@both_engines
@pytest.mark.parametrize(
    "program",
    [by_command(4, 2**60), by_command(1, 64, address=2**62), by_command(2, 2**61 - 2**9, address=2**10)],
    ids=["pitch", "address", "both"],
)
def test_an_address_beyond_64_bits_is_refused(engine: str, program: Program) -> None:
    with pytest.raises(InputError, match="a request ends at byte"):
        run(program, engine)


def test_an_address_just_within_is_served() -> None:
    assert run(by_command(3, 2**60)).served.tolist() == [0]


@both_engines
@pytest.mark.parametrize(
    ("memory", "what"),
    [
        (bandwidth(Fraction(2**61 - 1), Fraction(2**61 + 1)), "the memory rates need .* ticks a cycle"),
        (bandwidth(Fraction(1, 2**60)), "a request of .* bytes"),
        (bandwidth(1, latency=2**61), "the run may last"),
    ],
)
def test_memory_too_slow_for_64_bits_is_an_input_error(engine: str, memory: Memory, what: str) -> None:
    with pytest.raises(InputError, match=f"^work: {what}.*beyond 64-bit integers; use smaller sizes"):
        run(replace(worked_example(), memory=memory), engine, name="work")


@both_engines
@pytest.mark.parametrize(("name", "index"), [("edge_lag", 0), ("latency", 3), ("occupy", 3)])
def test_times_beyond_64_bits_are_an_input_error(engine: str, name: str, index: int) -> None:
    with pytest.raises(InputError, match="program: the run may last"):
        run(changed(name, index, 2**62), engine)


@both_engines
def test_a_limited_request_without_bytes_is_refused(engine: str) -> None:
    with pytest.raises(InternalError, match="has no bytes"):
        run(changed("rows", 0, 0), engine)


@both_engines
def test_large_but_safe_numbers_are_exact(engine: str) -> None:
    memory = bandwidth(Fraction(10**15 + 37, 10**3), latency=10**15)
    timeline = run(replace(tile_chain(3, memory), memory=memory), engine)
    assert timeline.done[0] == 10**15 + 1
    program = changed("latency", 3, 2**60)
    assert run(program, engine).done[3] == run(program, engine).start[3] + np.int64(2**60)


def test_an_unknown_engine_is_an_input_error() -> None:
    with pytest.raises(InputError, match="got 'fast'; use one of compiled, reference"):
        run(worked_example(), "fast")
