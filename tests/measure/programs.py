"""Hand-written Programs, traces and machines for the tests of accelsim.measure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from accelsim.arch.spec import Arch
from accelsim.compile.program import (
    BREAKDOWN,
    COUNTERS,
    DONE,
    DRAIN,
    LOAD,
    RELEASED,
    START,
    STORE,
    STREAM,
    VECTOR,
    WEIGHTS,
    Allocation,
    Memory,
    OperatorPlan,
    Program,
    Unit,
)  # fmt: skip
from accelsim.engine.timeline import Timeline
from accelsim.trace.model import Op, Operand, Tensor, Trace

KIND_OF_UNIT = {"load": LOAD, "store": STORE, "weights": WEIGHTS, "stream": STREAM, "drain": DRAIN, "vector": VECTOR}
EVENTS = {"start": START, "released": RELEASED, "done": DONE}
UNITS = {
    "load": Unit("core0.load0", "load"),
    "weights": Unit("core0.array0.weights", "weights"),
    "stream": Unit("core0.array0.stream", "stream"),
    "drain": Unit("core0.array0.drain", "drain"),
    "vector": Unit("core0.vector", "vector"),
    "store": Unit("core0.store0", "store"),
}


def task(
    unit: str, occupy: int = 0, latency: int | None = None, waits: Sequence[tuple[Any, ...]] = (), **more: Any
) -> dict[str, Any]:
    """A task; `waits` are (producer, event[, lag]); `more` may give op, macs, size (bytes), parts, counters."""
    return {"unit": unit, "occupy": occupy, "latency": occupy if latency is None else latency, "waits": waits, **more}


def program(tasks: Sequence[dict[str, Any]], memory: Memory, **more: Any) -> Program:
    """A Program of `tasks` in id order on the units of UNITS."""
    n = len(tasks)
    names = list(UNITS)
    waits = [tuple(t["waits"]) for t in tasks]
    edges = [(edge[0], EVENTS[edge[1]], edge[2] if len(edge) > 2 else 0) for group in waits for edge in group]
    breakdown = np.zeros((n, len(BREAKDOWN)), np.int64)
    counters = np.zeros((n, len(COUNTERS)), np.int64)
    for i, t in enumerate(tasks):
        for part, cycles in t.get("parts", {"useful": t["occupy"]}).items():
            breakdown[i, BREAKDOWN.index(part)] = cycles
        for name, count in t.get("counters", {}).items():
            counters[i, COUNTERS.index(name)] = count
    sizes = np.array([t.get("size", 0) for t in tasks], np.int64)
    made = Program(
        units=tuple(UNITS.values()),
        memory=memory,
        unit=np.array([names.index(t["unit"]) for t in tasks], np.int32),
        op=np.array([t.get("op", 0) for t in tasks], np.int32),
        kind=np.array([KIND_OF_UNIT[t["unit"]] for t in tasks], np.int8),
        occupy=np.array([t["occupy"] for t in tasks], np.int64),
        latency=np.array([t["latency"] for t in tasks], np.int64),
        breakdown=breakdown,
        macs=np.array([t.get("macs", 0) for t in tasks], np.int64),
        counters=counters,
        tile=np.full((n, 4), -1, np.int32),
        address=np.zeros(n, np.int64),
        rows=(sizes > 0).astype(np.int64),
        row_bytes=sizes,
        pitch=sizes,
        edge_begin=np.concatenate([[0], np.cumsum([len(w) for w in waits], dtype=np.int64)]).astype(np.int64),
        edge_producer=np.array([e[0] for e in edges], np.int32),
        edge_event=np.array([e[1] for e in edges], np.int8),
        edge_lag=np.array([e[2] for e in edges], np.int64),
        **more,
    )
    made.check()
    return made


def timeline(times: Sequence[tuple[int, int, int]], served: Sequence[int], total: int | None = None) -> Timeline:
    """A Timeline from (start, released, done) rows and first service cycles."""
    start, released, done = (np.array(column, np.int64) for column in zip(*times, strict=True))
    return Timeline(start, released, done, np.array(served, np.int64), int(done.max()) if total is None else total)


BANDWIDTH = Memory("bandwidth", Fraction(64), Fraction(64), latency_cycles=100, issue_cycles=0)
M, K, N = 256, 128, 256


def worked_example() -> tuple[Program, Timeline]:
    """The example of the design: a 256 x 128 x 256 int8 matmul as two N tiles on a 128 x 128 array."""
    tile_macs = M * K * N // 2
    summed = {"accumulator_writes": M * N // 2}
    drained = {"accumulator_drain_reads": M * N // 2, "scratchpad_write_bytes": M * N // 2}
    tasks = [
        task("load", size=128 * 128, counters={"scratchpad_write_bytes": 128 * 128}),
        task("load", size=M * K, counters={"scratchpad_write_bytes": M * K}),
        task("load", size=128 * 128, counters={"scratchpad_write_bytes": 128 * 128}),
        task("weights", 128, 128, [(0, "done")]),
        task("stream", 256, 510, [(3, "done"), (1, "done")], macs=tile_macs, counters=summed),
        task("weights", 128, 128, [(2, "done"), (4, "start")]),
        task("drain", 256, 257, [(4, "start", 254)], counters=drained),
        task("store", size=M * N // 2, waits=[(6, "done")], counters={"scratchpad_read_bytes": M * N // 2}),
        task("stream", 256, 510, [(5, "done")], macs=tile_macs, counters=summed),
        task("drain", 256, 257, [(8, "start", 254)], counters=drained),
        task("store", size=M * N // 2, waits=[(9, "done")], counters={"scratchpad_read_bytes": M * N // 2}),
    ]  # fmt: skip
    times = [
        (0, 256, 356), (256, 768, 868), (768, 1024, 1124), (356, 484, 484), (868, 1124, 1378), (1124, 1252, 1252),
        (1122, 1378, 1379), (1379, 1891, 1891), (1252, 1508, 1762), (1506, 1762, 1763), (1891, 2403, 2403),
    ]  # fmt: skip
    served = [0, 256, 768, -1, -1, -1, -1, 1379, -1, -1, 1891]
    plans = (OperatorPlan(0, tile=(M, N // 2, K), order=("n", "m", "k"), dataflow="ws"),)
    allocations = (
        Allocation("scratchpad", "a", 0, M * K, 1, 8),
        Allocation("scratchpad", "b0", M * K, 128 * 128, 0, 3),
        Allocation("scratchpad", "b1", M * K + 128 * 128, 128 * 128, 2, 5),
        Allocation("accumulator", "c", 0, 4 * M * N // 2, 4, 6),
    )
    notes = {"fusion": "elementwise", "residency": True}
    return program(tasks, BANDWIDTH, plans=plans, allocations=allocations, notes=notes), timeline(times, served)


def matmul_trace(m: int = M, n: int = N, k: int = K, dtype: str = "int8") -> Trace:
    """A trace of one matmul [m, k] x [k, n]."""
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    roles = {"a": "input", "b": "weight", "c": "activation"}
    tensors = tuple(Tensor(i, name, shape, dtype, roles[name], i) for i, (name, shape) in enumerate(shapes.items()))
    operands = tuple(Operand(t.id, t.shape, (t.shape[1], 1)) for t in tensors)
    op = Op(
        0, "matmul", "matmul", "forward", None, "", operands[:2], operands[2:], {"batch": 1, "m": m, "n": n, "k": k}
    )
    return Trace({"name": "matmul"}, {"batch": 1}, {}, tensors, (op,), sha256="0" * 64, name="matmul")


def machine(**changes: Any) -> Arch:
    """128 x 128 int8 MACs a cycle at 1 GHz, 64 KiB scratchpad, 128 KiB accumulator, 64 GB/s; `changes` by section.

    A section may be "none"."""
    sections: dict[str, Any] = {
        "name": "test machine",
        "clock_mhz": 1000,
        "array": {"rows": 128, "cols": 128, "rate": {"int8": 1, "bf16": "1/2"}},
        "accumulator": {"capacity_kib": 128, "drain_elements_per_cycle": 128},
        "vector": {"lanes": 128, "rate": dict.fromkeys(("exp", "erf", "tanh", "rsqrt", "div"), 1), "pipeline_depth": 8},
        "scratchpad": {"capacity_kib": 64, "banks": 16, "bank_width_bytes": 64, "ports": 1},
        "dram": {
            "preset": "hbm2_2000",
            "channels": 8,
            "mapping": "RoRaBgBaCoCh",
            "bandwidth_gbps": 64,
            "latency_ns": 100,
        },
    }
    for section, keys in changes.items():
        sections[section] = keys if keys == "none" else {**sections.get(section, {}), **keys}
    return Arch.model_validate(sections)


def provenance(**more: Any) -> dict[str, Any]:
    """What the public API says about a run."""
    return {
        "version": "0",
        "arguments": {"fusion": "elementwise", "residency": True},
        "arch": machine().to_dict(),
        "trace": {"name": "matmul", "sha256": "0" * 64, "model": {"name": "matmul"}, "run": {"batch": 1}},
        "engine": "compiled",
        "seed": None,
        **more,
    }
