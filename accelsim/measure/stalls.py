"""What a waiting unit waited for: every cycle of a gap between two tasks is charged to one cause (DESIGN 4.5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import BREAKDOWN, CAUSES, UNIT_CAUSES, Program
from accelsim.engine.timeline import Timeline
from accelsim.errors import InternalError
from accelsim.jit import inner, kernel
from accelsim.measure.binding import queue_predecessors

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_DMA_ISSUE = CAUSES.index("dma_issue")
_SCRATCHPAD = CAUSES.index("scratchpad")
_OWN_LATENCY = CAUSES.index("own_latency")


def issue_parts(program: Program, timeline: Timeline) -> Int64:
    """[n] cycles that each memory task spends being issued, at the begin of its occupy; 0 for any other task."""
    occupied = timeline.released - timeline.start
    return np.where(program.is_memory, np.minimum(program.memory.issue_cycles, occupied), 0)


def charge_stalls(program: Program, timeline: Timeline, bound: Int32) -> Int64:
    """[units, len(CAUSES)] stall cycles of each unit by cause; `bound` is `binding_producers` of the same run.

    The gap before a task is walked backward from the task's binding producer: the cycles while that producer ran are
    charged to its unit's cause, those before its start recurse into what bound it, down to the gap's first cycle.

    The work is at most O(units x tasks): the walk goes back in time, so within a gap it meets a task once, and only a
    task that starts inside the gap lets it go on; the gaps of one unit do not overlap, so a task is passed at most once
    a unit. In practice most gaps are short and the walk is nearer O(tasks).
    """
    stalls = np.zeros((len(program.units), len(CAUSES)), np.int64)
    scratchpad = np.ascontiguousarray(program.breakdown[:, BREAKDOWN.index("scratchpad")])
    causes = np.array([_cause_of(unit.kind) for unit in program.units], np.int64)
    unbound = _walk_gaps(
        queue_predecessors(program), bound, program.unit, causes, issue_parts(program, timeline), scratchpad,
        timeline.start, timeline.released, stalls,
    )  # fmt: skip
    if unbound >= 0:
        raise InternalError(f"the stall before task {unbound} has no producer to charge it to")
    return stalls


def _cause_of(unit_kind: str) -> int:
    if unit_kind not in UNIT_CAUSES:
        raise InternalError(f"no stall cause is defined for a unit of kind {unit_kind!r}")
    return CAUSES.index(UNIT_CAUSES[unit_kind])


@inner
def _overlap(begin: int, end: int, other_begin: int, other_end: int) -> int:
    """Cycles that two half-open intervals share."""
    return max(0, min(end, other_end) - max(begin, other_begin))


@kernel
def _walk_gaps(
    predecessor: Int32,
    bound: Int32,
    unit: Int32,
    causes: Int64,
    issue: Int64,
    scratchpad: Int64,
    start: Int64,
    released: Int64,
    stalls: Int64,
) -> int:
    """Charge the gap before each task; return the first task whose walk found no producer, -1 when there is none.

    For each gap: (1) from its last cycle go to the producer that bound the task; (2) a task of the same unit takes all
    that is left as own latency; (3) else charge the producer's cycles in the gap, its issue part and its scratchpad
    part (the last of its occupy) apart; (4) go on at its start with what bound it.
    """
    for task in range(bound.size):
        begin = released[predecessor[task]] if predecessor[task] >= 0 else 0
        cursor = start[task]
        own = unit[task]
        producer = bound[task]
        while cursor > begin:
            if producer < 0:
                return task
            if unit[producer] == own:
                stalls[own, _OWN_LATENCY] += cursor - begin
                break
            first = max(begin, start[producer])
            issuing = _overlap(first, cursor, start[producer], start[producer] + issue[producer])
            fetching = _overlap(first, cursor, released[producer] - scratchpad[producer], released[producer])
            stalls[own, _DMA_ISSUE] += issuing
            stalls[own, _SCRATCHPAD] += fetching
            stalls[own, causes[unit[producer]]] += cursor - first - issuing - fetching
            cursor = first
            producer = bound[producer]
    return -1
