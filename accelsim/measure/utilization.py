"""Where the cycles of each unit went: busy by part, stalled by cause, tail, idle. The sums are exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import BREAKDOWN, MEMORY_BREAKDOWN, Program
from accelsim.engine.timeline import Timeline
from accelsim.measure.stalls import charge_stalls, issue_parts
from accelsim.measure.sums import sum_by

Int64 = NDArray[np.int64]

BUSY_PARTS = BREAKDOWN + MEMORY_BREAKDOWN


@dataclass(frozen=True)
class UnitCycles:
    """Cycles of each unit: `busy` [units, len(BUSY_PARTS)], `stalls` [units, len(CAUSES)], `tail`, `idle` [units].

    A cycle is busy inside an occupy interval; else a stall when a later task of the unit exists; else tail while an
    earlier task's latency runs; else idle. So stall outranks tail, and each row sums to the run's total.
    """

    busy: Int64
    stalls: Int64
    tail: Int64
    idle: Int64


def unit_cycles(program: Program, timeline: Timeline, bound: NDArray[np.int32]) -> UnitCycles:
    """Account for every cycle of every unit; `bound` is `binding_producers` of the same run."""
    units = len(program.units)
    last_released = np.zeros(units, np.int64)
    last_done = np.zeros(units, np.int64)
    np.maximum.at(last_released, program.unit, timeline.released)
    np.maximum.at(last_done, program.unit, timeline.done)
    return UnitCycles(
        busy=sum_by(program.unit, _busy_parts(program, timeline), units),
        stalls=charge_stalls(program, timeline, bound),
        tail=last_done - last_released,
        idle=timeline.total - last_done,
    )


def _busy_parts(program: Program, timeline: Timeline) -> Int64:
    """[n, len(BUSY_PARTS)] parts of each task's occupy; a memory task's are issue, queue and transfer."""
    issue = issue_parts(program, timeline)
    memory = program.is_memory
    queue = np.where(memory, timeline.served - timeline.start - issue, 0)
    transfer = np.where(memory, timeline.released - timeline.served, 0)
    return np.column_stack([program.breakdown, issue, queue, transfer])
