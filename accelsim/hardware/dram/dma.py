"""The incremental interface for the engines: DMA queues that present tasks, and DRAM time advanced on demand.

A task is a block of rows in memory, read or written. `submit` gives it to its queue; `advance` runs the DRAM until a
task is RELEASED (its last transaction accepted: the queue may take the next task) or DONE (a read's last datum has
arrived; a write's last transaction was accepted). Core cycles outside, DRAM clocks inside, exact rationals between:
core cycle t is DRAM clock ceil(t x f_dram / f_core); what a clock brings about is known to the core at
ceil(clock x f_core / f_dram).

In each DRAM clock the queues present transactions in turn, from a queue that moves on by one each clock: one a turn,
in order within a queue, at most one for each channel, until none is accepted. A read is in flight until its datum
arrives, a write until it is accepted; `outstanding` bounds a queue's reads in flight. Where the way between core and
DRAM is narrower than the DRAM, `bytes_per_clock` paces what the queues present; it adds `path_clocks` to each read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accelsim.hardware.dram import front_end
from accelsim.hardware.dram.mapping import locate_one
from accelsim.hardware.dram.state import ANSWERED, BANK_QUEUE, NEVER, NOBODY, REFUSED, State
from accelsim.jit import inlined, inner, kernel

RELEASED, DONE = 0, 1
UNTIL_IDLE = -1  # a limit of `advance`

MAX_QUEUES, MAX_IN_FLIGHT = 64, 16384  # of one memory

# The head task of a queue: its transaction at `address` (in `channel`, `bank`, `row`), the row of the task it is in.
QUEUE = np.dtype(
    [(n, "i8") for n in ("task", "is_write", "address", "channel", "bank", "row", "row_start", "row_bytes", "pitch")]
    + [(n, "i8") for n in ("rows", "served", "start_clock", "in_flight", "flight")]
)
# A read task under way: transactions whose datum has not come, and when the latest one comes.
FLIGHT = np.dtype([(n, "i8") for n in ("task", "left", "latest", "served")])
EVENT = np.dtype([(n, "i8") for n in ("cycle", "task", "what", "served")])
RETURN = np.dtype([("clock", "i8"), ("queue", "i8")])

# `clock`: the first DRAM clock not yet run; nothing happens before `soonest`. A core cycle is `dram` / `core` clocks.
# `pending`: events that tasks still await. The way to the DRAM carries `pace` ticks a clock, a transaction takes
# `size` (pace 0: no limit); `credit` ticks are left in clock `paced_at`, in which nobody waited unless `held`.
DMA = np.dtype(
    [(n, "i8") for n in ("clock", "soonest", "dram", "core", "queue_count", "outstanding", "path", "earliest")]
    + [(n, "i8") for n in ("pending", "event_count", "return_count", "first_return")]
    + [(n, "i8") for n in ("pace", "size", "credit", "paced_at", "held")]
    + [
        ("queues", QUEUE, (MAX_QUEUES,)),
        ("flights", FLIGHT, (MAX_IN_FLIGHT,)),  # `outstanding` of each queue
        ("returns", RETURN, (MAX_IN_FLIGHT,)),  # a ring: when the datum of each read arrives
        ("events", EVENT, (MAX_IN_FLIGHT + 2 * MAX_QUEUES,)),  # what the core does not know yet, unordered
        ("due", EVENT, (MAX_IN_FLIGHT + 2 * MAX_QUEUES,)),  # what `advance` returned
    ]
)


class Memory(NamedTuple):
    """The DRAM with its DMA queues."""

    state: State
    dma: Any  # [1] DMA


@kernel
def submit(
    memory: Memory, queue: int, task: int, cycle: int, is_write: bool, address: int, rows: int, row_bytes: int,
    pitch: int,
) -> None:  # fmt: skip
    """Present a task at core cycle `cycle`: `rows` runs of `row_bytes` (both > 0), `pitch` bytes apart.

    The queue's previous task must have been RELEASED, and the DRAM must not have been advanced beyond this cycle.
    """
    dma, mapping = memory.dma[0], memory.state.mapping[0]
    head = dma.queues[queue]
    head.task, head.is_write = task, is_write
    head.row_start, head.row_bytes, head.pitch, head.rows = address, row_bytes, pitch, rows
    head.served = head.flight = NOBODY
    head.start_clock = to_dram(dma, cycle)
    dma.pending += 2
    _locate(mapping, head, address >> mapping.offset << mapping.offset)
    dma.soonest = min(dma.soonest, head.start_clock)


@inner
def _locate(mapping: Any, head: Any, address: int) -> None:
    head.address = address
    head.channel, head.bank, head.row = locate_one(mapping, address)


@kernel
def to_dram(dma: Any, cycle: int) -> int:
    return int((cycle * dma.dram + dma.core - 1) // dma.core)


@kernel
def last_cycle(dma: Any) -> int:
    """A limit for `advance` that no run reaches: the last core cycle whose clock is before NEVER."""
    return int(NEVER // dma.dram)


@inner
def _to_core(dma: Any, clock: int) -> int:
    return int((clock * dma.core + dma.dram - 1) // dma.dram)


@kernel
def advance(memory: Memory, limit: int) -> int:
    """Run until core cycle `limit` or the first cycle at which a task is RELEASED or DONE, whichever is earlier.

    Returns how many events fall in that cycle (0: none by `limit`); they stand in `due`, by task, RELEASED first.
    UNTIL_IDLE as the limit: run until no command is under way, and return 0.
    """
    dma, state = memory.dma[0], memory.state
    rules, mapping, channels = state.rules[0], state.mapping[0], state.channels
    until = to_dram(dma, limit)
    while True:
        following = max(dma.clock, dma.soonest)
        # After the last clock nothing else will ever happen: no cycle has the number of the following one.
        is_last = not _busy(channels) if limit == UNTIL_IDLE else following >= until
        if dma.earliest <= limit and (is_last or dma.earliest < _to_core(dma, following + 1)):
            return _take_due(dma)
        if is_last:
            return 0
        _run_clock(state.per_bank, rules, mapping, channels, dma, following)


def drain(memory: Memory) -> int:
    """Run until no command is under way; returns the core cycle at which the last write burst has ended."""
    advance(memory, UNTIL_IDLE)
    dma, last_write = memory.dma[0], int(memory.state.channels.last_write.max())
    clock = last_write + int(memory.state.rules[0].write_latency) if last_write != NOBODY else 0
    return -(-clock * int(dma.core) // int(dma.dram))


@inner
def _busy(channels: Any) -> bool:
    for index in range(channels.size):
        channel = channels[index]
        if channel.reads + channel.writes + channel.queued + channel.occupied_count[BANK_QUEUE] > 0:
            return True
    return False


@inlined
def _take_due(dma: Any) -> int:
    """Move the events of the earliest cycle to `due`, sorted by task and kind."""
    cycle, taken, index = dma.earliest, 0, 0
    dma.earliest = NEVER
    while index < dma.event_count:
        event = dma.events[index]
        if event.cycle != cycle:
            dma.earliest = min(dma.earliest, event.cycle)
            index += 1
            continue
        place = taken
        while place > 0 and _precedes(event, dma.due[place - 1]):
            dma.due[place] = dma.due[place - 1]
            place -= 1
        dma.due[place] = event
        taken += 1
        dma.pending -= 1
        dma.event_count -= 1
        dma.events[index] = dma.events[dma.event_count]
    return taken


@inner
def _precedes(event: Any, other: Any) -> bool:
    return bool(event.task < other.task or (event.task == other.task and event.what < other.what))


@inner
def _add_event(dma: Any, clock: int, task: int, what: int, served: int) -> None:
    event = dma.events[dma.event_count]
    dma.event_count += 1
    event.cycle, event.task, event.what = _to_core(dma, clock), task, what
    event.served = _to_core(dma, served)
    dma.earliest = min(dma.earliest, event.cycle)


@inner
def _run_clock(per_bank: int | None, rules: Any, mapping: Any, channels: Any, dma: Any, now: int) -> None:
    """One DRAM clock, and when the next thing can happen.

    Phases: data arrive; the queues present transactions; the channels issue.
    """
    _land(dma, now)
    again = _present(per_bank, rules, mapping, channels, dma, now)
    before_tick = 0 if rules.per_bank else 1
    tick, soonest = now + before_tick, NEVER
    for index in range(channels.size):
        channel = channels[index]
        if channel.next <= tick:
            served = front_end.tick(per_bank, rules, channel, tick)
            if served != NOBODY and not channel.slots[served].write:
                _datum(dma, channel.slots[served].owner, tick + rules.read_latency + dma.path)
        soonest = min(soonest, channel.next)
    dma.clock, dma.soonest = now + 1, min(soonest - before_tick, again)


@inlined
def _land(dma: Any, now: int) -> None:
    """Data that have arrived make room for further reads."""
    while dma.return_count > 0 and dma.returns[dma.first_return].clock <= now:
        dma.queues[dma.returns[dma.first_return].queue].in_flight -= 1
        dma.first_return = (dma.first_return + 1) & (MAX_IN_FLIGHT - 1)
        dma.return_count -= 1


@inlined
def _datum(dma: Any, owner: int, arrives: int) -> None:
    """A read command has issued: its datum arrives at clock `arrives`, the same latency for all reads."""
    latest = dma.returns[(dma.first_return + dma.return_count) & (MAX_IN_FLIGHT - 1)]
    latest.clock, latest.queue = arrives, owner // dma.outstanding
    dma.return_count += 1
    _count_datum(dma, dma.flights[owner], arrives)


@inner
def _count_datum(dma: Any, flight: Any, arrives: int) -> None:
    flight.left -= 1
    flight.latest = max(flight.latest, arrives)
    if flight.left == 0:
        _add_event(dma, flight.latest, flight.task, DONE, flight.served)


@inner
def _present(per_bank: int | None, rules: Any, mapping: Any, channels: Any, dma: Any, now: int) -> int:
    """The queues present transactions in turn. Returns when to try again at the latest.

    A channel that was full has room after a command, and the clock after a command is always run.
    """
    again, going = NEVER, True
    count = dma.queue_count
    _carry(dma, now)
    while going:
        going = False
        for turn in range(count):
            number = (now + turn) % count
            head = dma.queues[number]
            if head.task == NOBODY:
                continue
            if head.start_clock > now:
                again = min(again, head.start_clock)
            elif not head.is_write and head.in_flight >= dma.outstanding:
                if dma.return_count > 0:  # else a command has to issue first
                    again = min(again, dma.returns[dma.first_return].clock)
            elif dma.pace > 0 and dma.credit < dma.size:
                dma.held = True
                again = min(again, now + (dma.size - dma.credit + dma.pace - 1) // dma.pace)
            elif channels[head.channel].offered == now:
                again = now + 1
            elif _offer(per_bank, rules, channels[head.channel], mapping, dma, head, number, now):
                going = True
    return again


@inlined
def _carry(dma: Any, now: int) -> None:
    """What the way to the DRAM can carry in this clock: its pace, and what is left of a transaction's worth.

    A transaction longer than a clock begins to cross when it is presented; so what passed while nobody waited is lost.
    """
    if dma.pace == 0:
        return
    most = dma.size - 1 if dma.held or dma.size <= dma.pace else 0
    clocks = now - dma.paced_at - 1
    left = dma.credit + clocks * dma.pace if clocks <= most // dma.pace else most  # the product could be huge
    dma.credit = min(left, most) + dma.pace
    dma.paced_at = now
    dma.held = False


@inner
def _offer(
    per_bank: int | None, rules: Any, channel: Any, mapping: Any, dma: Any, head: Any, number: int, now: int
) -> bool:
    """Offer a queue's transaction to its channel. False if that is full."""
    owner = NOBODY if head.is_write else _flight(dma, head, number)
    key, is_write = head.address >> mapping.offset, head.is_write > 0
    outcome = front_end.accept(per_bank, rules, channel, head.bank, head.row, key, is_write, now, owner)
    if outcome == REFUSED:
        return False
    channel.offered = now
    dma.credit -= dma.size
    if head.served == NOBODY:
        head.served = now
    if not is_write:
        _fly(dma, head, outcome == ANSWERED, now)
    if not _next_transaction(mapping, head):
        _finish(dma, head, now)
    return True


