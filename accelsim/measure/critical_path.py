"""The chain of events that set the total: walked backward from the last `done` over what bound each task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import STORE, Program
from accelsim.engine.timeline import Timeline
from accelsim.jit import kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

WRITE_TAIL = "dram_write"  # name of the last write burst's cycles after the last `done`, which no task holds


@dataclass(frozen=True)
class CriticalPath:
    """Cycles of the critical path: `cycles` [operators, units] while a task ran, `write_tail` after the last `done`.

    `tail_operator` is the operator that the tail belongs to. All together sum to the run's total.
    """

    cycles: Int64
    write_tail: int
    tail_operator: int

    @property
    def by_unit(self) -> Int64:
        """[units] cycles, without the write tail."""
        return np.asarray(self.cycles.sum(axis=0))

    @property
    def by_operator(self) -> Int64:
        """[operators] cycles, the write tail with the operator whose data it writes."""
        cycles = np.asarray(self.cycles.sum(axis=1))
        if self.write_tail:
            cycles[self.tail_operator] += self.write_tail
        return cycles

    @property
    def bounding_units(self) -> list[int | None]:
        """For each operator the index of the unit with most of its cycles (ties to the lowest), None without any."""
        return [int(row.argmax()) if row.any() else None for row in self.cycles]


def critical_path(program: Program, timeline: Timeline, bound: Int32, operators: int) -> CriticalPath:
    """Walk back from the last `done` (ties to the lowest id); `bound` is `binding_producers` of the same run."""
    cycles = np.zeros((operators, len(program.units)), np.int64)
    if program.size == 0:
        return CriticalPath(cycles, timeline.total, 0)
    last = int(timeline.done.argmax())
    _walk(last, bound, program.unit, program.op, timeline.start, timeline.done, cycles)
    stores = np.flatnonzero(program.kind == STORE)
    tail_task = int(stores[timeline.done[stores].argmax()]) if stores.size else last
    return CriticalPath(cycles, timeline.total - int(timeline.done[last]), int(program.op[tail_task]))


@kernel
def _walk(task: int, bound: Int32, unit: Int32, operator: Int32, start: Int64, done: Int64, cycles: Int64) -> None:
    """Charge [start, cursor) of each task on the path to its operator and unit, from `done` of the last one."""
    cursor = done[task]
    while task >= 0:
        cycles[operator[task], unit[task]] += cursor - start[task]
        cursor = start[task]
        task = bound[task]
