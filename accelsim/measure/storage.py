"""Do the buffers that live at the same time fit, each at its own address?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from accelsim.compile.program import Allocation
from accelsim.engine.timeline import Timeline


def broken_allocations(
    allocations: Sequence[Allocation], timeline: Timeline, capacities: Mapping[str, int]
) -> Iterator[str]:
    """What is wrong with `allocations`, one line each; `capacities` in bytes by space.

    Each must lie within its space, and no two that live at the same time may share a byte; so the bytes alive at any
    time never exceed the capacity. A buffer lives from its first writer's start to its last reader's `released`: from
    then on the slot may be written again (DESIGN 4.3).
    """
    for held in allocations:
        if held.address < 0 or held.bytes < 0 or held.address + held.bytes > capacities[held.space]:
            end = held.address + held.bytes
            yield f"{held.space}: {held.name} at bytes {held.address} to {end}, capacity {capacities[held.space]}"
    for space in dict.fromkeys(held.space for held in allocations):
        yield from _collisions([held for held in allocations if held.space == space and held.bytes], timeline)


def _collisions(allocations: Sequence[Allocation], timeline: Timeline) -> Iterator[str]:
    """Sweep over time with the living buffers in order of address: a new one can only collide with its neighbours."""
    living: list[tuple[int, int, int]] = []  # address, end, index
    for _, begins, index in _events(allocations, timeline):
        held = allocations[index]
        entry = (held.address, held.address + held.bytes, index)
        position = bisect_left(living, entry)
        if not begins:
            del living[position]
            continue
        for address, end, other in living[max(0, position - 1) : position + 1]:
            if address < entry[1] and held.address < end:
                name = allocations[other].name
                yield f"{held.space}: {held.name} and {name} share bytes while both live (task {held.first_writer})"
        living.insert(position, entry)


def _events(allocations: Sequence[Allocation], timeline: Timeline) -> list[tuple[int, bool, int]]:
    """(cycle, begins, index) of each allocation's begin and end, ends first; those that live no time are left out."""
    events = []
    for index, held in enumerate(allocations):
        begin = int(timeline.start[held.first_writer]) if held.first_writer >= 0 else 0  # -1: there before the run
        end = int(timeline.released[held.last_reader])
        if begin < end:
            events += [(begin, True, index), (end, False, index)]
    return sorted(events)
