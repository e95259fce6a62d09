"""What each operator of the trace took: cycles, MACs, traffic and accesses, and sums over kinds, layers and phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import COUNTERS, LOAD, STORE, Program
from accelsim.engine.timeline import Timeline
from accelsim.measure.critical_path import CriticalPath
from accelsim.measure.dram_energy import DramUse, dram_use
from accelsim.measure.sums import sum_by
from accelsim.trace.model import Trace

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch

Int64 = NDArray[np.int64]
Row = dict[str, Any]

# The counters that a row of the Result shows; what vector unit, dedicated units and host do only enters the energy.
SHOWN_COUNTERS = COUNTERS[: COUNTERS.index("vector_simple_ops")]
_SUMMED = ("cycles", "macs", "recomputed_macs", "dram_read_bytes", "dram_write_bytes")


@dataclass(frozen=True)
class OperatorSums:
    """Sums over the tasks of each trace operator, [operators] each; a fused operator's are 0, its head has them.

    `macs` are useful (those of the trace), `placed_macs` those that the Program runs. `ideal_cycles` are `macs` over
    the array's peak rate for their dtypes, exact. `span` is last done - first start.
    """

    head: tuple[int, ...]
    macs: tuple[int, ...]
    placed_macs: tuple[int, ...]
    ideal_cycles: tuple[Fraction, ...]
    span: Int64
    read_bytes: Int64
    write_bytes: Int64
    counters: Int64  # [operators, len(COUNTERS)]
    dram: DramUse | None  # None unless every DRAM command was run
    dataflow: tuple[str | None, ...]  # of the array, for what it computed

    @property
    def recomputed_macs(self) -> tuple[int, ...]:
        """MACs that the Program runs beyond those of the trace."""
        return tuple(placed - useful for placed, useful in zip(self.placed_macs, self.macs, strict=True))

    @property
    def placed_ideal_cycles(self) -> Fraction:
        """Cycles that all MACs of the Program take at peak rate; recomputed ones at the rate of their operator."""
        extra = [op for op, recomputed in enumerate(self.recomputed_macs) if recomputed and self.macs[op]]
        again = (self.ideal_cycles[op] * self.recomputed_macs[op] / self.macs[op] for op in extra)
        return sum(self.ideal_cycles, Fraction(0)) + sum(again, Fraction(0))


def operator_sums(program: Program, timeline: Timeline, arch: Arch, trace: Trace) -> OperatorSums:
    """Sum the Program's tasks by trace operator."""
    count = len(trace.ops)
    head = _heads(program, count)
    macs, ideal = _useful_macs(arch, trace, head)
    request = program.request_bytes
    return OperatorSums(
        head=head,
        macs=macs,
        placed_macs=tuple(sum_by(program.op, program.macs, count).tolist()),
        ideal_cycles=ideal,
        span=_spans(program, timeline, count),
        read_bytes=sum_by(program.op, np.where(program.kind == LOAD, request, 0), count),
        write_bytes=sum_by(program.op, np.where(program.kind == STORE, request, 0), count),
        counters=sum_by(program.op, program.counters, count),
        dram=dram_use(program, timeline, count),
        dataflow=_dataflows(program, count),
    )


def _useful_macs(arch: Arch, trace: Trace, head: Sequence[int]) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """For each operator the MACs of the matmuls it heads, and their cycles at the peak rate of their dtypes."""
    peak = cache(lambda a, b: Fraction(arch.peak_macs_per_cycle(a, b)))
    macs = [0] * len(trace.ops)
    ideal = [Fraction(0)] * len(trace.ops)
    for op in trace.ops:
        if count := op.macs:
            a, b = (trace.tensors[operand.tensor].dtype for operand in op.inputs[:2])
            macs[head[op.id]] += count
            ideal[head[op.id]] += count / peak(a, b)
    return tuple(macs), tuple(ideal)


def _dataflows(program: Program, count: int) -> tuple[str | None, ...]:
    chosen: list[str | None] = [None] * count
    for plan in program.plans:
        chosen[plan.op] = plan.dataflow
    return tuple(chosen)


