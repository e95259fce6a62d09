"""The front-end with a command queue for each bank, as in DRAMsim3.

Requests enter a read queue and a write queue; one a clock moves on to the command queue of its bank. The banks are
served round robin; within a bank the first request whose next command is ready. A row is closed for the oldest request
of its bank only, and while hits wait only after `row_hits` column commands. A rank that is to be refreshed is frozen,
its banks are precharged one by one, then it is refreshed.
"""

from __future__ import annotations

from typing import Any

from accelsim.hardware.dram import timing
from accelsim.hardware.dram.queues import append, bucket, find, free_slot, rank_key, row_changed, take_slot, unlink
from accelsim.hardware.dram.state import (
    ACT,
    ANSWERED,
    BANK_QUEUE,
    CLOSED,
    COLUMN,
    MERGED,
    NEVER,
    NOBODY,
    PRE,
    QUEUED,
    RD,
    READ,
    REFUSED,
    WR,
    WRITE,
)
from accelsim.jit import inner

NOTHING, ROW_COMMAND, COLUMN_COMMAND = 0, 1, 2  # what a clock has issued: one of each at most


@inner
def accept(rules: Any, channel: Any, bank: int, row: int, key: int, is_write: bool, clock: int, owner: int) -> int:
    """Offer a request: REFUSED when its queue is full.

    A read of an address whose write is waiting is answered at once, a write to one is absorbed (ANSWERED); a read of
    an address whose read is waiting may share its command (MERGED).
    """
    if (channel.writes >= rules.write_queue) if is_write else (channel.reads >= rules.read_queue):
        return REFUSED
    place = bucket(key)
    if channel.filters[WRITE, place] > 0 and _waiting(channel, bank, key, True) != NOBODY:
        if is_write:
            channel.coalesced += 1
        else:
            timing.forward(channel, clock)
        return ANSWERED
    if not is_write and rules.merge_reads and channel.filters[READ, place] > 0:
        other = _waiting(channel, bank, key, False)
        if other != NOBODY:
            channel.slots[other].merged += 1
            channel.slots[other].merged_arrive += clock
            channel.merged += 1
            return MERGED
    kind = WRITE if is_write else READ
    if is_write:
        channel.writes += 1
    else:
        channel.reads += 1
    channel.filters[kind, place] += 1
    append(channel, kind, bank, take_slot(channel, row, key, is_write, clock, owner))
    channel.next = min(channel.next, clock)
    return QUEUED


@inner
def _waiting(channel: Any, bank: int, key: int, is_write: bool) -> int:
    """The waiting read or write of an address, wherever it waits, else NOBODY."""
    found = find(channel, WRITE if is_write else READ, bank, key, is_write)
    return found if found != NOBODY else find(channel, BANK_QUEUE, bank, key, is_write)


@inner
def tick(rules: Any, channel: Any, clock: int) -> int:
    """One clock of a channel: issue what is ready and set `next`. Returns the slot whose data moved, if any.

    Phases: refresh counter; a command for the refresh, else one for a bank; a second one of the other kind (HBM);
    one request moves to its bank.
    """
    plan = channel.plans[COLUMN]
    if clock >= channel.refresh_at:
        channel.refresh_waiting += 1
        channel.refresh_at += rules.refresh_interval
        plan.at = NOBODY
    served, refresh_at, issued = NOBODY, NEVER, NOTHING
    if channel.refresh_waiting > 0:
        refresh_at = _refresh(rules, channel, clock)
        if refresh_at == clock:
            plan.at, issued = NOBODY, ROW_COMMAND
    for turn in range(1 + rules.dual_command):
        if (turn > 0) == (issued != NOTHING):  # the first turn unless the refresh took it, the second only after it
            command, slot = _serve_bank(rules, channel, clock, issued)
            issued = issued if command == NOTHING else command
            served = max(served, slot)
    moved = _move(rules, channel, clock)
    channel.next = clock + 1 if issued != NOTHING or moved else min(plan.at, refresh_at, channel.refresh_at)
    return served


