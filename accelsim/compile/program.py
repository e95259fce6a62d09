"""The Program: tasks on in-order units, as a structure of arrays. Made by compile, run by engine, read by measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import InternalError
from accelsim.hardware.dram.system import DramSystem

Int64 = NDArray[np.int64]

# What an edge waits for: the producer's start, its released (start + occupy) or its done (start + latency).
START, RELEASED, DONE = 0, 1, 2

# Task kinds. LOAD and STORE are DRAM requests whose times the engine finds; all others have fixed durations.
TASK_KINDS = (
    "load", "store", "weights", "stream", "drain", "vector", "level2_load", "level2_store", "special", "host",
)  # fmt: skip
LOAD, STORE, WEIGHTS, STREAM, DRAIN, VECTOR, LEVEL2_LOAD, LEVEL2_STORE, SPECIAL, HOST = range(len(TASK_KINDS))

# Parts of a fixed task's `occupy`, in the order in which they lie in time; they sum to `occupy`.
BREAKDOWN = ("useful", "weights_in_stream", "fill", "reduction_tail", "scratchpad")
# Parts of a memory task's occupy, derived from the Timeline: issue, queue (presented to served), transfer.
MEMORY_BREAKDOWN = ("issue", "queue", "transfer")

# Access counts of a task. Bytes, except accumulator_* and *_elements (elements) and vector_* (lane operations).
COUNTERS = (
    "scratchpad_read_bytes",
    "scratchpad_write_bytes",
    "accumulator_reads",
    "accumulator_writes",
    "accumulator_drain_reads",  # finished sums read out by a drain or an epilogue, apart from partial-sum reads
    "level2_read_bytes",
    "level2_write_bytes",
    "vector_simple_ops",  # add, mul, max, compare, convert: one lane-cycle each
    "vector_special_ops",  # exp, erf, tanh, rsqrt, division
    "softmax_elements",  # elements that a dedicated unit took, likewise below
    "layernorm_elements",
    "gelu_elements",
    "special_input_ops",  # multiplications and additions at a dedicated unit's input
    "host_ops",  # simple operations that would take the host as long
    "host_read_bytes",  # of DRAM, by the host itself
    "host_write_bytes",
)

# Cause that a stall is charged to when a unit of this class was what it waited for (DESIGN 4.5).
UNIT_CAUSES: Mapping[str, str] = {
    "weights": "array",
    "stream": "array",
    "drain": "array",
    "vector": "vector",
    "special": "special",
    "host": "host",
    "load": "dram_read",
    "store": "dram_write",
    "level2.load": "level2",
    "level2.store": "level2",
}
CAUSES = (
    "dram_read", "dram_write", "dma_issue", "level2", "scratchpad", "array", "vector", "special", "near_memory",
    "link", "host", "own_latency",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """An in-order queue, named with its indices: `core0.array0.stream`, `core0.load0`. `kind` is a UNIT_CAUSES key."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The DRAM model the engine runs loads and stores on. Rates are exact bytes per core cycle, None for unlimited.

    model: "ideal" (0 cycles), "bandwidth" (one first-come-first-served server for the whole DRAM), "pattern" (that
    server, with service times of `system`'s commands) or "command" (every command of `system`). For the last two the
    rates are the most that it can move, and `latency_cycles` counts for "pattern" alone.
    """

    model: str
    load_bytes_per_cycle: Fraction | None = None
    store_bytes_per_cycle: Fraction | None = None
    latency_cycles: int = 0
    issue_cycles: int = 0
    system: DramSystem | None = None

    @property
    def by_pattern(self) -> Memory:
        """The same DRAM with service times in place of every command: they hold the issue, where it is not hidden."""
        return replace(self, model="pattern", latency_cycles=self.latency_cycles + self.issue_cycles, issue_cycles=0)


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """What compile chose for one trace operator; printed by `show program`, summed up in the Result."""

    op: int
    fused_into: int | None = None
    tile: tuple[int, int, int] | None = None  # tm, tn, tk of a matmul
    order: tuple[str, ...] | None = None  # outer to inner; None where matmuls take turns block by block
    dataflow: str | None = None
    tile_rows: int | None = None  # rows a pass handles, of a row-structured operator
    passes: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()  # names of the operators folded into this one
    resident: tuple[str, ...] = ()  # operand roles held whole on chip: a, b, in0, out, ...
    places: Mapping[str, str] = field(default_factory=dict)  # operand role -> scratchpad | level2 | dram
    buffer_bytes: int = 0
    depth: tuple[int, int] | None = None  # slots of a and of b for each reader
    bound_cycles: int = 0  # what no mapping of a matmul alone goes below
    estimated_cycles: int = 0
    simulated_cycles: int | None = None  # alone, where the mapper tried it
    distance: float | None = None  # cycles alone (simulated, else estimated) over the bound
    unit: str | None = None  # what computes it, of a matmul what comes after it: vector, softmax, ..., host
    note: str = ""  # why it does not run where the machine has a dedicated unit for it


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes of a buffer held from the first writer's start (-1: from the run's) to the last reader's `released`."""

    space: str  # scratchpad | accumulator | level2
    name: str
    address: int
    bytes: int
    first_writer: int
    last_reader: int


@dataclass(frozen=True)
class Program:
    """n tasks and their edges. Every producer id < its consumer's id; each unit runs its tasks in ascending id.

    Edges into task t are rows edge_begin[t] .. edge_begin[t+1] of (edge_producer, edge_event, edge_lag).
    """

    units: tuple[Unit, ...]
    memory: Memory
    unit: NDArray[np.int32]  # [n] index into units
    op: NDArray[np.int32]  # [n] trace operator id (the head of a fused group)
    kind: NDArray[np.int8]  # [n] index into TASK_KINDS
    occupy: Int64  # [n] cycles; 0 for a memory task
    latency: Int64  # [n] cycles, >= occupy
    breakdown: Int64  # [n, len(BREAKDOWN)] cycles, rows sum to occupy
    macs: Int64  # [n]
    counters: Int64  # [n, len(COUNTERS)]
    tile: NDArray[np.int32]  # [n, 4] batch, m, n, k index of the tile (row block in m for a vector pass); -1 unused
    address: Int64  # [n] bytes, memory tasks only (else 0)
    rows: Int64  # [n]
    row_bytes: Int64  # [n]
    pitch: Int64  # [n] bytes from one row to the next
    edge_begin: Int64  # [n + 1]
    edge_producer: NDArray[np.int32]
    edge_event: NDArray[np.int8]
    edge_lag: Int64
    plans: tuple[OperatorPlan, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    bandwidth_shares: Mapping[str, int] = field(default_factory=dict)  # scratchpad bytes/cycle of each client
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of tasks."""
        return int(self.unit.size)

    @property
    def is_memory(self) -> NDArray[np.bool_]:
        """[n] True for a DRAM load or store."""
        return np.isin(self.kind, (LOAD, STORE))

    @property
    def request_bytes(self) -> Int64:
        """[n] useful bytes of a memory request, 0 elsewhere."""
        return self.rows * self.row_bytes

    @property
    def requests(self) -> Int64:
        """[4, n] address, rows, row_bytes and pitch of DRAM requests, in bytes; all 0 for other tasks."""
        return np.stack([self.address, self.rows, self.row_bytes, self.pitch]) * self.is_memory

    def check(self) -> None:
        """Raise InternalError unless the Program keeps the contract (order, lags, breakdown sums, units)."""
        n = self.size
        consumer = np.repeat(np.arange(n), np.diff(self.edge_begin))
        memory = self.is_memory
        laws = {
            "every producer id is below its consumer's": bool(np.all(self.edge_producer < consumer)),
            "producer ids are not negative": bool(np.all(self.edge_producer >= 0)),
            "lags are not negative": bool(np.all(self.edge_lag >= 0)),
            "events are known": bool(np.all((self.edge_event >= START) & (self.edge_event <= DONE))),
            "latency >= occupy >= 0": bool(np.all((self.latency >= self.occupy) & (self.occupy >= 0))),
            "the breakdown sums to occupy": bool(np.all(self.breakdown.sum(axis=1) == self.occupy)),
            "breakdown and counters are not negative": bool(np.all(self.breakdown >= 0) and np.all(self.counters >= 0)),
            "units are known": bool(np.all((self.unit >= 0) & (self.unit < len(self.units)))),
            "memory requests have bytes": bool(np.all(self.request_bytes[memory] > 0)),
            "memory tasks have no fixed duration": bool(np.all(self.latency[memory] == 0)),
        }
        broken = [law for law, holds in laws.items() if not holds]
        if broken:
            raise InternalError(f"Program breaks its contract: {'; '.join(broken)}")
