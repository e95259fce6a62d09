"""What an engine relies on, checked before time runs: indices in range, nothing negative, no integer overflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import DONE, LOAD, STORE, TASK_KINDS, Memory, Program
from accelsim.engine.service import rate_of, ticks_per_cycle
from accelsim.errors import InputError, InternalError

MEMORY_MODELS = ("ideal", "bandwidth", "pattern", "command")

# Every intermediate result of an engine stays below this, a factor of two inside int64.
SAFE = 2**62

# Core cycles that a transaction may take on average, with room: no preset's row cycle and refresh together take more.
SLOWEST = 1000


def check(program: Program, name: str = "program") -> None:
    """Raise InternalError unless both engines can run `program`, InputError if its times could leave 64 bits.

    The latter is too much work on too slow a machine, which `name` names.

    Order (every producer before its consumer) is not asked for here: `Program.check` does, and an engine that is
    given a circle of tasks reports the deadlock.
    """
    _check_memory(program.memory)
    _check_shapes(program)
    _check_ranges(program)
    _check_requests(program)
    for holds, what in _magnitudes(program):
        if not holds:
            remedy = "use smaller sizes, or rates that are faster or simpler"
            raise InputError(f"{what}, beyond 64-bit integers", where=name, remedy=remedy)


def _require(holds: bool, law: str) -> None:
    if not holds:
        raise InternalError(f"the engine cannot run this Program: {law}")


def _check_memory(memory: Memory) -> None:
    _require(memory.model in MEMORY_MODELS, f"memory model {memory.model!r} is none of {', '.join(MEMORY_MODELS)}")
    _require(memory.latency_cycles >= 0, f"the memory latency is negative ({memory.latency_cycles} cycles)")
    _require(memory.issue_cycles >= 0, f"the issue time is negative ({memory.issue_cycles} cycles)")
    _require(
        (memory.system is not None) == (memory.model in ("pattern", "command")),
        f"memory model {memory.model!r} and its DRAM do not go together",
    )
    for rate in (memory.load_bytes_per_cycle, memory.store_bytes_per_cycle):
        _require(rate is None or rate > 0, f"a memory rate is not positive ({rate} bytes per cycle)")


def _check_shapes(program: Program) -> None:
    for name in ("unit", "kind", "occupy", "latency", "address", "rows", "row_bytes", "pitch"):
        _require(getattr(program, name).shape == (program.size,), f"`{name}` has not one entry per task")
    edges = program.edge_producer.shape
    _require(program.edge_event.shape == edges == program.edge_lag.shape, "the edge arrays differ in length")
    begin = program.edge_begin
    spans_all = begin.shape == (program.size + 1,) and begin[0] == 0 and begin[-1] == edges[0]
    _require(bool(spans_all and np.all(begin[:-1] <= begin[1:])), "`edge_begin` does not divide the edges among tasks")


def _check_ranges(program: Program) -> None:
    huge = np.iinfo(np.int64).max
    limits: dict[str, tuple[NDArray[Any], int]] = {
        "unit": (program.unit, len(program.units)),
        "kind": (program.kind, len(TASK_KINDS)),
        "edge_producer": (program.edge_producer, program.size),
        "edge_event": (program.edge_event, DONE + 1),
        "edge_lag": (program.edge_lag, huge),
        "occupy": (program.occupy, huge),
        "latency": (program.latency, huge),
        "rows": (program.rows, huge),
        "row_bytes": (program.row_bytes, huge),
        "address": (program.address, huge),
        "pitch": (program.pitch, huge),
    }
    for name, (values, limit) in limits.items():
        inside = values.size == 0 or (values.min() >= 0 and values.max() < limit)
        _require(bool(inside), f"`{name}` has values outside 0..{limit - 1}")


def _check_requests(program: Program) -> None:
    for kind in (LOAD, STORE):
        limited = (program.kind == kind) & (rate_of(program.memory, kind) is not None)
        _require(bool((_sizes(program, limited) > 0).all()), "a memory request has no bytes")


def _magnitudes(program: Program) -> Iterator[tuple[bool, str]]:
    """What must hold, and what is too large if it does not: bounds from above of the last cycle and of every product of
    the memory's arithmetic (in floating point: no sum can wrap)."""
    memory = program.memory
    count = int(np.count_nonzero(program.is_memory))
    cycles = float(program.latency.sum(dtype=np.float64)) + float(program.occupy.sum(dtype=np.float64))
    cycles += float(program.edge_lag.sum(dtype=np.float64))
    cycles += count * (memory.issue_cycles + memory.latency_cycles + 1)
    for kind in (LOAD, STORE):
        yield from _request_magnitudes(program, kind)
        cycles += _served_cycles(program, kind)
    yield cycles < SAFE, f"the run may last {cycles:.3g} cycles"
    if memory.system is not None:
        clocks = cycles * max(1, memory.system.clocks_per_cycle.numerator)
        yield clocks < SAFE, f"the run may last {clocks:.3g} parts of a DRAM clock"
    ticks = ticks_per_cycle(memory)
    yield ticks < SAFE, f"the memory rates need {ticks:.3g} ticks a cycle"


def _request_magnitudes(program: Program, kind: int) -> Iterator[tuple[bool, str]]:
    """The same for the requests of one direction that do not go for free."""
    selected, rate = program.kind == kind, rate_of(program.memory, kind)
    if rate is None or not selected.any():
        return
    if program.memory.system is not None:
        ends = program.address[selected] + program.rows[selected] * program.pitch[selected].astype(np.float64)
        yield float(ends.max()) < SAFE, f"a request ends at byte {ends.max():.3g}"
    else:
        largest = float(_sizes(program, selected).max())
        yield largest * rate.denominator < SAFE, f"a request of {largest:.3g} bytes at {rate} bytes per cycle"


def _served_cycles(program: Program, kind: int) -> float:
    """The cycles in which the requests of one direction are served, at most."""
    selected, rate = program.kind == kind, rate_of(program.memory, kind)
    if rate is None or not selected.any():
        return 0.0
    cycles = float(_sizes(program, selected).sum()) / float(rate)
    if program.memory.system is not None:
        size = program.memory.system.device.geometry.transaction_bytes
        cycles += SLOWEST * float((program.rows[selected] * (2 + program.row_bytes[selected] / size)).sum())
    return cycles


def _sizes(program: Program, selected: NDArray[np.bool_]) -> NDArray[np.float64]:
    return program.rows[selected].astype(np.float64) * program.row_bytes[selected]
