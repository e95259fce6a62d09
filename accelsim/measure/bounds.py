"""Lower bounds of the total: what the array, the DRAM, the vector unit and the dependencies alone would take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import BREAKDOWN, DONE, LOAD, START, STORE, Program
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


def bounds(program: Program, ideal_array_cycles: Fraction) -> Bounds:
    """The bounds of `program`, whose MACs take `ideal_array_cycles` at peak rate (exact; see `operators`)."""
    return Bounds(
        compute_cycles=ceil(ideal_array_cycles),
        dram_cycles=ceil(_transfer_cycles(program)),
        vector_cycles=_vector_cycles(program),
        dependency_cycles=dependency_cycles(program),
    )


def dependency_cycles(program: Program) -> int:
    """Longest path through the Program's edges when every unit is free and the DRAM serves each request at once."""
    occupy, latency = _least_durations(program)
    return int(
        _longest_path(
            program.edge_begin, program.edge_producer, program.edge_event, program.edge_lag, occupy, latency,
            np.zeros(program.size, np.int64),
        )
    )  # fmt: skip


def _transfer_cycles(program: Program) -> Fraction:
    """Cycles that the DRAM takes for all bytes, loads and stores one after the other; 0 when it is ideal."""
    return _cycles_at(int(program.request_bytes[program.kind == LOAD].sum()), _rate(program, LOAD)) + _cycles_at(
        int(program.request_bytes[program.kind == STORE].sum()), _rate(program, STORE)
    )


def _rate(program: Program, kind: int) -> Fraction | None:
    """Bytes a cycle of loads or stores; None for unlimited."""
    memory = program.memory
    if memory.model == "ideal":
        return None
    return memory.load_bytes_per_cycle if kind == LOAD else memory.store_bytes_per_cycle


def _cycles_at(size: int, rate: Fraction | None) -> Fraction:
    return Fraction(0) if rate is None else size / rate


def _vector_cycles(program: Program) -> int:
    useful = np.ascontiguousarray(program.breakdown[:, BREAKDOWN.index("useful")])
    by_unit = sum_by(program.unit, useful, len(program.units))
    return max((int(by_unit[i]) for i, unit in enumerate(program.units) if unit.kind == "vector"), default=0)


def _least_durations(program: Program) -> tuple[Int64, Int64]:
    """[n] least occupy and latency: the fixed ones, and for a memory task issue + transfer (+ DRAM latency)."""
    memory = program.memory
    occupy, latency = program.occupy.copy(), program.latency.copy()
    if memory.model == "ideal":
        return occupy, latency
    for kind in (LOAD, STORE):
        chosen = program.kind == kind
        sizes, inverse = np.unique(program.request_bytes[chosen], return_inverse=True)
        transfers = np.array([ceil(_cycles_at(int(size), _rate(program, kind))) for size in sizes], np.int64)
        occupy[chosen] = memory.issue_cycles + transfers[inverse]
        latency[chosen] = occupy[chosen] + (memory.latency_cycles if kind == LOAD else 0)
    return occupy, latency


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