@inlined
def _flight(dma: Any, head: Any, number: int) -> int:
    """The record of a read task under way; made for its first transaction."""
    if head.flight == NOBODY:
        head.flight = number * dma.outstanding
        while dma.flights[head.flight].left > 0:  # each task under way has a read in flight, so one record is free
            head.flight += 1
        flight = dma.flights[head.flight]
        flight.task, flight.left, flight.latest = head.task, 1, 0  # 1: not before the last transaction is accepted
    return int(head.flight)


@inlined
def _fly(dma: Any, head: Any, answered: bool, now: int) -> None:
    flight = dma.flights[head.flight]
    flight.served = head.served
    if answered:
        flight.latest = max(flight.latest, now + 1 + dma.path)
    else:
        flight.left += 1
        head.in_flight += 1


@inlined
def _finish(dma: Any, head: Any, now: int) -> None:
    """The task's last transaction was accepted."""
    _add_event(dma, now + 1, head.task, RELEASED, head.served)
    if head.is_write:
        _add_event(dma, now + 1, head.task, DONE, head.served)
    else:
        _count_datum(dma, dma.flights[head.flight], now + 1)
    head.task = NOBODY


@inlined
def _next_transaction(mapping: Any, head: Any) -> bool:
    """Turn to the next transaction of the task; False if there is none."""
    following = head.address + (1 << mapping.offset)
    if following >= head.row_start + head.row_bytes:
        head.rows -= 1
        head.row_start += head.pitch
        following = head.row_start >> mapping.offset << mapping.offset
    if head.rows > 0:
        _locate(mapping, head, following)
    return bool(head.rows > 0)