def _heads(program: Program, count: int) -> tuple[int, ...]:
    """For each operator the one whose tasks do its work: itself, or what it is fused into."""
    head = list(range(count))
    for plan in program.plans:
        if plan.fused_into is not None:
            head[plan.op] = plan.fused_into
    for op in range(count):
        while head[op] != head[head[op]]:
            head[op] = head[head[op]]
    return tuple(head)


def _spans(program: Program, timeline: Timeline, count: int) -> Int64:
    first = np.full(count, timeline.total, np.int64)
    last = np.zeros(count, np.int64)
    np.minimum.at(first, program.op, timeline.start)
    np.maximum.at(last, program.op, timeline.done)
    return np.where(last > first, last - first, 0)


def operator_rows(
    program: Program, trace: Trace, sums: OperatorSums, path: CriticalPath, energy_pj: NDArray[np.float64]
) -> list[Row]:
    """One row of the Result an operator, in trace order; `energy_pj` is nominal, [operators]."""
    shown = {name: sums.counters[:, COUNTERS.index(name)].tolist() for name in SHOWN_COUNTERS}
    columns: dict[str, Sequence[Any]] = {
        "cycles": path.by_operator.tolist(),
        "span_cycles": sums.span.tolist(),
        "macs": sums.macs,
        "recomputed_macs": sums.recomputed_macs,
        "peak_macs_per_cycle": [_peak(*pair) for pair in zip(sums.macs, sums.ideal_cycles, strict=True)],
        "utilization": [_ratio(*pair) for pair in zip(sums.ideal_cycles, sums.span.tolist(), strict=True)],
        "dram_read_bytes": sums.read_bytes.tolist(),
        "dram_write_bytes": sums.write_bytes.tolist(),
        **shown,
        "energy_pj": [float(value) for value in energy_pj],
        "bound_by": [None if unit is None else program.units[unit].name for unit in path.bounding_units],
    }
    return [
        {
            "id": op.id,
            "name": op.name,
            "kind": op.kind,
            "phase": op.phase,
            "layer": op.layer,
            "fused_into": None if sums.head[op.id] == op.id else sums.head[op.id],
            **{name: column[op.id] for name, column in columns.items()},
        }
        for op in trace.ops
    ]


def _peak(macs: int, ideal_cycles: Fraction) -> float | None:
    """MACs a cycle at peak, the mean over dtypes by their cycles; None without MACs."""
    return float(macs / ideal_cycles) if macs else None


def _ratio(ideal_cycles: Fraction, cycles: int) -> float:
    return float(ideal_cycles / cycles) if ideal_cycles else 0.0


def grouped(key: str, rows: Sequence[Row], program: Program, sums: OperatorSums, path: CriticalPath) -> list[Row]:
    """Sum operator rows that share `key` (kind, layer or phase), in order of first appearance."""
    members: dict[Any, list[Row]] = {}
    for row in rows:
        members.setdefault(row[key], []).append(row)
    return [{key: value, **_group_sums(group, program, sums, path)} for value, group in members.items()]


def _group_sums(group: Sequence[Row], program: Program, sums: OperatorSums, path: CriticalPath) -> Row:
    ids = [row["id"] for row in group]
    ideal = sum((sums.ideal_cycles[i] for i in ids), Fraction(0))
    summed: Mapping[str, int] = {name: sum(row[name] for row in group) for name in _SUMMED}
    by_unit = path.cycles[ids].sum(axis=0)
    mac_span = sum(row["span_cycles"] for row in group if row["macs"])
    return {
        "operators": len(group),
        "fused_operators": sum(row["fused_into"] is not None for row in group),
        "cycles": summed["cycles"],
        "mac_span_cycles": mac_span,
        "macs": summed["macs"],
        "recomputed_macs": summed["recomputed_macs"],
        "peak_macs_per_cycle": _peak(summed["macs"], ideal),
        "utilization": _ratio(ideal, mac_span),
        "dram_read_bytes": summed["dram_read_bytes"],
        "dram_write_bytes": summed["dram_write_bytes"],
        "energy_pj": fsum(row["energy_pj"] for row in group),
        "bound_by": program.units[int(by_unit.argmax())].name if by_unit.any() else None,
    }
