"""Every law of a run, broken once, is found and named."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from accelsim.compile.program import Allocation
from accelsim.errors import InternalError
from accelsim.hardware.dram import DramStats, preset
from accelsim.hardware.dram.system import DramSystem, transactions
from accelsim.measure.laws import LAWS, check_laws, check_timeline
from accelsim.measure.measurement import take
from accelsim.measure.sums import sum_by
from tests.measure.programs import machine, matmul_trace, worked_example


@pytest.fixture(scope="module")
def measurement():
    program, timeline = worked_example()
    return take(program, timeline, machine(), matmul_trace())


def changed(array, index, by):
    """A copy of `array` with `by` added at `index`."""
    copy = array.copy()
    copy[index] += by
    return copy


def test_the_worked_example_keeps_every_law(measurement):
    check_laws(measurement)


def test_a_run_that_waits_for_its_last_write_keeps_every_law():
    program, timeline = worked_example()
    later = take(program, replace(timeline, total=timeline.total + 7), machine(), matmul_trace())
    assert later.path.write_tail == 7
    check_laws(later)


def lost_cycle(m):
    return replace(m, units=replace(m.units, idle=changed(m.units.idle, 4, -1)))


def negative_tail(m):
    units = replace(m.units, tail=changed(m.units.tail, 4, -1), idle=changed(m.units.idle, 4, 1))
    return replace(m, units=units)


def macs_twice(m):
    return replace(m, operators=replace(m.operators, placed_macs=(2 * m.trace.macs,)))


def macs_lost(m):
    return replace(m, operators=replace(m.operators, macs=(0,), placed_macs=(0,), ideal_cycles=(0,)))


def bytes_below_zero(m):
    return replace(m, operators=replace(m.operators, read_bytes=np.array([-1], np.int64), write_bytes=np.array([0])))


def counter_too_large(m):
    return replace(m, timeline=replace(m.timeline, dram=counted(commands=Counter(RD=2**63))))


def counted(**changes):
    """What a DRAM counted that did nothing, with changes."""
    idle = {field.name: 0 for field in fields(DramStats)}
    return DramStats(**(idle | {"commands": Counter(), "mean_read_latency": None} | changes))


def by_command(m, **changes):
    """The measurement as if its DRAM had run every command, one transaction for all bytes of each row."""
    system = DramSystem(preset("ddr4_2400"), 1000, 64)
    asked = int(transactions(m.program.requests, 64).sum())
    memory = replace(m.program.memory, system=system)
    dram = counted(**({"bus_bytes": 64 * asked} | changes))
    return replace(m, program=replace(m.program, memory=memory), timeline=replace(m.timeline, dram=dram))


def transaction_lost(m):
    right = by_command(m)
    return by_command(m, bus_bytes=right.timeline.dram.bus_bytes - 64)


def bursts_overlap(m):
    return by_command(m, bus_overlaps=3)


def utilization_above_one(m):
    return replace(m, operators=replace(m.operators, span=np.array([511])))


def faster_than_dram(m):
    return replace(m, bounds=replace(m.bounds, dram_cycles=m.timeline.total + 1))


def path_too_short(m):
    return replace(m, path=replace(m.path, cycles=changed(m.path.cycles, (0, 0), -1)))


def energy_lost(m):
    nominal = np.asarray(m.energy.by_operator, np.float64)
    return replace(m, energy=replace(m.energy, by_operator=nominal * (1 + 1e-8)))


def energy_out_of_order(m):
    components = {name: (high, nominal, low) for name, (low, nominal, high) in m.energy.by_component.items()}
    return replace(m, energy=replace(m.energy, by_component=components))


def two_transfers_at_once(m):
    return replace(m, timeline=replace(m.timeline, served=changed(m.timeline.served, 2, -2)))


def buffers_overlap(m):
    moved = [replace(held, address=0) if held.name == "b0" else held for held in m.program.allocations]
    return replace(m, program=replace(m.program, allocations=tuple(moved)))


def buffer_too_large(m):
    large = Allocation("scratchpad", "c", 0, 64 * 1024 + 1, 10, 10)
    return replace(m, program=replace(m.program, allocations=(large,)))


@pytest.mark.parametrize(
    ("breaking", "message"),
    [
        (lost_cycle, r"busy \+ stalls .* core0.vector: .* total 2403"),
        (negative_tail, r"busy \+ stalls .* core0.vector"),
        (macs_twice, "useful MACs .* 16777216 MACs placed, 8388608 in the trace"),
        (macs_lost, "useful MACs .* operators have 0 MACs, the trace 8388608"),
        (bytes_below_zero, r"every counter .* DRAM bytes is -1"),
        (counter_too_large, r"every counter .* RD is 9223372036854775808"),
        (utilization_above_one, "utilization .* need 512 cycles at peak, it spans 511"),
        (faster_than_dram, "total >= each bound: total 2403 is below dram_cycles 2404"),
        (path_too_short, "critical path .* by unit 2402"),
        (energy_lost, "energy by component = energy by operator"),
        (energy_out_of_order, "energy by component .* low, nominal, high"),
        (two_transfers_at_once, "transfers do not overlap: task 1 is served until 768, task 2 from 766"),
        (transaction_lost, "DRAM transactions asked .* 2048 transactions asked, 2047 on the bus, 0 answered"),
        (bursts_overlap, "DRAM transactions asked .* 3 bursts began before"),
        (buffers_overlap, "buffers fit .* share bytes"),
        (buffer_too_large, "buffers fit .* capacity 65536"),
    ],
)
def test_a_broken_law_is_named(measurement, breaking, message):
    with pytest.raises(InternalError, match=f"law broken: .*{message}"):
        check_laws(breaking(measurement))


def test_every_law_has_a_test_that_breaks_it(measurement):
    breakers = (
        lost_cycle, macs_twice, counter_too_large, utilization_above_one, faster_than_dram, path_too_short, energy_lost,
        two_transfers_at_once, transaction_lost, buffers_overlap,
    )  # fmt: skip
    broken = {name for breaker in breakers for name, law in LAWS.items() if list(law(breaker(measurement)))}
    assert broken == set(LAWS)


def test_declared_recomputation_is_counted_apart(measurement):
    program = replace(measurement.program, notes={"recomputed_macs": {0: measurement.trace.macs}})
    check_laws(replace(macs_twice(measurement), program=program))
    assert macs_twice(measurement).operators.recomputed_macs == (measurement.trace.macs,)


@pytest.mark.parametrize(
    ("name", "task", "by", "message"),
    [
        ("released", 4, 1, "released is start \\+ occupy: task 4 on core0.array0.stream"),
        ("done", 4, 1, "done is start \\+ latency: task 4"),
        ("done", 10, 1, "<= total: task 10"),
        ("served", 0, 257, "presented, then served, then released: task 0 on core0.load0"),
        ("served", 1, -1, "presented, then served, then released: task 1 on core0.load0"),
    ],
)
def test_a_timeline_that_is_not_the_programs_is_refused(name, task, by, message):
    program, timeline = worked_example()
    wrong = replace(timeline, **{name: changed(getattr(timeline, name), task, by)})
    with pytest.raises(InternalError, match=message):
        check_timeline(program, wrong)


def test_a_sum_beyond_63_bits_is_refused():
    values = np.full(2, 2**62, np.int64)
    assert sum_by(np.array([0, 1], np.int32), values, 2).tolist() == [2**62, 2**62]
    with pytest.raises(InternalError, match="reaches 2\\^63"):
        sum_by(np.zeros(2, np.int32), values, 1)


def test_sums_are_exact_where_floating_point_is_not():
    values = np.array([2**53, 1, 1], np.int64)
    assert sum_by(np.zeros(3, np.int32), values, 1).tolist() == [2**53 + 2]
