"""Single situations of the stall walk, small enough to check by hand."""

from fractions import Fraction

import pytest

from accelsim.compile.program import CAUSES, Memory
from accelsim.engine import run
from accelsim.measure.binding import binding_producers
from accelsim.measure.critical_path import critical_path
from accelsim.measure.utilization import BUSY_PARTS, unit_cycles
from tests.measure.programs import UNITS, program, task

IDEAL = Memory("ideal")


def account(tasks, memory=IDEAL):
    made = program(tasks, memory)
    timeline = run(made)
    units = unit_cycles(made, timeline, binding_producers(made, timeline))
    rows = {}
    for i, name in enumerate(UNITS):
        stalls = dict(zip(CAUSES, units.stalls[i].tolist(), strict=True))
        busy = dict(zip(BUSY_PARTS, units.busy[i].tolist(), strict=True))
        rows[name] = ({k: v for k, v in busy.items() if v}, {k: v for k, v in stalls.items() if v})
    return rows


def test_own_latency_when_a_task_waits_for_the_one_before_it():
    rows = account([task("stream", 10, 30), task("stream", 10, waits=[(0, "done")])])
    assert rows["stream"] == ({"useful": 20}, {"own_latency": 20})


def test_walk_passes_another_unit_before_it_ends_in_own_latency():
    rows = account(
        [task("stream", 10, 30), task("vector", 5, waits=[(0, "done")]), task("stream", 1, waits=[(1, "done")])]
    )
    assert rows["stream"][1] == {"vector": 5, "own_latency": 20}


def test_scratchpad_part_is_the_last_of_occupy():
    limited = task("vector", 10, 12, parts={"useful": 6, "scratchpad": 4})
    rows = account([limited, task("stream", 1, waits=[(0, "start", 7)]), task("drain", 1, waits=[(0, "done")])])
    assert rows["stream"][1] == {"vector": 6, "scratchpad": 1}
    assert rows["drain"][1] == {"vector": 6 + 2, "scratchpad": 4}


def test_issue_part_of_a_load_is_charged_to_the_dma():
    memory = Memory("bandwidth", Fraction(4), Fraction(4), latency_cycles=7, issue_cycles=3)
    rows = account([task("load", size=10), task("stream", 1, waits=[(0, "done")])], memory)
    assert rows["stream"][1] == {"dma_issue": 3, "dram_read": 3 + 7}
    assert rows["load"][0] == {"issue": 3, "transfer": 3}


def test_load_that_waits_for_its_slot_passes_the_stall_on():
    memory = Memory("bandwidth", Fraction(1), Fraction(1))
    tasks = [
        task("vector", 50),
        task("load", size=5, waits=[(0, "released")]),
        task("stream", 1, waits=[(1, "done")]),
    ]
    assert account(tasks, memory)["stream"][1] == {"vector": 50, "dram_read": 5}


def test_a_request_that_waits_for_the_server_counts_as_queue():
    memory = Memory("bandwidth", Fraction(1), Fraction(1))
    rows = account([task("load", size=20), task("store", size=5)], memory)
    assert rows["store"][0] == {"queue": 20, "transfer": 5}


def test_ideal_memory_never_stalls():
    tasks = [task("load", size=9), task("stream", 10, 20, [(0, "done")]), task("load", size=9, waits=[(1, "released")])]
    tasks += [task("vector", 3, waits=[(1, "done"), (2, "done")]), task("store", size=4, waits=[(3, "done")])]
    causes = {cause for _, stalls in account(tasks).values() for cause in stalls}
    assert causes == {"array", "vector"}


@pytest.mark.parametrize("waits", [[(0, "done"), (1, "done")], [(1, "done"), (0, "done")]])
def test_ties_go_to_the_lowest_id(waits):
    made = program([task("vector", 10), task("stream", 10), task("drain", 1, waits=waits)], IDEAL)
    assert binding_producers(made, run(made)).tolist() == [-1, -1, 0]


def test_issue_takes_no_time_with_ideal_memory():
    rows = account([task("load", size=9), task("stream", 4, waits=[(0, "done")])], Memory("ideal", issue_cycles=5))
    assert rows["load"] == ({}, {})
    assert rows["stream"] == ({"useful": 4}, {})


def test_an_operator_off_the_critical_path_is_bound_by_nothing():
    made = program(
        [task("vector", 10, op=0), task("stream", 3, op=1), task("drain", 5, waits=[(0, "done")], op=0)], IDEAL
    )
    timeline = run(made)
    path = critical_path(made, timeline, binding_producers(made, timeline), 2)
    assert path.by_operator.tolist() == [15, 0]
    assert path.bounding_units == [list(UNITS).index("vector"), None]
