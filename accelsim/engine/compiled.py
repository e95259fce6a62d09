"""The fast engine: the answer of `reference`, computed by Numba kernels without a global clock.

Everything but the DRAM server is max-plus: a task starts at the latest of its unit's release and its edges' events.
So a unit may run ahead as far as its producers' times are known, whatever the clock of the others.

Without a server (`ideal` memory, unlimited rates) one pass in id order does it all (`fixed_pass`). With one, `sweep`
lets every unit run ahead until it is blocked, by a producer whose time is unknown or by its own request; then the
server takes the request that was presented first, and the units that waited for it go on.

Why that request may be served although other units stand still: let (cycle c, id i) be the least of all requests
waiting at the server. A request not yet presented belongs to a unit that is blocked, at the end of a chain of edges
and queue places that begins at the release or the end of a waiting request (c', i') >= (c, i). Service takes more than
no time and c' is a whole cycle, so that release is at c' + 1 or later; lags and durations only add to it. The
request to come is therefore presented after cycle c: it can neither precede the one served nor tie with it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import DONE, LOAD, RELEASED, START, STORE, Int64, Program
from accelsim.engine.deadlock import deadlock
from accelsim.engine.limits import check, ticks_per_cycle
from accelsim.engine.timeline import Progress, Timeline
from accelsim.jit import COMPILING, is_cold, kernel

NOBODY = -1  # no task, no unit
UNKNOWN = -1  # a time not yet computed
NO_LIMIT = 2**63 - 1

# A unit: its tasks are queue[head:end]; edges before `edge` let the head task start at `ready`. `next_waiter` links
# the units that wait for the same task.
UNIT = np.dtype([("head", "i8"), ("end", "i8"), ("edge", "i8"), ("ready", "i8"), ("next_waiter", "i8")])

# A direction of the DRAM (LOAD, STORE): `bytes` take `cycles`; a remainder of that division counts `ticks` ticks a
# unit. bytes = 0: unlimited, without a queue. `latency` cycles pass from the end of service to the task's end.
DIRECTION = np.dtype([("bytes", "i8"), ("cycles", "i8"), ("ticks", "i8"), ("latency", "i8")])

# The DRAM server: free from `free_cycle` and `free_tick` (a part of a cycle) on; `waiting` requests are in its heap.
SERVER = np.dtype(
    [(name, "i8") for name in ("issue", "ticks", "free_cycle", "free_tick", "waiting", "begin", "released", "done")]
)

# A request at the server, ordered by the cycle in which it was presented, then by task.
REQUEST = np.dtype([(name, "i8") for name in ("cycle", "task", "service_cycles", "service_ticks", "latency")])


class Tasks(NamedTuple):
    """The part of a Program that kernels read; shapes as there."""

    unit: NDArray[np.int32]
    kind: NDArray[np.int8]
    occupy: Int64
    latency: Int64
    rows: Int64
    row_bytes: Int64
    edge_begin: Int64
    edge_producer: NDArray[np.int32]
    edge_event: NDArray[np.int8]
    edge_lag: Int64


class State(NamedTuple):
    """What a run changes, and the DRAM's rates. n tasks, u units; record arrays hold the types above."""

    times: Int64  # [3, n] start, released, done
    served: Int64  # [n]
    queue: NDArray[np.int32]  # [n] task ids, unit by unit, ascending within one
    waiter: NDArray[np.int32]  # [n] the unit that waits for this task: the first of a list
    awake: NDArray[np.int32]  # [u] a stack of the units that may go on
    units: Any  # [u] UNIT
    directions: Any  # [2] DIRECTION
    server: Any  # [1] SERVER
    requests: Any  # [u] REQUEST, a binary heap: a unit presents one request at a time


def run(program: Program, progress: Progress | None = None) -> Timeline:
    """Simulate `program` with Numba. Raises InternalError on a deadlock or a Program out of limits."""
    check(program)
    tasks, state = _tasks(program), _state(program)
    has_server = bool(state.directions.bytes.any())
    if progress is not None and is_cold(sweep if has_server else fixed_pass):
        progress(COMPILING)
    if has_server or not fixed_pass(tasks, state):
        sweep(tasks, state)
        if state.times.min(initial=0) == UNKNOWN:
            raise deadlock(program, state.times)
    start, released, done = state.times
    return Timeline(start, released, done, state.served, total=int(done.max(initial=0)))