@inner
def _refresh(rules: Any, channel: Any, clock: int) -> int:
    """Precharge the first bank of the waiting rank that can be, or refresh the rank. Returns when that is possible."""
    rank = channel.ranks[channel.refresh_rank]
    if rank.open == 0:
        if rank.ref_at > clock:
            return int(rank.ref_at)
        timing.refresh(rules, channel, clock)
        return clock
    best, size = NEVER, rules.groups * rules.banks_per_group
    first = channel.refresh_rank * size
    for number in range(first, first + size):
        bank = channel.banks[number]
        if bank.row != CLOSED:
            best = min(best, max(clock, timing.ready_at(channel, number, PRE)))
            if best == clock:
                _precharge(rules, channel, clock, number)
                return clock
    return best


@inner
def _precharge(rules: Any, channel: Any, clock: int, number: int) -> None:
    timing.precharge(rules, channel, number, clock)
    row_changed(channel, BANK_QUEUE, number)


@inner
def _serve_bank(rules: Any, channel: Any, clock: int, issued: int) -> tuple[int, int]:
    """Issue a command that is ready, unless its kind was `issued` in this clock. Returns its kind and the slot served.

    A command that finds its bus taken still ends its bank's turn.
    """
    plan = channel.plans[COLUMN]
    if plan.at == NOBODY:
        _choose(rules, channel, clock, plan)
    if plan.at != clock:
        return NOTHING, NOBODY
    plan.at = NOBODY
    number = channel.round_robin = plan.bank
    _, command, before = _next_of_bank(rules, channel, number, clock)
    kind = COLUMN_COMMAND if command >= RD else ROW_COMMAND
    if kind == issued:
        return NOTHING, NOBODY
    if kind == COLUMN_COMMAND:
        return kind, _column(rules, channel, clock, number, before)
    if command == PRE:
        _precharge(rules, channel, clock, number)
    else:
        row = channel.slots[channel.lists[BANK_QUEUE, number].head].row
        timing.activate(rules, channel, number, clock, row)
        row_changed(channel, BANK_QUEUE, number)
    return kind, NOBODY


@inner
def _column(rules: Any, channel: Any, clock: int, number: int, before: int) -> int:
    slot_index = unlink(channel, BANK_QUEUE, number, before)
    slot = channel.slots[slot_index]
    channel.queued -= 1
    channel.filters[slot.write, bucket(slot.key)] -= 1
    timing.column(rules, channel, number, slot, clock)
    free_slot(channel, slot_index)
    return slot_index


@inner
def _choose(rules: Any, channel: Any, clock: int, plan: Any) -> None:
    """Find the bank whose command issues next if nothing arrives before: first ready, then next in turn."""
    best = NEVER
    frozen = channel.refresh_rank if channel.refresh_waiting > 0 else NOBODY
    for place in range(channel.occupied_count[BANK_QUEUE]):
        number = channel.occupied[BANK_QUEUE, place]
        if channel.rank[number] != frozen:
            best = min(best, _bank_key(rules, channel, clock, number))
    plan.at, plan.bank = (clock + (best >> 44), best & 255) if best < NEVER else (NEVER, NOBODY)


@inner
def _bank_key(rules: Any, channel: Any, clock: int, number: int) -> int:
    """The bank's place among all: clocks until its first command is ready, then its turn. NEVER: it has none."""
    ready, _, _ = _next_of_bank(rules, channel, number, clock)
    return rank_key(ready - clock, _turn(rules, channel, number), number) if ready < NEVER else NEVER


@inner
def _next_of_bank(rules: Any, channel: Any, number: int, clock: int) -> tuple[int, int, int]:
    """(clock, command, slot before the one served) of the first request of a bank's queue to be ready."""
    bank = channel.banks[number]
    if bank.row == CLOSED:
        return max(clock, timing.ready_at(channel, number, ACT)), ACT, NOBODY
    ready = NEVER
    first_hit = channel.first_hit[BANK_QUEUE, number]
    has_hits = first_hit < NEVER
    if channel.first_miss[BANK_QUEUE, number] < first_hit and (not has_hits or bank.hits >= rules.row_hits):
        ready = max(clock, timing.ready_at(channel, number, PRE))
    if has_hits and ready > clock:
        column_at, command, before = _first_column(channel, number, clock)
        if column_at < ready:
            return column_at, command, before
    return ready, PRE, NOBODY


