"""Says who waits for whom when no task can start any more."""

from __future__ import annotations

import numpy as np

from accelsim.compile.program import Int64, Program
from accelsim.errors import InternalError

EVENT_NAMES = ("start", "release", "end")  # of an edge's event: START, RELEASED, DONE
_SHOWN_UNITS = 8


def deadlock(program: Program, times: Int64) -> InternalError:
    """The error that names the waiting units and tasks; `times` is [3, n] (start, released, done), -1 if unknown.

    A checked Program cannot come here: each edge leads from a lower to a higher id and each queue is in that order,
    so the waiting task with the lowest id could always start.
    """
    waiting = np.flatnonzero(times[0] < 0)
    heads = {int(program.unit[task]): int(task) for task in waiting[::-1]}
    lines = [_waits_for(program, times, heads[unit]) for unit in sorted(heads)[:_SHOWN_UNITS]]
    if len(heads) > _SHOWN_UNITS:
        lines.append(f"and {len(heads) - _SHOWN_UNITS} more units")
    return InternalError(f"deadlock: {waiting.size} of {program.size} tasks can never start; {'; '.join(lines)}")


def _waits_for(program: Program, times: Int64, task: int) -> str:
    for edge in range(program.edge_begin[task], program.edge_begin[task + 1]):
        producer, event = program.edge_producer[edge], program.edge_event[edge]
        if times[event, producer] < 0:
            cause = f"the {EVENT_NAMES[event]} of task {producer} on {_unit_name(program, producer)}"
            return f"{_unit_name(program, task)} holds task {task}, which waits for {cause}"
    return f"{_unit_name(program, task)} holds task {task}"


def _unit_name(program: Program, task: int) -> str:
    return program.units[int(program.unit[task])].name
