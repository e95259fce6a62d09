"""Lower bounds of the total: what the array, the DRAM, the vector unit and the dependencies alone would take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import BREAKDOWN, DONE, LOAD, START, STORE, Program
from accelsim.engine.commanded import dram_of
from accelsim.engine.service import rate_of, service_times
from accelsim.hardware.dram.requests import DramStats
from accelsim.hardware.dram.system import transactions
from accelsim.jit import kernel
from accelsim.measure.sums import sum_by

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Bounds:
    """Cycles that no run of this Program can beat. The total is at least each of them.

    compute: MACs placed on the arrays over their peak rate by dtype. dram: bytes over peak bandwidth. vector: useful
    cycles of the busiest vector unit. dependency: the longest path with least latencies and no unit limits.
    """

    compute_cycles: int
    dram_cycles: int
    vector_cycles: int
    dependency_cycles: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def bounds(program: Program, ideal_array_cycles: Fraction, dram: DramStats | None = None) -> Bounds:
    """The bounds of `program`, whose MACs take `ideal_array_cycles` at peak rate (exact; see `operators`).

    dram: what the DRAM counted, if it ran every command: what it answered without a command needs no bus.
    """
    return Bounds(
        compute_cycles=ceil(ideal_array_cycles),
        dram_cycles=ceil(_transfer_cycles(program, dram)),
        vector_cycles=_vector_cycles(program),
        dependency_cycles=dependency_cycles(program, dram),
    )


def dependency_cycles(program: Program, dram: DramStats | None = None) -> int:
    """Longest path through the Program's edges when every unit is free and the DRAM serves each request at once."""
    occupy, latency = _least_durations(program, dram)
    return int(
        _longest_path(
            program.edge_begin, program.edge_producer, program.edge_event, program.edge_lag, occupy, latency,
            np.zeros(program.size, np.int64),
        )
    )  # fmt: skip


def _transfer_cycles(program: Program, dram: DramStats | None) -> Fraction:
    """Cycles that the DRAM takes for all bytes, loads and stores one after the other; 0 when it is ideal."""
    spared = 0
    if dram is not None and program.memory.system is not None:
        spared = (dram.forwarded + dram.coalesced) * program.memory.system.device.geometry.transaction_bytes
    loads, stores = (int(program.request_bytes[program.kind == kind].sum()) for kind in (LOAD, STORE))
    alone = _cycles_at(loads, rate_of(program.memory, LOAD)) + _cycles_at(stores, rate_of(program.memory, STORE))
    return max(Fraction(0), alone - _cycles_at(spared, rate_of(program.memory, LOAD)))


def _cycles_at(size: int, rate: Fraction | None) -> Fraction:
    return Fraction(0) if rate is None else size / rate


def _vector_cycles(program: Program) -> int:
    useful = np.ascontiguousarray(program.breakdown[:, BREAKDOWN.index("useful")])
    by_unit = sum_by(program.unit, useful, len(program.units))
    return max((int(by_unit[i]) for i, unit in enumerate(program.units) if unit.kind == "vector"), default=0)


def _least_durations(program: Program, dram: DramStats | None) -> tuple[Int64, Int64]:
    """[n] least occupy and latency: the fixed ones, and for a memory task issue + transfer (+ DRAM latency)."""
    memory = program.memory
    occupy, latency = program.occupy.copy(), program.latency.copy()
    if memory.model == "ideal":
        return occupy, latency
    if memory.model == "command":
        return _least_by_command(program, dram, occupy, latency)
    service = service_times(program)
    chosen = program.is_memory
    transfer = service.cycles + -(-service.ticks // service.per_cycle)
    occupy[chosen] = memory.issue_cycles + transfer[chosen]
    latency[chosen] = occupy[chosen] + np.where(program.kind[chosen] == LOAD, memory.latency_cycles, 0)
    return occupy, latency


def _least_by_command(program: Program, dram: DramStats | None, occupy: Int64, latency: Int64) -> tuple[Int64, Int64]:
    """A request is accepted at one transaction a clock and channel, and so far ahead of the data as queues are deep; a
    load ends when the data buses have carried what waiting writes did not answer, and the way to the core is over."""
    system = dram_of(program)
    device, ratio = system.device, system.clocks_per_cycle
    chosen = np.flatnonzero(program.is_memory)
    count = transactions(program.requests[:, chosen], device.geometry.transaction_bytes)
    on_bus = np.maximum(count - (dram.forwarded if dram else 0), 0)
    per_clock = Fraction(device.peak_bytes_per_clock) / device.geometry.transaction_bytes
    carried = -(-(on_bus * per_clock.denominator) // per_clock.numerator)  # clocks of the data buses
    accepted = -(-count // device.geometry.channels)
    first = device.timing.read_latency - device.timing.burst  # from the first command to the first datum
    ends = np.where(on_bus > 0, first + carried, 1) + system.path_clocks
    occupy[chosen] = program.memory.issue_cycles + _cycles_of(accepted, ratio)
    is_load = program.kind[chosen] == LOAD
    latency[chosen] = np.where(is_load, program.memory.issue_cycles + _cycles_of(ends, ratio), 0)
    latency[chosen] = np.maximum(occupy[chosen], latency[chosen])
    return occupy, latency


def _cycles_of(clocks: Int64, ratio: Fraction) -> Int64:
    """Core cycles that so many DRAM clocks take at least."""
    return np.asarray(-(-(clocks * ratio.denominator) // ratio.numerator))


@kernel
def _longest_path(
    edge_begin: Int64,
    edge_producer: NDArray[np.int32],
    edge_event: NDArray[np.int8],
    edge_lag: Int64,
    occupy: Int64,
    latency: Int64,
    start: Int64,
) -> int:
    """Fill `start` in id order with the earliest start of each task; return the last `done`."""
    longest = 0
    for task in range(start.size):
        earliest = 0
        for edge in range(edge_begin[task], edge_begin[task + 1]):
            producer = edge_producer[edge]
            event = edge_event[edge]
            wait = 0 if event == START else latency[producer] if event == DONE else occupy[producer]
            earliest = max(earliest, start[producer] + wait + edge_lag[edge])
        start[task] = earliest
        longest = max(longest, earliest + latency[task])
    return longest
