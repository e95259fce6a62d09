"""The `pattern` model: service times of whole requests, measured once for each shape by running the commands.

A request of `rows` runs is repeated as a DMA would, one after the other, on an otherwise idle DRAM, and its share of
the time is what it takes from then on. Kept out and put back by formula: refresh, which takes the same part of the
time from everybody. Left out: what reads, writes and other streams do to one another.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np

from accelsim.hardware.dram.dma import RELEASED, Memory, advance, submit
from accelsim.hardware.dram.state import NEVER
from accelsim.hardware.dram.system import DramSystem, new_memory, transactions
from accelsim.jit import kernel

TICKS = 1024  # of a core cycle
LEAST_TRANSACTIONS = 4096  # measured for each shape, after half as many that are not
LONGEST_RUN = 1 << 15  # bytes of a run, and
MOST_TRANSACTIONS = 1 << 14  # of a request, that are run; longer ones take longer in proportion


@lru_cache(maxsize=100_000)
def service_ticks(
    system: DramSystem, queues: int, is_write: bool, offset: int, rows: int, row_bytes: int, pitch: int
) -> int:
    """Time that a request takes from the DRAM in a stream of its like, in ticks of a core cycle.

    `queues` DMA queues take turns, each `issue_cycles` after its last request was accepted: a period that includes the
    issue where that is not hidden. `offset` is the address within a transaction, `pitch` the distance of the rows in
    bytes. Never less than the useful bytes take at the DRAM's peak.
    """
    size = system.device.geometry.transaction_bytes
    part, scale = _part(rows, row_bytes, size)
    asked = int(transactions(np.array([[offset], [part[0]], [part[1]], [pitch]]), size)[0])
    count = max(2 * queues, 2, ceil(LEAST_TRANSACTIONS / asked))
    count += -count % queues
    still = replace(system.device, timing=replace(system.device.timing, refi=0))
    memory = new_memory(replace(system, device=still), queues)
    cycles = int(_measure(memory, queues, count, is_write, offset, *part, pitch, system.issue_cycles))
    period = Fraction(cycles, count) * scale * _refresh(system)
    return ceil(max(period, rows * row_bytes / system.peak_bytes_per_cycle) * TICKS)


def _part(rows: int, row_bytes: int, size: int) -> tuple[tuple[int, int], Fraction]:
    """The part of a large request that is run, (rows, bytes of each), and how often it is in the whole."""
    length = row_bytes if row_bytes <= LONGEST_RUN else LONGEST_RUN
    some = min(rows, max(1, MOST_TRANSACTIONS * size // length))
    return (some, length), Fraction(rows * row_bytes, some * length)


def _refresh(system: DramSystem) -> Fraction:
    """Time with refresh over time without: in each interval the rank is closed, refreshed, and opened again."""
    t = system.device.timing
    taken = t.rfc + (t.rp if t.rp_all is None else t.rp_all) + t.rcd_rd
    return Fraction(t.refi, t.refi - taken) if t.refi > taken else Fraction(1)


@kernel
def _measure(
    memory: Memory, queues: int, count: int, is_write: bool, offset: int, rows: int, row_bytes: int, pitch: int,
    issue: int,
) -> int:  # fmt: skip
    """Cycles that `count` requests take after half as many: from release to release."""
    dma = memory.dma[0]
    warm = (count // 2 + queues - 1) // queues * queues
    presented, released, begin = 0, 0, 0
    while presented < queues:
        _present(memory, presented, presented, 0, is_write, offset, rows, row_bytes, pitch)
        presented += 1
    while True:
        for place in range(advance(memory, NEVER // dma.dram)):
            event = dma.due[place]
            if event.what != RELEASED:
                continue
            released += 1
            if released == warm:
                begin = event.cycle
            elif released == warm + count:
                return int(event.cycle - begin)
            _present(
                memory, event.task % queues, event.task + queues, event.cycle + issue, is_write, offset, rows,
                row_bytes, pitch,
            )  # fmt: skip


@kernel
def _present(
    memory: Memory, queue: int, task: int, cycle: int, is_write: bool, offset: int, rows: int, row_bytes: int,
    pitch: int,
) -> None:  # fmt: skip
    """Request number `task`: the block beside the last one; after the last of a row of blocks, those below."""
    across = max(1, pitch // row_bytes) if rows > 1 else 1
    down = rows * pitch if rows > 1 else row_bytes
    address = offset + task % across * row_bytes + task // across * down
    submit(memory, queue, task, cycle, is_write, address, rows, row_bytes, pitch)