@inner
def _first_column(channel: Any, number: int, clock: int) -> tuple[int, int, int]:
    """When the first hit of a bank's queue is ready, its command, and the slot before it."""
    mine, row = channel.lists[BANK_QUEUE, number], channel.banks[number].row
    read_at = max(clock, timing.ready_at(channel, number, RD))
    write_at = max(clock, timing.ready_at(channel, number, WR))
    least = min(read_at, write_at)
    best, command, best_before = NEVER, RD, NOBODY
    before, index = NOBODY, mine.head
    while index != NOBODY and best > least:
        slot = channel.slots[index]
        if slot.row == row:
            ready = write_at if slot.write else read_at
            if ready < best and not (slot.write and _is_read_before(channel, mine.head, index)):
                best, command, best_before = ready, RD + slot.write, before
        before, index = index, slot.next
    return best, command, best_before


@inner
def _is_read_before(channel: Any, head: int, end: int) -> bool:
    """True if a read of the address that `end` writes stands before it."""
    index, key = head, channel.slots[end].key
    while index != end:
        slot = channel.slots[index]
        if slot.key == key and not slot.write:
            return True
        index = slot.next
    return False


@inner
def _move(rules: Any, channel: Any, clock: int) -> bool:
    """Move the first request whose bank has room to its bank's queue. True if anything changed.

    A write whose address a waiting read asks for ends the drain; reads go on in the next clock.
    """
    drain = channel.writes >= rules.write_queue or (channel.writes > rules.write_idle and channel.queued == 0)
    if drain and channel.draining == 0 and not channel.war:
        channel.draining = channel.writes
    changed = bool(channel.war > 0)
    channel.war = False
    kind = WRITE if channel.draining > 0 else READ
    number = _first_movable(rules, channel, kind)
    if number == NOBODY:
        return changed
    key = channel.slots[channel.lists[kind, number].head].key
    if kind == READ:
        channel.reads -= 1
    elif channel.filters[READ, bucket(key)] > 0 and _waiting(channel, number, key, False) != NOBODY:
        channel.draining = 0
        channel.war = True
        return True
    else:
        channel.draining -= 1
        channel.writes -= 1
    slot = unlink(channel, kind, number, NOBODY)
    channel.order += 1
    channel.slots[slot].order = channel.order  # its place in the bank's queue, whatever came first to the other two
    append(channel, BANK_QUEUE, number, slot)
    channel.queued += 1
    _consider(rules, channel, clock + 1, number)
    return True


@inner
def _consider(rules: Any, channel: Any, clock: int, number: int) -> None:
    """A bank's queue has grown: mend the plan, if there is one."""
    plan = channel.plans[COLUMN]
    if plan.at == NOBODY or (channel.refresh_waiting > 0 and channel.rank[number] == channel.refresh_rank):
        return
    if plan.bank == number:
        plan.at = NOBODY
        return
    key = _bank_key(rules, channel, clock, number)
    if key < NEVER:
        at = clock + (key >> 44)
        if at < plan.at or (at == plan.at and _turn(rules, channel, number) < _turn(rules, channel, plan.bank)):
            plan.at, plan.bank = at, number


@inner
def _turn(rules: Any, channel: Any, number: int) -> int:
    """How many banks are served before this one in the round."""
    return int((number - channel.round_robin - 1) & (rules.banks - 1))


@inner
def _first_movable(rules: Any, channel: Any, kind: int) -> int:
    """The bank of the oldest request of a kind whose bank's queue has room, else NOBODY."""
    best = NEVER
    for place in range(channel.occupied_count[kind]):
        number = channel.occupied[kind, place]
        if channel.lists[BANK_QUEUE, number].count < rules.bank_queue:
            order = channel.slots[channel.lists[kind, number].head].order
            best = min(best, rank_key(0, order, number))
    return int(best & 255) if best < NEVER else NOBODY
