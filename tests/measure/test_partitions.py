"""Whatever the Program, every cycle is accounted for exactly once: checked against a slow count, cycle by cycle."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compile.program import BREAKDOWN, CAUSES, DONE, START, UNIT_CAUSES
from accelsim.engine import run
from accelsim.engine.random_programs import random_program
from accelsim.errors import InternalError
from accelsim.measure.binding import binding_producers
from accelsim.measure.bounds import bounds, dependency_cycles
from accelsim.measure.critical_path import critical_path
from accelsim.measure.laws import check_timeline
from accelsim.measure.utilization import BUSY_PARTS, unit_cycles

OPERATORS = 5


def drawn_run(seed: int):
    """A random Program with random operators and scratchpad parts, and its Timeline."""
    choose = random.Random(seed)
    program = random_program(choose)
    scratchpad = np.array([choose.randint(0, int(occupy)) for occupy in program.occupy], np.int64)
    breakdown = np.zeros_like(program.breakdown)
    breakdown[:, BREAKDOWN.index("scratchpad")] = scratchpad
    breakdown[:, BREAKDOWN.index("useful")] = program.occupy - scratchpad
    op = np.array([choose.randrange(OPERATORS) for _ in range(program.size)], np.int32)
    program = replace(program, breakdown=breakdown, op=op)
    return program, run(program)


def slow_binding(program, timeline):
    """For each task the producer of its latest event, ties to the lowest id, -1 without any."""
    last_on_unit, bound = {}, []
    for task in range(program.size):
        events = []
        if program.unit[task] in last_on_unit:
            before = last_on_unit[program.unit[task]]
            events.append((int(timeline.released[before]), before))
        for edge in range(program.edge_begin[task], program.edge_begin[task + 1]):
            producer, event = int(program.edge_producer[edge]), program.edge_event[edge]
            times = timeline.start if event == START else timeline.done if event == DONE else timeline.released
            events.append((int(times[producer]) + int(program.edge_lag[edge]), producer))
        bound.append(min(events, key=lambda e: (-e[0], e[1]))[1] if events else -1)
        last_on_unit[program.unit[task]] = task
    return bound


def slow_cause(program, timeline, bound, task, cycle):
    """What unit `program.unit[task]` waited for at `cycle`, just before its `task`: the walk, for this cycle alone."""
    producer = bound[task]
    while producer >= 0 and program.unit[producer] != program.unit[task] and timeline.start[producer] > cycle:
        producer = bound[producer]
    if program.unit[producer] == program.unit[task]:
        return "own_latency"
    start, released = timeline.start[producer], timeline.released[producer]
    if program.is_memory[producer] and cycle < min(start + program.memory.issue_cycles, released):
        return "dma_issue"
    if released - program.breakdown[producer, BREAKDOWN.index("scratchpad")] <= cycle < released:
        return "scratchpad"
    return UNIT_CAUSES[program.units[program.unit[producer]].kind]


def slow_account(program, timeline):
    """For each unit its cycles counted one by one: {"busy" | cause | "tail" | "idle": cycles}."""
    bound = slow_binding(program, timeline)
    accounts = []
    for unit in range(len(program.units)):
        tasks = np.flatnonzero(program.unit == unit)
        count = dict.fromkeys(("busy", *CAUSES, "tail", "idle"), 0)
        for cycle in range(timeline.total):
            if ((timeline.start[tasks] <= cycle) & (cycle < timeline.released[tasks])).any():
                count["busy"] += 1
            elif (later := tasks[timeline.start[tasks] > cycle]).size:
                count[slow_cause(program, timeline, bound, later[0], cycle)] += 1
            else:
                count["tail" if (timeline.done[tasks] > cycle).any() else "idle"] += 1
        accounts.append(count)
    return accounts


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_every_cycle_of_a_unit_is_exactly_one_thing(seed):
    program, timeline = drawn_run(seed)
    if timeline.total > 3000:
        return
    units = unit_cycles(program, timeline, binding_producers(program, timeline))
    for unit, expected in enumerate(slow_account(program, timeline)):
        stalls = dict(zip(CAUSES, units.stalls[unit].tolist(), strict=True))
        found = {"busy": units.busy[unit].sum(), **stalls, "tail": units.tail[unit], "idle": units.idle[unit]}
        assert found == expected
        assert sum(found.values()) == timeline.total


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_critical_path_partitions_the_total(seed):
    program, timeline = drawn_run(seed)
    path = critical_path(program, timeline, binding_producers(program, timeline), OPERATORS)
    assert path.by_unit.sum() + path.write_tail == path.by_operator.sum() == timeline.total
    assert (path.cycles >= 0).all()
    assert path.write_tail == timeline.total - timeline.done.max(initial=0)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_total_is_never_below_a_bound(seed):
    program, timeline = drawn_run(seed)
    check_timeline(program, timeline)
    found = bounds(program, 0, timeline.dram)
    assert timeline.total >= max(found.dram_cycles, found.vector_cycles, found.dependency_cycles)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_dependency_cycles_are_met_when_no_two_tasks_share_a_unit(seed):
    choose = random.Random(seed)
    program = random_program(choose, max_tasks=6)
    if len(set(program.unit.tolist())) < program.size or program.is_memory.sum() > 1:
        return
    if program.memory.model == "command":  # a request alone still opens rows and waits for a refresh
        return
    assert dependency_cycles(program) == run(program).total


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_busy_parts_of_requests_are_issue_queue_and_transfer(seed):
    program, timeline = drawn_run(seed)
    units = unit_cycles(program, timeline, binding_producers(program, timeline))
    memory = program.is_memory
    ideal = program.memory.model == "ideal"
    issue = 0 if ideal else int(memory.sum()) * program.memory.issue_cycles
    assert units.busy[:, BUSY_PARTS.index("issue")].sum() == issue
    transfer = (timeline.released - timeline.served)[memory].sum()
    assert units.busy[:, BUSY_PARTS.index("transfer")].sum() == transfer


def test_a_task_that_starts_late_is_refused():
    program, timeline = next(drawn_run(seed) for seed in range(99) if drawn_run(seed)[0].size > 5)
    late = replace(timeline, start=timeline.start + np.eye(1, program.size, program.size - 1, dtype=np.int64)[0])
    with pytest.raises(InternalError, match=f"task {program.size - 1} on"):
        binding_producers(program, late)
