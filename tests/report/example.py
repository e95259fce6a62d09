"""Results for the tests of accelsim.report: a small real one, and one written by hand that has everything at once."""

from __future__ import annotations

from typing import Any

from accelsim.measure.result import Result, measure
from tests.measure.programs import machine, matmul_trace, provenance, worked_example

CYCLES = 1_234_567_890
KINDS = ("matmul", "softmax", "layernorm", "gelu", "elementwise", "loss_backward", "optimizer_update", "gather", "cast")


def small_result() -> Result:
    """One matmul on a small machine, measured."""
    program, timeline = worked_example()
    return measure(program, timeline, machine(), matmul_trace(), provenance())


def crowded_result() -> Result:
    """Four arrays, a second level, nine kinds, every stall cause, long names and large numbers."""
    data = small_result().to_dict()
    data["provenance"]["trace"]["name"] = "a_trace_with_a_very_long_name_that_no_terminal_of_eighty_columns_holds_whole"
    data["total"] |= {"cycles": CYCLES, "seconds": 1.23456789, "macs": 10**15, "utilization": 0.456, "batch": 8}
    data["total"]["cycles_per_inference"] = CYCLES / 8
    data["bounds"] = dict(zip(data["bounds"], (562_963_002, 1_200_000_000, 98_765_432, 1_234_567_880), strict=True))
    names = [f"core0.array{i}.{kind}" for i in range(4) for kind in ("weights", "stream", "drain")]
    names += ["core0.vector", "core0.load0", "core0.store0", "core0.level2.load", "core0.level2.store"]
    data["critical_path"]["by_unit"] = dict.fromkeys(names, CYCLES // 20) | {"dram_write": 7}
    data["units"] = {name: _unit(index) for index, name in enumerate(names)}
    data["by_kind"] = [_kind(index, kind) for index, kind in enumerate(KINDS)]
    data["operators"] = data["operators"] * 500
    components = [*data["energy_pj"], "level2", "static_level2"]
    for scale, key in enumerate(("energy_low_pj", "energy_pj", "energy_high_pj"), start=1):
        data[key] = dict.fromkeys(components, scale * 150000000000.0)
    return Result(data)


def _unit(index: int) -> dict[str, Any]:
    causes = ("dram_read", "dram_write", "dma_issue", "level2", "scratchpad", "array", "vector", "own_latency")
    stalls = {cause: CYCLES // 40 * (1 + (index + i) % 3) for i, cause in enumerate(causes)}
    busy = CYCLES - sum(stalls.values()) - 1000
    return {"busy": {"useful": busy}, "stalls": stalls, "tail": 10, "idle": 990}


def _kind(index: int, kind: str) -> dict[str, Any]:
    return {
        "kind": kind, "operators": 100, "fused_operators": 100 if kind in ("cast", "gelu", "elementwise") else 1,
        "cycles": CYCLES // 10, "macs": 5 * 10**12 if kind == "matmul" else 0,
        "peak_macs_per_cycle": 65536.0 if kind == "matmul" else None, "utilization": 0.4,
        "dram_read_bytes": 10**9 * index, "dram_write_bytes": 10**8, "energy_pj": 1.1e11,
        "bound_by": "core0.array3.stream" if kind == "matmul" else "core0.vector",
    }  # fmt: skip
