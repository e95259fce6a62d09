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

from typing import Any

import numpy as np

from accelsim.compile.program import DONE, LOAD, RELEASED, START, Int64, Program
from accelsim.engine.commanded import expected_seconds, finish, memory_of, queue_numbers, sweep_commands
from accelsim.engine.deadlock import deadlock
from accelsim.engine.limits import check
from accelsim.engine.server import REQUEST, SERVER, serve_first, submit
from accelsim.engine.service import QUEUED, rate_of, service_times
from accelsim.engine.timeline import Progress, Timeline
from accelsim.engine.units import (
    NOBODY,
    UNKNOWN,
    State,
    Tasks,
    fill_queues,
    run_ahead,
    state_of,
    tasks_of,
    turn_to_next,
    wake,
    work,
)  # fmt: skip
from accelsim.jit import COMPILING, is_cold, kernel

LONG = 10  # seconds of a run that is announced

# A direction of the DRAM (LOAD, STORE): a request without limit takes `cycles` (QUEUED: the memory finds its times);
# `latency` cycles pass from the end of service to the task's end.
DIRECTION = np.dtype([("cycles", "i8"), ("latency", "i8")])


def run(program: Program, progress: Progress | None = None, name: str = "program") -> Timeline:
    """Simulate `program` with Numba. Raises as `engine.run`."""
    check(program, name)
    tasks, state, directions = tasks_of(program), state_of(program), _directions(program)
    chosen: Any = sweep if (directions.cycles == QUEUED).any() else fixed_pass
    if program.memory.model == "command":
        chosen = sweep_commands
    if progress is not None:
        _announce(program, chosen, progress)
    if chosen is sweep_commands:
        return _run_commands(program, tasks, state, directions)
    if chosen is sweep or not fixed_pass(tasks, state.times, state.served, directions):
        _serve(program, tasks, state, directions)
    start, released, done = _known(program, state)
    return Timeline(start, released, done, state.served, total=int(done.max(initial=0)))


def _announce(program: Program, chosen: Any, progress: Progress) -> None:
    """Say what there is to wait for before it begins."""
    if is_cold(chosen):
        progress(COMPILING)
    if chosen is sweep_commands and (seconds := expected_seconds(program)) > LONG:
        progress(f"running every DRAM command will take about {seconds:,.0f} s; dram.model pattern is far faster...")


def _run_commands(program: Program, tasks: Tasks, state: State, directions: Any) -> Timeline:
    memory = memory_of(program)
    sweep_commands(
        tasks, state, memory, program.requests, queue_numbers(program), directions, program.memory.issue_cycles
    )
    return finish(program, memory, _known(program, state), state.served)


def _serve(program: Program, tasks: Tasks, state: State, directions: Any) -> None:
    service, server = service_times(program), np.recarray(1, SERVER)
    server[0] = (service.per_cycle, 0, 0, 0, 0, 0, 0)
    requests = np.zeros(len(program.units), REQUEST).view(np.recarray)  # a heap: a unit presents one at a time
    sweep(tasks, state, service.cycles, service.ticks, server, requests, directions, program.memory.issue_cycles)


def _known(program: Program, state: State) -> Int64:
    """The times of all tasks; a task that could never start means a deadlock."""
    if state.times.min(initial=0) == UNKNOWN:
        raise deadlock(program, state.times)
    return state.times


def _directions(program: Program) -> Any:
    """[2] DIRECTION: loads and stores; under `ideal` both are unlimited and without latency."""
    memory, directions = program.memory, np.zeros(2, DIRECTION).view(np.recarray)
    if memory.model != "ideal":
        for kind in range(2):
            unlimited = memory.model == "bandwidth" and rate_of(memory, kind) is None
            directions[kind].cycles = memory.issue_cycles if unlimited else QUEUED
        directions[LOAD].latency = memory.latency_cycles
    return directions


@kernel
def fixed_pass(tasks: Tasks, times: Int64, served: Int64, directions: Any) -> bool:
    """Without a server: all times in one pass in id order. False at an edge from a higher id: `sweep` can do that."""
    free = np.zeros(tasks.unit.max() + 1 if tasks.unit.size else 0, np.int64)
    for task in range(tasks.unit.size):
        unit = tasks.unit[task]
        ready = free[unit]
        for edge in range(tasks.edge_begin[task], tasks.edge_begin[task + 1]):
            producer = tasks.edge_producer[edge]
            if producer >= task:
                return False
            ready = max(ready, times[tasks.edge_event[edge], producer] + tasks.edge_lag[edge])
        work(tasks, times, served, directions, task, ready)
        free[unit] = times[RELEASED, task]
    return True


@kernel
def sweep(
    tasks: Tasks, state: State, service_cycles: Int64, service_ticks: Int64, server_array: Any, requests: Any,
    directions: Any, issue: int,
) -> None:  # fmt: skip
    """With a server. Tasks that can never start keep unknown times.

    Phases: (1) fill the queues, wake all units; (2) each unit that is awake runs ahead until it is blocked, by an
    unknown time or by its own request; (3) the server takes one request, and its unit and those that waited for it
    wake; back to (2) until no request is waiting.
    """
    times, served, queue, waiter, stack, units = state
    server = server_array[0]
    awake = fill_queues(tasks.unit, tasks.edge_begin, queue, stack, units)
    while True:
        while awake > 0:
            awake, task = run_ahead(tasks, times, served, queue, waiter, stack, units, directions, awake)
            if task != NOBODY:
                submit(
                    server, requests, task, times[START, task] + issue, service_cycles[task], service_ticks[task],
                    directions[tasks.kind[task]].latency,
                )  # fmt: skip
        task = serve_first(server, requests)
        if task == NOBODY:
            return
        served[task] = server.begin
        times[RELEASED, task] = server.released
        times[DONE, task] = server.done
        unit = tasks.unit[task]
        turn_to_next(tasks.edge_begin, queue, units[unit], server.released)
        stack[awake] = unit
        awake = wake(units, waiter, stack, awake + 1, task)
