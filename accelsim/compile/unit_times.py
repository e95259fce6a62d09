"""Times of a pass on whichever unit computes it, as the columns of its tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.compile.machine import Machine
from accelsim.compile.program import SPECIAL, VECTOR
from accelsim.compile.work import VECTOR_UNIT, VectorPass
from accelsim.hardware import systolic
from accelsim.hardware.special import SpecialTimes, row_lag, special_times
from accelsim.hardware.systolic import ArrayParameters
from accelsim.hardware.vector import pass_times

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class UnitTimes:
    """Task kind, unit, and the columns of the tasks: times, breakdown, counters."""

    kind: int
    unit: int
    columns: dict[str, Int64]

    @property
    def occupy(self) -> Int64:
        return self.columns["occupy"]

    @property
    def latency(self) -> Int64:
        return self.columns["latency"]

    def at_least(self, cycles: Int64) -> UnitTimes:
        """The same passes where the scratchpad's banks need so many cycles for each."""
        longer = np.maximum(0, cycles - self.occupy)
        stretched = {name: self.columns[name] + longer for name in ("occupy", "latency", "scratchpad")}
        return replace(self, columns={**self.columns, **stretched})


def unit_times(machine: Machine, step: VectorPass, rows: ArrayLike, cols: ArrayLike) -> UnitTimes:
    """Passes over tiles of `rows` x `cols` elements (int64 arrays that broadcast)."""
    if step.unit != VECTOR_UNIT:
        rows, cols = np.broadcast_arrays(np.asarray(rows, np.int64), np.asarray(cols, np.int64))
        read, write = _moved(step, rows * cols)
        return _special(machine, step, rows * cols, special_times(rows, cols, read + write, machine.special(step.unit)))
    times = pass_times(rows, cols, step.work, machine.vector_unit)
    columns = {
        "occupy": times.occupy, "latency": times.latency, "useful": times.useful,
        "reduction_tail": times.reduction_tail, "scratchpad": times.scratchpad,
        "scratchpad_read_bytes": times.read_bytes, "scratchpad_write_bytes": times.write_bytes,
        "vector_simple_ops": times.simple_ops, "vector_special_ops": times.special_ops,
    }  # fmt: skip
    return UnitTimes(VECTOR, machine.vector, columns)


def attached_times(
    machine: Machine, step: VectorPass, array: ArrayParameters, tm: Int64, tk: Int64, tn: Int64
) -> tuple[UnitTimes, Int64]:
    """Tiles whose rows a unit takes from the accumulator while they come, and the lag from the start of the last
    stream into a tile after which it is never early.

    Rows leave no faster than the accumulator's drain. A unit without rows is a drain at its own rate.
    """
    unit = machine.special(step.unit)
    limit = array.drain_elements_per_cycle
    rate = unit.elements_per_cycle if limit is None else min(unit.elements_per_cycle, limit)
    unit = replace(unit, elements_per_cycle=rate)
    read, write = _moved(step, tm * tn)
    times = special_times(tm, tn, read + write, unit)
    stream = systolic.stream_times(array, tm, tk, tn)
    if unit.by_rows:
        lag = row_lag(stream.latency, tm, Fraction(1) / array.rate, times.row_cycles)
        return _special(machine, step, tm * tn, times), lag
    drain = systolic.drain_times(replace(array, drain_elements_per_cycle=rate), tm, tk, tn)
    useful = np.maximum(times.useful, drain.occupy)
    occupy = np.maximum(useful, times.occupy)
    tail = np.maximum(times.latency - times.occupy, drain.latency - drain.occupy)
    drained = SpecialTimes(occupy, occupy + tail, useful, occupy - useful, times.row_cycles)
    return _special(machine, step, tm * tn, drained), drain.lag


def _moved(step: VectorPass, elements: Int64) -> tuple[Int64, Int64]:
    return elements * step.work.read_bytes_per_element, elements * step.work.write_bytes_per_element


def _special(machine: Machine, step: VectorPass, elements: Int64, times: SpecialTimes) -> UnitTimes:
    read, write = _moved(step, elements)
    columns = {
        "occupy": times.occupy, "latency": times.latency, "useful": times.useful, "scratchpad": times.scratchpad,
        "scratchpad_read_bytes": read, "scratchpad_write_bytes": write,
        f"{step.unit}_elements": elements, "special_input_ops": elements * step.input_ops,
    }  # fmt: skip
    return UnitTimes(SPECIAL, machine.unit_index[f"core0.{step.unit}"], columns)
