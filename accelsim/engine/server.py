"""The DRAM as one server, first come, first served: `bandwidth` and `pattern` memory, for the kernels of `compiled`.

A request holds the server for its service time, exact in ticks of a cycle. Times are rounded up to whole cycles only
where a unit sees them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.engine.units import NOBODY
from accelsim.jit import inner

# The server: free from `free_cycle` and `free_tick` (a part of a cycle) on; `waiting` requests are in its heap. The
# times of the last request served stand in `begin`, `released`, `done`.
SERVER = np.dtype([(n, "i8") for n in ("ticks", "free_cycle", "free_tick", "waiting", "begin", "released", "done")])

# A request at the server, ordered by the cycle in which it was presented, then by task.
REQUEST = np.dtype([(name, "i8") for name in ("cycle", "task", "service_cycles", "service_ticks", "latency")])


@inner
def submit(
    server: Any, requests: Any, task: int, cycle: int, service_cycles: int, service_ticks: int, latency: int
) -> None:
    """Present a load or store to the DRAM in this cycle."""
    place = server.waiting
    server.waiting += 1
    while place > 0:
        parent = (place - 1) // 2
        if not _precedes(cycle, task, requests[parent]):
            break
        requests[place] = requests[parent]
        place = parent
    mine = requests[place]
    mine.cycle, mine.task = cycle, task
    mine.service_cycles, mine.service_ticks, mine.latency = service_cycles, service_ticks, latency


@inner
def serve_first(server: Any, requests: Any) -> int:
    """Serve the request presented first: its times stand in `server`. Its task, or NOBODY.

    Service begins when the server is free, and ends for the unit at the next whole cycle.
    """
    if server.waiting == 0:
        return NOBODY
    first = requests[0]
    task = first.task
    if first.cycle > server.free_cycle:
        server.free_cycle = first.cycle
        server.free_tick = 0
    server.begin = server.free_cycle
    tick = server.free_tick + first.service_ticks
    carry = tick >= server.ticks
    server.free_cycle += first.service_cycles + carry
    server.free_tick = tick - server.ticks * carry
    server.released = server.free_cycle + (server.free_tick > 0)
    server.done = server.released + first.latency
    _remove_first(server, requests)
    return int(task)


@inner
def _remove_first(server: Any, requests: Any) -> None:
    server.waiting -= 1
    last = requests[server.waiting]
    place, child = 0, 1
    while child < server.waiting:
        right = child + 1
        if right < server.waiting and _precedes(requests[right].cycle, requests[right].task, requests[child]):
            child = right
        if not _precedes(requests[child].cycle, requests[child].task, last):
            break
        requests[place] = requests[child]
        place, child = child, 2 * child + 1
    requests[place] = last


@inner
def _precedes(cycle: int, task: int, other: Any) -> bool:
    """True if a request (cycle, task) goes before the other one."""
    return bool(cycle < other.cycle or (cycle == other.cycle and task < other.task))
