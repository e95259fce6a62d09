"""The part of `compiled` for `command` memory: units run ahead, the DRAM goes from one event of a task to the next.

Why the DRAM may go on to its next event although units stand still: a request not yet presented belongs to a unit that
is blocked, at the end of a chain of edges and queue places that begins at an event of a request under way. The DRAM
stops at the earliest of those, cycle e, before it looks at any clock that begins at e or later; what follows from that
event is presented at e or later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import DONE, RELEASED, START, STORE, Int64, Program
from accelsim.engine.timeline import Timeline
from accelsim.engine.units import NOBODY, State, Tasks, fill_queues, run_ahead, turn_to_next, wake
from accelsim.errors import InternalError
from accelsim.hardware.dram import dma
from accelsim.hardware.dram.system import DramSystem, memory_stats, new_memory, transactions
from accelsim.jit import kernel

TRANSACTIONS_PER_SECOND = 3e6  # of a tiled network on one core (benchmarks/)


def dram_of(program: Program) -> DramSystem:
    """The DRAM that a Program runs on. Raises InternalError when there is none."""
    if program.memory.system is None:
        raise InternalError(f"`{program.memory.model}` memory needs the DRAM that it is about")
    return program.memory.system


def expected_seconds(program: Program) -> float:
    """About how long the run takes on an ordinary computer."""
    size = dram_of(program).device.geometry.transaction_bytes
    return float(transactions(program.requests, size).sum(dtype=np.float64)) / TRANSACTIONS_PER_SECOND


def queue_numbers(program: Program) -> NDArray[np.int64]:
    """[units] the DRAM's queue of each load and store unit, in the order of the units; NOBODY for the others."""
    is_dma = np.array([unit.kind in ("load", "store") for unit in program.units], bool)
    return np.where(is_dma, np.cumsum(is_dma) - 1, NOBODY)


def memory_of(program: Program) -> dma.Memory:
    """The DRAM before a run, with a queue for each load and store unit (at least one)."""
    return new_memory(dram_of(program), max(1, int((queue_numbers(program) != NOBODY).sum())))


def finish(program: Program, memory: dma.Memory, times: Int64, served: Int64) -> Timeline:
    """Let the last writes end, run the DRAM (it is refreshed) to the end of the run, and take its counters."""
    start, released, done = times
    total = max(int(done.max(initial=0)), int(dma.drain(memory)))
    dma.advance(memory, total)
    return Timeline(start, released, done, served, total, memory_stats(dram_of(program).device, memory, total))


@kernel
def sweep_commands(
    tasks: Tasks, state: State, memory: dma.Memory, requests: Int64, queue_of: Int64, free_requests: NDArray[np.void],
    issue: int,
) -> None:  # fmt: skip
    """As `compiled.sweep`, with the DRAM by command. `requests` [4, n]: address, rows, row_bytes, pitch.

    Phases: (1) every unit that is awake runs ahead until it is blocked, and presents its request; (2) the DRAM runs to
    its next event; units that waited for it wake.
    """
    times, served, queue, waiter, stack, units = state
    channel = memory.dma[0]
    awake = fill_queues(tasks.unit, tasks.edge_begin, queue, stack, units)
    while True:
        while awake > 0:
            awake, task = run_ahead(tasks, times, served, queue, waiter, stack, units, free_requests, awake)
            if task != NOBODY:
                dma.submit(
                    memory, queue_of[tasks.unit[task]], task, times[START, task] + issue, tasks.kind[task] == STORE,
                    requests[0, task], requests[1, task], requests[2, task], requests[3, task],
                )  # fmt: skip
        if channel.pending == 0:
            return
        for place in range(dma.advance(memory, dma.last_cycle(channel))):
            event = channel.due[place]
            task = event.task
            served[task] = event.served
            if event.what == dma.DONE:
                times[DONE, task] = event.cycle
            else:
                times[RELEASED, task] = event.cycle
                unit = tasks.unit[task]
                turn_to_next(tasks.edge_begin, queue, units[unit], event.cycle)
                stack[awake] = unit
                awake += 1
            awake = wake(units, waiter, stack, awake, task)