def _tasks(program: Program) -> Tasks:
    dtypes = {"unit": np.int32, "kind": np.int8, "edge_producer": np.int32, "edge_event": np.int8}
    arrays = {name: np.ascontiguousarray(getattr(program, name), dtypes.get(name, np.int64)) for name in Tasks._fields}
    return Tasks(**arrays)


def _state(program: Program) -> State:
    size, units = program.size, len(program.units)
    server = np.recarray(1, SERVER)
    server[0] = (0, ticks_per_cycle(program.memory), 0, 0, 0, 0, 0, 0)
    if program.memory.model == "bandwidth":
        server[0].issue = program.memory.issue_cycles
    return State(
        times=np.full((3, size), UNKNOWN, np.int64),
        served=np.full(size, UNKNOWN, np.int64),
        queue=np.empty(size, np.int32),
        waiter=np.full(size, NOBODY, np.int32),
        awake=np.empty(units, np.int32),
        units=np.zeros(units, UNIT).view(np.recarray),
        directions=_directions(program),
        server=server,
        requests=np.zeros(units, REQUEST).view(np.recarray),
    )


def _directions(program: Program) -> Any:
    """[2] DIRECTION: loads and stores; under `ideal` both are unlimited and without latency."""
    memory, directions = program.memory, np.zeros(2, DIRECTION).view(np.recarray)
    if memory.model == "bandwidth":
        directions[LOAD] = (*_rate(memory.load_bytes_per_cycle, program), memory.latency_cycles)
        directions[STORE] = (*_rate(memory.store_bytes_per_cycle, program), 0)
    return directions


def _rate(rate: Fraction | None, program: Program) -> tuple[int, int, int]:
    if rate is None:
        return 0, 0, 0
    return rate.numerator, rate.denominator, ticks_per_cycle(program.memory) // rate.numerator


@kernel
def fixed_pass(tasks: Tasks, state: State) -> bool:
    """Without a server: all times in one pass in id order. False at an edge from a higher id: `sweep` can do that."""
    free = np.zeros(state.units.size, np.int64)
    for task in range(tasks.unit.size):
        unit = tasks.unit[task]
        ready = free[unit]
        for edge in range(tasks.edge_begin[task], tasks.edge_begin[task + 1]):
            producer = tasks.edge_producer[edge]
            if producer >= task:
                return False
            ready = max(ready, state.times[tasks.edge_event[edge], producer] + tasks.edge_lag[edge])
        free[unit] = _work(tasks, state, task, ready)
    return True


@kernel
def sweep(tasks: Tasks, state: State) -> None:
    """With a server. Tasks that can never start keep unknown times.

    Phases: (1) fill the queues, wake all units; (2) each unit that is awake runs ahead until it is blocked, by an
    unknown time or by its own request; (3) the server takes one request, and its unit and those that waited for it
    wake; back to (2) until no request is waiting. Arrays are handed to helpers one by one: a call with the whole
    `state` would count references to all its arrays, which costs more than the work.
    """
    times, served, queue, waiter, stack, units, directions, server_array, requests = state
    server = server_array[0]
    awake = _fill_queues(tasks.unit, tasks.edge_begin, queue, stack, units)
    while True:
        while awake > 0:
            awake -= 1
            unit = stack[awake]
            me = units[unit]
            while me.head < me.end:
                task = queue[me.head]
                producer = _unknown_producer(tasks, times, me, tasks.edge_begin[task + 1])
                if producer != NOBODY:
                    me.next_waiter = waiter[producer]
                    waiter[producer] = unit
                    break
                kind = tasks.kind[task]
                if kind <= STORE and directions[kind].bytes > 0:
                    times[START, task] = me.ready
                    size = tasks.rows[task] * tasks.row_bytes[task]
                    submit(server, requests, directions[kind], task, me.ready + server.issue, size)
                    awake = _wake(units, waiter, stack, awake, task)
                    break
                _turn_to_next(tasks.edge_begin, queue, me, _work(tasks, state, task, me.ready))
                awake = _wake(units, waiter, stack, awake, task)
        task = advance(server, requests, NO_LIMIT)
        if task == NOBODY:
            return
        served[task] = server.begin
        times[RELEASED, task] = server.released
        times[DONE, task] = server.done
        unit = tasks.unit[task]
        _turn_to_next(tasks.edge_begin, queue, units[unit], server.released)
        stack[awake] = unit
        awake = _wake(units, waiter, stack, awake + 1, task)


