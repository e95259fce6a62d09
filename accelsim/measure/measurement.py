"""Everything measured on one run, before it is written down as a Result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.compile.program import Program
from accelsim.engine.timeline import Timeline
from accelsim.measure.binding import binding_producers
from accelsim.measure.bounds import Bounds, bounds
from accelsim.measure.critical_path import CriticalPath, critical_path
from accelsim.measure.energy import EnergyReport, energy_from_sums
from accelsim.measure.operators import OperatorSums, operator_sums
from accelsim.measure.utilization import UnitCycles, unit_cycles
from accelsim.trace.model import Trace

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch


@dataclass(frozen=True)
class Measurement:
    """A run (what was asked, what was compiled, when it happened) and all that was counted on it."""

    arch: Arch
    trace: Trace
    program: Program
    timeline: Timeline
    units: UnitCycles
    path: CriticalPath
    operators: OperatorSums
    bounds: Bounds
    energy: EnergyReport


def take(program: Program, timeline: Timeline, arch: Arch, trace: Trace) -> Measurement:
    """Measure a run. The Timeline must belong to the Program, and the Program to the trace and machine."""
    bound = binding_producers(program, timeline)
    path = critical_path(program, timeline, bound, len(trace.ops))
    sums = operator_sums(program, timeline, arch, trace)
    return Measurement(
        arch=arch,
        trace=trace,
        program=program,
        timeline=timeline,
        units=unit_cycles(program, timeline, bound),
        path=path,
        operators=sums,
        bounds=bounds(program, sums.placed_ideal_cycles, timeline.dram),
        energy=energy_from_sums(sums, timeline.total, arch, trace, path.by_operator),
    )
