"""Buffers in time and space."""

from accelsim.compile.program import Allocation
from accelsim.measure.storage import broken_allocations
from tests.measure.programs import timeline

# Tasks 0, 1, 2 run one after the other; task 1's result comes late.
TIMES = timeline([(0, 10, 10), (10, 20, 35), (20, 30, 30)], [-1, -1, -1])
CAPACITY = {"scratchpad": 100, "accumulator": 10}


def findings(*allocations):
    return list(broken_allocations(allocations, TIMES, CAPACITY))


def test_same_bytes_at_different_times_are_fine():
    assert not findings(Allocation("scratchpad", "a", 0, 100, 0, 1), Allocation("scratchpad", "b", 0, 100, 2, 2))


def test_same_time_at_different_bytes_is_fine():
    assert not findings(Allocation("scratchpad", "a", 0, 50, 0, 2), Allocation("scratchpad", "b", 50, 50, 0, 2))


def test_same_bytes_at_the_same_time_are_found():
    found = findings(Allocation("scratchpad", "a", 0, 51, 0, 2), Allocation("scratchpad", "b", 50, 50, 1, 2))
    assert found == ["scratchpad: b and a share bytes while both live (task 1)"]


def test_a_small_buffer_inside_a_large_one_is_found():
    assert findings(Allocation("scratchpad", "a", 0, 100, 0, 2), Allocation("scratchpad", "b", 20, 5, 1, 1))
    assert findings(Allocation("scratchpad", "a", 20, 5, 0, 2), Allocation("scratchpad", "b", 0, 100, 1, 1))


def test_what_is_there_before_the_run_lives_from_cycle_0():
    assert findings(Allocation("scratchpad", "a", 0, 10, -1, 2), Allocation("scratchpad", "b", 0, 10, 0, 0))


def test_spaces_do_not_mix():
    assert not findings(Allocation("scratchpad", "a", 0, 10, 0, 2), Allocation("accumulator", "b", 0, 10, 0, 2))
    assert findings(Allocation("accumulator", "b", 1, 10, 0, 2)) == ["accumulator: b at bytes 1 to 11, capacity 10"]