@kernel
def _fill_queues(
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


@kernel
def _unknown_producer(tasks: Tasks, times: Int64, me: Any, end: int) -> int:
    """The first producer from the unit's edge cursor on whose time is unknown, else NOBODY: `ready` is the start."""
    while me.edge < end:
        producer = tasks.edge_producer[me.edge]
        time = times[tasks.edge_event[me.edge], producer]
        if time == UNKNOWN:
            return int(producer)
        me.ready = max(me.ready, time + tasks.edge_lag[me.edge])
        me.edge += 1
    return NOBODY


@kernel
def _work(tasks: Tasks, state: State, task: int, start: int) -> int:
    """Set the times of a task that needs no server: a fixed one, or memory without limit. Returns its release."""
    kind = tasks.kind[task]
    if kind <= STORE:
        released = start + state.server[0].issue
        done = released + state.directions[kind].latency
        state.served[task] = released
    else:
        released = start + tasks.occupy[task]
        done = start + tasks.latency[task]
    state.times[START, task] = start
    state.times[RELEASED, task] = released
    state.times[DONE, task] = done
    return int(released)


@kernel
def _turn_to_next(edge_begin: Int64, queue: NDArray[np.int32], me: Any, released: int) -> None:
    """The unit's head task is over at `released`."""
    me.head += 1
    me.ready = released
    if me.head < me.end:
        me.edge = edge_begin[queue[me.head]]


@kernel
def _wake(units: Any, waiter: NDArray[np.int32], stack: NDArray[np.int32], awake: int, task: int) -> int:
    """Wake the units that wait for this task: some of its times are known now. Returns how many are awake."""
    unit = waiter[task]
    waiter[task] = NOBODY
    while unit != NOBODY:
        stack[awake] = unit
        awake += 1
        unit = units[unit].next_waiter
    return awake


@kernel
def submit(server: Any, requests: Any, direction: Any, task: int, cycle: int, size: int) -> None:
    """Present a load or store of `size` bytes to the DRAM in this cycle."""
    place = server.waiting
    server.waiting += 1
    while place > 0:
        parent = (place - 1) // 2
        if not _precedes(cycle, task, requests[parent]):
            break
        requests[place] = requests[parent]
        place = parent
    work = size * direction.cycles
    mine = requests[place]
    mine.cycle = cycle
    mine.task = task
    mine.service_cycles = work // direction.bytes
    mine.service_ticks = (work % direction.bytes) * direction.ticks
    mine.latency = direction.latency


@kernel
def advance(server: Any, requests: Any, limit: int) -> int:
    """Serve the request presented first, if by cycle `limit`: its times stand in `server`. Its task, or NOBODY.

    Service begins when the server is free, takes bytes over rate in exact ticks, and ends for the unit at the next
    whole cycle.
    """
    if server.waiting == 0 or requests[0].cycle > limit:
        return NOBODY
    first = requests[0]
    task = first.task
    if first.cycle > server.free_cycle:
        server.free_cycle = first.cycle
        server.free_tick = 0
    server.begin = server.free_cycle
    tick = server.free_tick + first.service_ticks
    carry = tick >= server.ticks
    server.free_cycle += first.service_cycles + carry
    server.free_tick = tick - server.ticks * carry
    server.released = server.free_cycle + (server.free_tick > 0)
    server.done = server.released + first.latency
    _remove_first(server, requests)
    return int(task)


@kernel
def _remove_first(server: Any, requests: Any) -> None:
    server.waiting -= 1
    last = requests[server.waiting]
    place, child = 0, 1
    while child < server.waiting:
        right = child + 1
        if right < server.waiting and _precedes(requests[right].cycle, requests[right].task, requests[child]):
            child = right
        if not _precedes(requests[child].cycle, requests[child].task, last):
            break
        requests[place] = requests[child]
        place, child = child, 2 * child + 1
    requests[place] = last


@kernel
def _precedes(cycle: int, task: int, other: Any) -> bool:
    """True if a request (cycle, task) goes before the other one."""
    return bool(cycle < other.cycle or (cycle == other.cycle and task < other.task))
