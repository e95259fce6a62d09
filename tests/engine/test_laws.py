"""What holds for the Timeline of any Program, checked from the definitions alone."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from accelsim.compile.program import LOAD, STORE, Program
from accelsim.engine import run
from accelsim.engine.random_programs import random_program
from accelsim.engine.service import service_times
from accelsim.engine.timeline import Timeline

programs = st.randoms(use_true_random=False).map(random_program)
served_programs = programs.filter(lambda program: program.memory.model != "command")


@given(programs)
def test_a_task_starts_as_soon_as_its_unit_and_edges_allow_and_no_sooner(program: Program) -> None:
    timeline = run(program)
    events = (timeline.start, timeline.released, timeline.done)
    unit_free = [0] * len(program.units)
    for task in range(program.size):
        allowed = [unit_free[program.unit[task]]]
        for edge in range(program.edge_begin[task], program.edge_begin[task + 1]):
            time = events[program.edge_event[edge]][program.edge_producer[edge]]
            allowed.append(int(time + program.edge_lag[edge]))
        assert timeline.start[task] == max(allowed)
        unit_free[program.unit[task]] = int(timeline.released[task])


@given(programs)
def test_fixed_durations_and_the_total(program: Program) -> None:
    timeline = run(program)
    fixed = ~program.is_memory
    assert (timeline.released - timeline.start == program.occupy)[fixed].all()
    assert (timeline.done - timeline.start == program.latency)[fixed].all()
    assert (timeline.served[fixed] == -1).all()
    assert (timeline.served[~fixed] >= timeline.start[~fixed]).all()
    if program.memory.model == "command":
        assert timeline.total >= timeline.done.max(initial=0)
    else:
        assert timeline.total == timeline.done.max(initial=0)


@given(programs.filter(lambda program: program.memory.model == "command"))
def test_commands_lose_no_transaction_and_stores_are_done_when_released(program: Program) -> None:
    timeline, system = run(program), program.memory.system
    assert timeline.dram is not None
    assert system is not None
    size = system.device.geometry.transaction_bytes
    asked = 0
    for task in program.is_memory.nonzero()[0]:
        begins = [int(program.address[task] + row * program.pitch[task]) for row in range(program.rows[task])]
        asked += sum((begin + int(program.row_bytes[task]) - 1) // size - begin // size + 1 for begin in begins)
        assert timeline.served[task] >= timeline.start[task] + program.memory.issue_cycles
        assert timeline.released[task] >= timeline.served[task]
        if program.kind[task] == STORE:
            assert timeline.done[task] == timeline.released[task]
        else:
            assert timeline.done[task] >= timeline.released[task]
    dram = timeline.dram
    assert asked == dram.bus_bytes // size + dram.forwarded + dram.coalesced
    assert dram.bus_overlaps == 0


@given(served_programs)
def test_the_server_takes_requests_in_the_order_presented_and_loses_no_time(program: Program) -> None:
    timeline, memory = run(program), program.memory
    issue = 0 if memory.model == "ideal" else memory.issue_cycles
    requests = sorted((int(timeline.start[task]) + issue, task) for task in program.is_memory.nonzero()[0])
    free = Fraction(0)
    for presented, task in requests:
        service = _service(program, task)
        begin = Fraction(presented) if service == 0 else max(free, Fraction(presented))
        free = begin + service if service else free
        _assert_served(program, timeline, task, begin, begin + service)


@given(served_programs)
def test_no_more_bytes_than_the_rates_allow(program: Program) -> None:
    timeline = run(program)
    requests = program.is_memory.nonzero()[0]
    work = sum((_service(program, task) for task in requests), Fraction(0))
    if work:
        assert work <= timeline.released[requests].max() - timeline.served[requests].min()


def _service(program: Program, task: int) -> Fraction:
    memory = program.memory
    if memory.model == "pattern":
        return service_times(program).of(task)
    rate = memory.load_bytes_per_cycle if program.kind[task] == LOAD else memory.store_bytes_per_cycle
    unlimited = memory.model == "ideal" or rate is None
    return Fraction(0) if unlimited else int(program.request_bytes[task]) / rate


def _assert_served(program: Program, timeline: Timeline, task: int, begin: Fraction, end: Fraction) -> None:
    latency = program.memory.latency_cycles if program.kind[task] == LOAD else 0
    assert timeline.served[task] == floor(begin)
    assert timeline.released[task] == ceil(end)
    assert timeline.done[task] == ceil(end) + (0 if program.memory.model == "ideal" else latency)
