"""How long each load and store holds the server of `bandwidth` and `pattern` memory, exact in ticks of a cycle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from accelsim.compile.program import LOAD, STORE, Int64, Memory, Program
from accelsim.engine.commanded import dram_of, queue_numbers
from accelsim.hardware.dram.pattern import TICKS, Stream, service_ticks

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
    if program.memory.model == "pattern":
        total = _by_pattern(program)
        return Service(total // TICKS, total % TICKS, TICKS)
    cycles, ticks = np.zeros(program.size, np.int64), np.zeros(program.size, np.int64)
    per_cycle = ticks_per_cycle(program.memory)
    for kind in (LOAD, STORE):
        if rate := rate_of(program.memory, kind):
            chosen = np.flatnonzero(program.kind == kind)
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


def _by_pattern(program: Program) -> Int64:
    """[n] ticks of all tasks; the requests of an operator are a stream, and the same streams are run once."""
    ticks, requests, queue = np.zeros(program.size, np.int64), program.requests, queue_numbers(program)
    groups = _by_operator(program)
    streams = [Stream(queue[program.unit[tasks]], program.kind[tasks] == STORE, requests[:, tasks]) for tasks in groups]
    for tasks, taken in zip(groups, service_ticks(dram_of(program), int(queue.max()) + 1, streams), strict=True):
        ticks[tasks] = taken
    return ticks


def _by_operator(program: Program) -> list[Int64]:
    """The loads and stores of each operator that has some, in the order of their ids."""
    chosen = np.flatnonzero(program.is_memory)
    chosen = chosen[np.argsort(program.op[chosen], kind="stable")]
    groups = np.split(chosen, np.flatnonzero(np.diff(program.op[chosen])) + 1)
    return [group for group in groups if group.size]
