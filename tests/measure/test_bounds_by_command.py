"""The least that a request takes when the DRAM runs every command."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accelsim.compile.program import Memory
from accelsim.engine import run
from accelsim.hardware.dram import preset
from accelsim.hardware.dram.system import DramSystem
from accelsim.measure.bounds import dependency_cycles
from tests.measure.programs import program, task

DDR4 = preset("ddr4_2400")
FIRST = DDR4.timing.cl  # clocks from a read command to its first datum
PATH, ISSUE = 5, 7
OWN_CLOCK = Fraction(10**6, DDR4.timing.clock_ps)


def by_command(cycles_per_clock: int = 1) -> Memory:
    system = DramSystem(DDR4, OWN_CLOCK * cycles_per_clock, 64, path_clocks=PATH)
    rate = system.peak_bytes_per_cycle
    return Memory("command", rate, rate, issue_cycles=ISSUE, system=system)


@pytest.mark.parametrize("cycles_per_clock", [1, 3])
@pytest.mark.parametrize("transactions", [1, 100])
def test_a_load_takes_issue_first_datum_all_data_and_the_way(transactions: int, cycles_per_clock: int) -> None:
    load = program([task("load", size=64 * transactions)], by_command(cycles_per_clock))
    least = ISSUE + cycles_per_clock * (FIRST + transactions * DDR4.timing.burst + PATH)
    assert dependency_cycles(load) == least <= run(load).total


@pytest.mark.parametrize("transactions", [1, 100])
def test_a_store_takes_a_clock_for_each_transaction_of_a_channel(transactions: int) -> None:
    store = program([task("store", size=64 * transactions)], by_command())
    assert dependency_cycles(store) == ISSUE + transactions <= run(store).total


def test_data_that_waiting_writes_answered_need_no_bus() -> None:
    asked = 20
    tasks = [task("store", size=64 * asked), task("load", size=64 * asked, waits=[(0, "done")])]
    both = program(tasks, by_command())
    timeline = run(both)
    assert timeline.dram is not None
    on_bus = asked - timeline.dram.forwarded
    assert 0 < on_bus < asked
    load = ISSUE + FIRST + on_bus * DDR4.timing.burst + PATH
    assert dependency_cycles(both, timeline.dram) == ISSUE + asked + load <= timeline.total


def test_a_load_that_a_waiting_write_answers_takes_a_clock_and_the_way() -> None:
    """It reads the last bytes of the write before it."""
    asked = 20
    tasks = [task("store", size=64 * asked), task("load", size=64, waits=[(0, "done")])]
    both = replace(program(tasks, by_command()), address=np.array([0, 64 * (asked - 1)], np.int64))
    timeline = run(both)
    assert timeline.dram is not None
    assert timeline.dram.forwarded == 1
    assert dependency_cycles(both, timeline.dram) == ISSUE + asked + ISSUE + 1 + PATH == timeline.done[1]
