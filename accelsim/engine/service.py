"""How long each load and store holds the server of `bandwidth` and `pattern` memory, exact in ticks of a cycle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from accelsim.compile.program import LOAD, STORE, Int64, Memory, Program
from accelsim.errors import InternalError
from accelsim.hardware.dram.pattern import TICKS, service_ticks

QUEUED = -1  # a direction whose requests wait for the server


@dataclass(frozen=True)
class Service:
    """Service time of task i: cycles[i] + ticks[i] / per_cycle core cycles; 0 for what never waits. int64 [n]."""

    cycles: Int64
    ticks: Int64
    per_cycle: int

    def of(self, task: int) -> Fraction:
        """The service time in core cycles."""
        return int(self.cycles[task]) + Fraction(int(self.ticks[task]), self.per_cycle)


def service_times(program: Program) -> Service:
    """Of every load and store of the Program, by its memory model."""
    cycles, ticks = np.zeros(program.size, np.int64), np.zeros(program.size, np.int64)
    per_cycle = ticks_per_cycle(program.memory)
    for kind in (LOAD, STORE):
        chosen = np.flatnonzero(program.kind == kind)
        if program.memory.model == "pattern":
            total = _by_pattern(program, chosen, kind)
            cycles[chosen], ticks[chosen] = total // per_cycle, total % per_cycle
        elif rate := rate_of(program.memory, kind):
            work = program.request_bytes[chosen] * rate.denominator
            cycles[chosen] = work // rate.numerator
            ticks[chosen] = work % rate.numerator * (per_cycle // rate.numerator)
    return Service(cycles, ticks, per_cycle)


def ticks_per_cycle(memory: Memory) -> int:
    """`bandwidth`: the least common multiple of the rates' numerators, so that whole bytes take whole ticks."""
    if memory.model == "pattern":
        return TICKS
    rates = (rate_of(memory, kind) for kind in (LOAD, STORE))
    return lcm(*(rate.numerator for rate in rates if rate is not None))


def rate_of(memory: Memory, kind: int) -> Fraction | None:
    """Bytes a cycle of loads or stores; None for unlimited."""
    if memory.model == "ideal":
        return None
    return memory.load_bytes_per_cycle if kind == LOAD else memory.store_bytes_per_cycle


def _by_pattern(program: Program, chosen: Int64, kind: int) -> Int64:
    """Ticks of the chosen tasks: the command kernel is run once for each distinct shape of request."""
    system = program.memory.system
    if system is None:
        raise InternalError("`pattern` memory needs the DRAM that it is about")
    queues = sum(unit.kind == ("load", "store")[kind] for unit in program.units)
    offset = program.address[chosen] % system.device.geometry.transaction_bytes
    shapes = np.stack([offset, program.rows[chosen], program.row_bytes[chosen], program.pitch[chosen]])
    distinct, inverse = np.unique(shapes, axis=1, return_inverse=True)
    times = [service_ticks(system, queues, kind == STORE, *shape) for shape in distinct.T.tolist()]
    return np.array(times, np.int64)[inverse.ravel()]
