"""A Measurement written down as the Result's plain data, section by section, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from math import fsum, isfinite
from typing import Any

from accelsim.compile.program import CAUSES, OperatorPlan, Program
from accelsim.measure.area import area_of
from accelsim.measure.critical_path import WRITE_TAIL
from accelsim.measure.measurement import Measurement
from accelsim.measure.metrics import FORMAT
from accelsim.measure.operators import grouped, operator_rows
from accelsim.measure.utilization import BUSY_PARTS

Data = dict[str, Any]


def as_data(m: Measurement, provenance: Mapping[str, Any]) -> Data:
    """The Result's data: str, int, float (finite), bool, None, lists and dicts only."""
    rows = operator_rows(m.program, m.trace, m.operators, m.path, m.energy.by_operator)
    groups = {key: grouped(key, rows, m.program, m.operators, m.path) for key in ("kind", "layer", "phase")}
    return {
        "format": FORMAT,
        "provenance": canonical(provenance),
        "total": _total(m),
        "bounds": m.bounds.to_dict(),
        "critical_path": {"by_unit": _critical_path(m)},
        "units": _units(m),
        "operators": rows,
        **{f"by_{key}": group for key, group in groups.items()},
        "dram": _dram(m),
        **_energy(m),
        **_area(m),
        "program": _program(m.program),
    }


def canonical(value: Any) -> Any:
    """Plain JSON data with sorted keys; fractions as "1/4", a number that JSON cannot hold as YAML writes it."""
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [canonical(inner) for inner in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, float) and not isfinite(value):
        return {"inf": ".inf", "-inf": "-.inf"}.get(str(value), ".nan")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _total(m: Measurement) -> Data:
    cycles, macs, batch = m.timeline.total, m.trace.macs, int(m.trace.run.get("batch", 1))
    ideal = sum(m.operators.ideal_cycles, Fraction(0))
    return {
        "cycles": cycles,
        "seconds": _seconds(m),
        "macs": macs,
        "recomputed_macs": sum(m.operators.recomputed_macs),
        "peak_macs_per_cycle": float(macs / ideal) if macs else None,
        "utilization": float(ideal / cycles) if macs else 0.0,
        "batch": batch,
        "cycles_per_inference": cycles / batch,
    }


def _seconds(m: Measurement) -> float:
    return float(m.timeline.total / m.arch.clock_hz)


def _critical_path(m: Measurement) -> Data:
    by_unit = {unit.name: cycles for unit, cycles in zip(m.program.units, m.path.by_unit.tolist(), strict=True)}
    found = {name: cycles for name, cycles in by_unit.items() if cycles}
    return {**found, WRITE_TAIL: m.path.write_tail} if m.path.write_tail else found


def _units(m: Measurement) -> Data:
    units = m.units
    columns = zip(units.busy.tolist(), units.stalls.tolist(), units.tail.tolist(), units.idle.tolist(), strict=True)
    return {
        unit.name: {"busy": _nonzero(BUSY_PARTS, busy), "stalls": _nonzero(CAUSES, stalls), "tail": tail, "idle": idle}
        for unit, (busy, stalls, tail, idle) in zip(m.program.units, columns, strict=True)
    }


def _nonzero(names: Sequence[str], cycles: Sequence[int]) -> dict[str, int]:
    return {name: count for name, count in zip(names, cycles, strict=True) if count}


def _dram(m: Measurement) -> Data:
    memory, seconds, counted = m.program.memory, _seconds(m), m.timeline.dram
    read, write = int(m.operators.read_bytes.sum()), int(m.operators.write_bytes.sum())
    rates = (memory.load_bytes_per_cycle, memory.store_bytes_per_cycle)
    limited = [rate for rate in rates if rate is not None and memory.model != "ideal"]
    peak = max(limited) if len(limited) == len(rates) else None
    return {
        "model": memory.model,
        "read_bytes": read,
        "write_bytes": write,
        "achieved_bandwidth_gbps": (read + write) / seconds / 1e9 if seconds else None,
        "peak_bandwidth_gbps": None if peak is None else float(peak * m.arch.clock_hz / 10**9),
        "bus_bytes": counted and counted.bus_bytes,
        "forwarded": counted and counted.forwarded,
        "coalesced": counted and counted.coalesced,
        "commands": counted and {name: count for name, count in sorted(counted.commands.items()) if count},
        "row_hits": counted and counted.row_hits,
        "mean_read_latency_ns": _mean_read_latency(m),
    }


def _mean_read_latency(m: Measurement) -> float | None:
    """From a transaction's acceptance by the controller to its datum at the device's pins."""
    counted, system = m.timeline.dram, m.program.memory.system
    if counted is None or counted.mean_read_latency is None or system is None:
        return None
    return counted.mean_read_latency * float(1000 / (system.clocks_per_cycle * system.core_mhz))


def _energy(m: Measurement) -> Data:
    components, seconds = m.energy.by_component, _seconds(m)
    low, nominal, high = ({name: float(v[i]) for name, v in components.items()} for i in range(3))
    powers = {"nominal": nominal, "low": low, "high": high}
    return {
        "energy_pj": nominal,
        "energy_low_pj": low,
        "energy_high_pj": high,
        "energy_sources": canonical(m.energy.sources),
        "average_power_w": {k: fsum(v.values()) * 1e-12 / seconds if seconds else None for k, v in powers.items()},
    }


def _area(m: Measurement) -> Data:
    area = area_of(m.arch)
    low, nominal, high = ({name: float(v[i]) for name, v in area.by_component.items()} for i in range(3))
    return {
        "area_mm2": nominal,
        "area_low_mm2": low,
        "area_high_mm2": high,
        "area_sources": canonical(area.sources),
    }


def _program(program: Program) -> Data:
    return {
        "tasks": program.size,
        "edges": int(program.edge_producer.size),
        "units": len(program.units),
        "tiles": [_plan(plan) for plan in program.plans],
        "bandwidth_shares": {name: int(share) for name, share in program.bandwidth_shares.items()},
        "residency": program.notes.get("residency"),
        "fusion": program.notes.get("fusion"),
        "fused": dict(program.notes.get("fused", {})),
    }


def _plan(plan: OperatorPlan) -> Data:
    """An operator's plan as it stands, tuples as lists."""
    return {each.name: _listed(getattr(plan, each.name)) for each in fields(plan)}


def _listed(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
