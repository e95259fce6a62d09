"""What holds for every run (DESIGN 5). A broken law is accelsim's own fault and ends the run with an InternalError."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import fsum, isfinite

import numpy as np

from accelsim.compile.program import Program
from accelsim.engine.timeline import Timeline
from accelsim.errors import InternalError
from accelsim.hardware.dram.system import transactions
from accelsim.measure.measurement import Measurement
from accelsim.measure.storage import broken_allocations

LARGEST_COUNT = 2**63 - 1
ENERGY_TOLERANCE = 1e-9

Law = Callable[[Measurement], Iterator[str]]


def check_laws(measurement: Measurement) -> None:
    """Raise InternalError for the first broken law: its name, then where it broke and the numbers."""
    for name, law in LAWS.items():
        for finding in law(measurement):
            raise InternalError(f"law broken: {name}: {finding}")


def check_timeline(program: Program, timeline: Timeline) -> None:
    """Raise InternalError unless the times are in order and fixed tasks take what the Program says.

    Runs before anything is measured, since all else is built on it.
    """
    start, released, done, served = timeline.start, timeline.released, timeline.done, timeline.served
    memory = program.is_memory
    broken = {
        "0 <= start <= released <= done <= total": ~((start >= 0) & (start <= released) & (released <= done))
        | (done > timeline.total),
        "a fixed task's released is start + occupy": ~memory & (released != start + program.occupy),
        "a fixed task's done is start + latency": ~memory & (done != start + program.latency),
        "a request is presented, then served, then released": memory & ~_served_in_order(program, timeline),
    }
    for law, tasks in broken.items():
        if tasks.any():
            task = int(tasks.argmax())
            unit = program.units[program.unit[task]].name
            times = (int(start[task]), int(served[task]), int(released[task]), int(done[task]))
            raise InternalError(f"law broken: {law}: task {task} on {unit} has (start, served, released, done) {times}")


def _served_in_order(program: Program, timeline: Timeline) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    occupied = timeline.released - timeline.start
    presented = timeline.start + np.minimum(program.memory.issue_cycles, occupied)
    in_order: np.ndarray[tuple[int], np.dtype[np.bool_]] = (presented <= timeline.served) & (
        timeline.served <= timeline.released
    )
    return in_order


def _units_add_up(m: Measurement) -> Iterator[str]:
    units = m.units
    parts = np.column_stack([units.busy, units.stalls, units.tail, units.idle])
    for unit, row in zip(m.program.units, parts, strict=True):
        if row.sum() != m.timeline.total or (row < 0).any():
            yield f"{unit.name}: busy, stalls, tail, idle {row.tolist()}, total {m.timeline.total}"


def _macs_are_the_traces(m: Measurement) -> Iterator[str]:
    declared = m.program.notes.get("recomputed_macs", {})
    for op, recomputed in enumerate(m.operators.recomputed_macs):
        if recomputed != declared.get(op, 0) or recomputed < 0:
            placed, useful = m.operators.placed_macs[op], m.operators.macs[op]
            yield f"operator {op} ({m.trace.ops[op].name}): {placed} MACs placed, {useful} in the trace"
    if sum(m.operators.macs) != m.trace.macs:
        yield f"operators have {sum(m.operators.macs)} MACs, the trace {m.trace.macs}"


def _counters_in_range(m: Measurement) -> Iterator[str]:
    sums = m.operators
    totals = {"MACs": sum(sums.placed_macs), "DRAM bytes": sum(sums.read_bytes.tolist() + sums.write_bytes.tolist())}
    if counted := m.timeline.dram:
        totals |= counted.commands | {"DRAM bytes on the bus": counted.bus_bytes, "row hits": counted.row_hits}
    for name, count in totals.items():
        if not 0 <= count <= LARGEST_COUNT:
            yield f"{name} is {count}, outside [0, 2^63)"


def _utilization_in_range(m: Measurement) -> Iterator[str]:
    for op, (ideal, span) in enumerate(zip(m.operators.ideal_cycles, m.operators.span.tolist(), strict=True)):
        if ideal > span or (ideal == 0) != (m.operators.macs[op] == 0):
            name = m.trace.ops[op].name
            yield f"operator {op} ({name}): {m.operators.macs[op]} MACs need {ideal} cycles at peak, it spans {span}"


def _total_keeps_bounds(m: Measurement) -> Iterator[str]:
    for name, cycles in m.bounds.to_dict().items():
        if m.timeline.total < cycles:
            yield f"total {m.timeline.total} is below {name} {cycles}"


def _critical_path_adds_up(m: Measurement) -> Iterator[str]:
    by_unit = int(m.path.by_unit.sum()) + m.path.write_tail
    by_operator = int(m.path.by_operator.sum()) if m.trace.ops else m.path.write_tail
    if not by_unit == by_operator == m.timeline.total or m.path.write_tail < 0 or (m.path.cycles < 0).any():
        yield f"by unit {by_unit}, by operator {by_operator}, total {m.timeline.total}, tail {m.path.write_tail}"


def _energy_adds_up(m: Measurement) -> Iterator[str]:
    for component, values in m.energy.by_component.items():
        low, nominal, high = values
        if not (0 <= low <= nominal <= high and isfinite(high)):
            yield f"{component}: low, nominal, high {low}, {nominal}, {high} pJ"
    components = fsum(nominal for _, nominal, _ in m.energy.by_component.values())
    operators = fsum(float(value) for value in m.energy.by_operator)
    if abs(components - operators) > ENERGY_TOLERANCE * components:
        yield f"components {components} pJ, operators {operators} pJ"


def _transfers_do_not_overlap(m: Measurement) -> Iterator[str]:
    """One server: begins are rounded down and ends up to whole cycles, so neighbours may share one cycle."""
    tasks = np.flatnonzero(m.program.is_memory & (m.timeline.released > m.timeline.served))
    if m.program.memory.model not in ("bandwidth", "pattern"):
        return
    served, released = m.timeline.served[tasks], m.timeline.released[tasks]
    order = np.lexsort((released, served))
    early = served[order][1:] < released[order][:-1] - 1
    for i in np.flatnonzero(early)[:1]:
        first, second = tasks[order[i]], tasks[order[i + 1]]
        end, begin = m.timeline.released[first], m.timeline.served[second]
        yield f"task {first} is served until {end}, task {second} from {begin}"


def _transactions_add_up(m: Measurement) -> Iterator[str]:
    """Every transaction asked for went over a data bus, or was answered by a write that waited."""
    counted, system, program = m.timeline.dram, m.program.memory.system, m.program
    if counted is None or system is None:
        return
    size = system.device.geometry.transaction_bytes
    asked = int(transactions(program.requests, size).sum())
    answered = counted.forwarded + counted.coalesced + counted.merged
    if asked * size != counted.bus_bytes + answered * size or counted.unsent_writes:
        yield f"{asked} transactions asked, {counted.bus_bytes // size} on the bus, {answered} answered"
    if counted.bus_overlaps:
        yield f"{counted.bus_overlaps} bursts began before the last one on their bus had ended"


def _storage_fits(m: Measurement) -> Iterator[str]:
    second_level = m.arch.second_level
    capacities = {
        "scratchpad": m.arch.scratchpad.capacity_bytes,
        "accumulator": m.arch.accumulator.capacity_bytes,
        "level2": second_level.capacity_bytes if second_level else 0,
    }
    yield from broken_allocations(m.program.allocations, m.timeline, capacities)


LAWS: dict[str, Law] = {
    "busy + stalls + tail + idle = total for every unit": _units_add_up,
    "useful MACs = MACs of the trace": _macs_are_the_traces,
    "every counter is in [0, 2^63)": _counters_in_range,
    "utilization is in [0, 1], 0 only without MACs": _utilization_in_range,
    "total >= each bound": _total_keeps_bounds,
    "the critical path sums to the total": _critical_path_adds_up,
    "energy by component = energy by operator": _energy_adds_up,
    "DRAM transfers do not overlap": _transfers_do_not_overlap,
    "DRAM transactions asked = on the bus + answered, bursts apart": _transactions_add_up,
    "buffers fit and do not overlap": _storage_fits,
}
