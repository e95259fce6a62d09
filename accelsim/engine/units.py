"""Units and tasks as kernels see them, and how units run ahead: the part that the kernels of `compiled` share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import DONE, RELEASED, START, STORE, Int64, Program
from accelsim.jit import inlined, inner

NOBODY = -1  # no task, no unit
UNKNOWN = -1  # a time not yet computed

# A unit: its tasks are queue[head:end]; edges before `edge` let the head task start at `ready`. `next_waiter` links
# the units that wait for the same task.
UNIT = np.dtype([("head", "i8"), ("end", "i8"), ("edge", "i8"), ("ready", "i8"), ("next_waiter", "i8")])


class Tasks(NamedTuple):
    """The part of a Program that kernels read; shapes as there."""

    unit: NDArray[np.int32]
    kind: NDArray[np.int8]
    occupy: Int64
    latency: Int64
    edge_begin: Int64
    edge_producer: NDArray[np.int32]
    edge_event: NDArray[np.int8]
    edge_lag: Int64


class State(NamedTuple):
    """What a run changes. n tasks, u units."""

    times: Int64  # [3, n] start, released, done
    served: Int64  # [n]
    queue: NDArray[np.int32]  # [n] task ids, unit by unit, ascending within one
    waiter: NDArray[np.int32]  # [n] the unit that waits for this task: the first of a list
    awake: NDArray[np.int32]  # [u] a stack of the units that may go on
    units: Any  # [u] UNIT


def tasks_of(program: Program) -> Tasks:
    """The Program's arrays, in the dtypes that the kernels are compiled for."""
    dtypes = {"unit": np.int32, "kind": np.int8, "edge_producer": np.int32, "edge_event": np.int8}
    arrays = {name: np.ascontiguousarray(getattr(program, name), dtypes.get(name, np.int64)) for name in Tasks._fields}
    return Tasks(**arrays)


def state_of(program: Program) -> State:
    """The state before a run: no time is known."""
    size, units = program.size, len(program.units)
    return State(
        times=np.full((3, size), UNKNOWN, np.int64),
        served=np.full(size, UNKNOWN, np.int64),
        queue=np.empty(size, np.int32),
        waiter=np.full(size, NOBODY, np.int32),
        awake=np.empty(units, np.int32),
        units=np.zeros(units, UNIT).view(np.recarray),
    )


@inner
def fill_queues(
    unit_of: NDArray[np.int32], edge_begin: Int64, queue: NDArray[np.int32], stack: NDArray[np.int32], units: Any
) -> int:
    """Sort the tasks by unit, in id order within one, and wake all units; returns how many are awake."""
    for task in range(unit_of.size):
        units[unit_of[task]].end += 1
    begin = 0
    for unit in range(units.size):
        units[unit].head = begin
        begin += units[unit].end
        units[unit].end = units[unit].head
    for task in range(unit_of.size):
        unit = unit_of[task]
        queue[units[unit].end] = task
        units[unit].end += 1
    for unit in range(units.size):
        stack[unit] = unit
        if units[unit].head < units[unit].end:
            units[unit].edge = edge_begin[queue[units[unit].head]]
    return int(units.size)


@inlined
def unknown_producer(tasks: Tasks, times: Int64, me: Any, end: int) -> int:
    """The first producer from the unit's edge cursor on whose time is unknown, else NOBODY: `ready` is the start."""
    while me.edge < end:
        producer = tasks.edge_producer[me.edge]
        time = times[tasks.edge_event[me.edge], producer]
        if time == UNKNOWN:
            return int(producer)
        me.ready = max(me.ready, time + tasks.edge_lag[me.edge])
        me.edge += 1
    return NOBODY


@inner
def turn_to_next(edge_begin: Int64, queue: NDArray[np.int32], me: Any, released: int) -> None:
    """The unit's head task is over at `released`."""
    me.head += 1
    me.ready = released
    if me.head < me.end:
        me.edge = edge_begin[queue[me.head]]


@inner
def wake(units: Any, waiter: NDArray[np.int32], stack: NDArray[np.int32], awake: int, task: int) -> int:
    """Wake the units that wait for this task: some of its times are known now. Returns how many are awake."""
    unit = waiter[task]
    waiter[task] = NOBODY
    while unit != NOBODY:
        stack[awake] = unit
        awake += 1
        unit = units[unit].next_waiter
    return awake


@inner
def run_ahead(
    tasks: Tasks, times: Int64, served: Int64, queue: NDArray[np.int32], waiter: NDArray[np.int32],
    stack: NDArray[np.int32], units: Any, free_requests: Any, awake: int,
) -> tuple[int, int]:  # fmt: skip
    """Take a unit from the stack and let it run until it is blocked. Returns how many are awake, and its request.

    It is blocked by a producer whose time is unknown, or by a load or store that it has presented (its start is known)
    and whose end the memory must find: that task is returned, else NOBODY. `free_requests` [2] (cycles, cycles of
    latency) says which directions need no memory: those with cycles >= 0. Arrays are handed over one by one: a call
    with the whole State would count references to all its arrays, which costs more than the work.
    """
    awake -= 1
    unit = stack[awake]
    me = units[unit]
    while me.head < me.end:
        task = queue[me.head]
        producer = unknown_producer(tasks, times, me, tasks.edge_begin[task + 1])
        if producer != NOBODY:
            me.next_waiter = waiter[producer]
            waiter[producer] = unit
            break
        times[START, task] = me.ready
        kind = tasks.kind[task]
        if kind <= STORE and free_requests[kind].cycles < 0:
            return wake(units, waiter, stack, awake, task), task
        work(tasks, times, served, free_requests, task, me.ready)
        turn_to_next(tasks.edge_begin, queue, me, times[RELEASED, task])
        awake = wake(units, waiter, stack, awake, task)
    return awake, NOBODY


@inner
def work(tasks: Tasks, times: Int64, served: Int64, free_requests: Any, task: int, start: int) -> None:
    """Set the times of a task that needs no memory: a fixed one, or a request of a direction without limit."""
    kind = tasks.kind[task]
    times[START, task] = start
    if kind <= STORE:
        released = start + free_requests[kind].cycles
        served[task] = times[RELEASED, task] = released
        times[DONE, task] = released + free_requests[kind].latency
    else:
        times[RELEASED, task] = start + tasks.occupy[task]
        times[DONE, task] = start + tasks.latency[task]
