"""What each task waited for: the event that bound its start. Stalls and the critical path both walk over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import DONE, START, Program
from accelsim.engine.timeline import Timeline
from accelsim.errors import InternalError
from accelsim.jit import kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def queue_predecessors(program: Program) -> Int32:
    """[n] id of the task before each one on its unit, -1 for the first of a unit."""
    predecessor = np.empty(program.size, np.int32)
    _follow_queues(program.unit, np.full(len(program.units), -1, np.int32), predecessor)
    return predecessor


def binding_producers(program: Program, timeline: Timeline) -> Int32:
    """[n] id of the task whose event let each task start, -1 for a task that could start at cycle 0.

    It is the latest of the task's edges (event + lag) and of its queue predecessor's `released`; ties go to the lowest
    id. Raises InternalError when a task did not start at exactly that cycle: then the Timeline is not this Program's.
    """
    bound = np.empty(program.size, np.int32)
    wrong = _bind(
        queue_predecessors(program), program.edge_begin, program.edge_producer, program.edge_event, program.edge_lag,
        timeline.start, timeline.released, timeline.done, bound,
    )  # fmt: skip
    if wrong >= 0:
        unit = program.units[program.unit[wrong]].name
        raise InternalError(f"task {wrong} on {unit} starts at {timeline.start[wrong]}, not when its events allow it")
    return bound


@kernel
def _bind(
    predecessor: Int32,
    edge_begin: Int64,
    edge_producer: Int32,
    edge_event: NDArray[np.int8],
    edge_lag: Int64,
    start: Int64,
    released: Int64,
    done: Int64,
    bound: Int32,
) -> int:
    """Fill `bound`; return the first task that did not start at its latest event, -1 when there is none."""
    for task in range(bound.size):
        producer = predecessor[task]
        latest = released[producer] if producer >= 0 else 0
        for edge in range(edge_begin[task], edge_begin[task + 1]):
            candidate = edge_producer[edge]
            event = edge_event[edge]
            time = start[candidate] if event == START else done[candidate] if event == DONE else released[candidate]
            time += edge_lag[edge]
            if time > latest or (time == latest and (producer < 0 or candidate < producer)):
                latest, producer = time, candidate
        if start[task] != latest:
            return task
        bound[task] = producer
    return -1


@kernel
def _follow_queues(unit: Int32, last: Int32, predecessor: Int32) -> None:
    """Fill `predecessor`; `last` holds the latest task of each unit so far."""
    for task in range(unit.size):
        predecessor[task] = last[unit[task]]
        last[unit[task]] = task
