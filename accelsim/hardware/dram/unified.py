"""The front-end with one read queue and one write queue, as in Ramulator 2.1's controllers.

A request whose activate issues moves to its bank: until its column command has issued, the bank is not closed. Each
clock serves (1) such a request that is ready, the oldest first; (2) else a refresh that is due, alone; (3) else, from
the queue in service, the first request in order of arrival whose next command is ready. A second, row, command may
issue in the same clock where the interface has two command buses (HBM).
"""

from __future__ import annotations

from typing import Any

from accelsim.hardware.dram import timing
from accelsim.hardware.dram.choice import choose, mode_holds
from accelsim.hardware.dram.queues import (
    append,
    before_order,
    bucket,
    find,
    free_slot,
    rank_key,
    row_changed,
    take_slot,
    unlink,
)
from accelsim.hardware.dram.state import (
    ACT,
    ACTIVE,
    ANSWERED,
    BANK_QUEUE,
    CLOSED,
    COLUMN,
    NEVER,
    NOBODY,
    PRE,
    PREA,
    QUEUED,
    RD,
    READ,
    REF,
    REFUSED,
    ROW,
    WR,
    WRITE,
)
from accelsim.jit import inlined, inner


@inner
def accept(rules: Any, channel: Any, bank: int, row: int, key: int, is_write: bool, clock: int, owner: int) -> int:
    """Offer a request: REFUSED when its queue is full.

    A read of an address in the write queue is answered at once, a write to one is absorbed (ANSWERED).
    """
    place = bucket(key)
    if channel.filters[WRITE, place] > 0 and find(channel, WRITE, bank, key, True) != NOBODY:
        if is_write:
            channel.coalesced += 1
        else:
            timing.forward(channel, clock)
        return ANSWERED
    if is_write:
        if channel.writes >= rules.write_queue:
            return REFUSED
        channel.writes += 1
        channel.filters[WRITE, place] += 1
    else:
        if channel.reads >= rules.read_queue:
            return REFUSED
        channel.reads += 1
    kind = WRITE if is_write else READ
    append(channel, kind, bank, take_slot(channel, row, key, is_write, clock, owner))
    _note_candidates(channel, bank)
    _forget_if_first(rules, channel, kind, bank, clock + 1)
    return QUEUED


@inlined
def _forget_if_first(rules: Any, channel: Any, kind: int, number: int, clock: int) -> None:
    """Forget a plan that the latest request, the last of a bank's list, may precede from `clock` on."""
    if channel.forced:
        return
    if channel.refresh_waiting == 0:  # else nothing that waits is served
        if not mode_holds(rules, channel):
            _forget_plans(channel)
        elif kind == channel.write_mode:
            column, row = channel.plans[COLUMN], channel.plans[ROW]
            if channel.first_hit[kind, number] == channel.order:
                ready = max(clock, timing.ready_at(channel, number, RD + kind))
                column.at = NOBODY if ready < column.at else column.at
            elif channel.first_miss[kind, number] == channel.order and _row_ready(channel, number, clock) < row.at:
                row.at = NOBODY
    if channel.plans[COLUMN].at == NOBODY or channel.plans[ROW].at == NOBODY:
        channel.next = min(channel.next, clock)


@inner
def _row_ready(channel: Any, number: int, clock: int) -> int:
    """When the next ACT or PRE may issue on a bank, at `clock` at the earliest."""
    return int(max(clock, channel.row_bus, timing.ready_at(channel, number, channel.row_command[number])))


@inner
def _forget_plans(channel: Any) -> None:
    channel.plans[COLUMN].at = NOBODY
    channel.plans[ROW].at = NOBODY


@inner
def tick(rules: Any, channel: Any, clock: int) -> int:
    """One clock of a channel: issue what is ready and set `next`. Returns the slot whose data moved, if any."""
    if clock >= channel.refresh_at:
        channel.refresh_waiting += rules.ranks
        channel.refresh_at += rules.refresh_interval
        if not channel.forced:
            _forget_plans(channel)
    if rules.dual_command:
        column_at, served = _use_own_bus(rules, channel, clock, COLUMN)
        row_at, _ = _use_own_bus(rules, channel, clock, ROW)
        at = min(column_at, row_at)
    else:
        at, served = _use_shared_bus(rules, channel, clock)
    channel.next = clock + 1 if at == clock else min(at, channel.refresh_at)
    return served


@inlined
def _use_own_bus(rules: Any, channel: Any, clock: int, which: int) -> tuple[int, int]:
    """Row or column commands have a bus of their own. Returns when the next one issues, and the slot served."""
    _renew(rules, channel, clock, which)
    return _issue_plan(rules, channel, clock, which)


@inner
def _use_shared_bus(rules: Any, channel: Any, clock: int) -> tuple[int, int]:
    """One command a clock, of whichever plan goes first. Returns when the next one issues, and the slot served."""
    column, row = channel.plans[COLUMN], channel.plans[ROW]
    _renew(rules, channel, clock, COLUMN)
    which = COLUMN
    if not channel.forced and not (column.at == clock and column.command == ACTIVE):
        _renew(rules, channel, clock, ROW)
        if row.at < column.at or (row.at == column.at and column.command != ACTIVE and row.order < column.order):
            which = ROW
    if rules.aad > 0 and _lpddr5_goes_first(rules, channel, clock, channel.plans[which]):
        return clock, NOBODY
    return _issue_plan(rules, channel, clock, which)


@inlined
def _renew(rules: Any, channel: Any, clock: int, which: int) -> None:
    """Make a plan that was forgotten, or that did not get the bus: by now another request may go first."""
    plan = channel.plans[which]
    if plan.at < clock:
        choose(rules, channel, clock, plan, which == COLUMN)


@inner
def _issue_plan(rules: Any, channel: Any, clock: int, which: int) -> tuple[int, int]:
    """Issue a plan if its clock has come. Returns that clock, and the slot whose data moved."""
    plan = channel.plans[which]
    if plan.at != clock:
        return plan.at, NOBODY
    plan.at = NOBODY
    served = _issue(rules, channel, clock, plan.command, plan.bank, plan.kind)
    if not _other_plan_holds(rules, channel, clock, plan, channel.plans[1 - which]):
        _forget_plans(channel)
    return clock, served


@inlined
def _other_plan_holds(rules: Any, channel: Any, clock: int, issued: Any, other: Any) -> bool:
    """True if the row plan still stands after a column command was issued, or the other way round."""
    number, command = issued.bank, issued.command
    if command in (PREA, REF) or channel.refresh_waiting > 0 or other.bank == number:
        return False
    if not mode_holds(rules, channel):
        return False
    if command == ACT:  # a column command of this bank comes into view
        is_write = channel.slots[channel.banks[number].active].write
        return bool(timing.ready_at(channel, number, RD + is_write) > other.at)
    if command == PRE or channel.miss_key[channel.write_mode, number] >= NEVER:
        return True
    return bool(_row_ready(channel, number, clock) > other.at)  # a row command of this bank comes into view


@inner
def _lpddr5_goes_first(rules: Any, channel: Any, clock: int, plan: Any) -> bool:
    """Issue what LPDDR5 adds: the second half of an activate, or the start of the data clock before a column command.

    The second half takes a clock that nothing else can use, at the latest its deadline. The column command that
    started the data clock issues in the next clock.
    """
    if channel.act2_deadline > 0 and (clock >= channel.act2_deadline or plan.at > clock):
        channel.act2_deadline = 0
        channel.act2 += 1
        _forget_plans(channel)
        return True
    is_column = plan.command == ACTIVE or plan.command == RD or plan.command == WR
    if plan.at == clock and is_column and clock >= channel.wck_expiry:
        is_write = channel.slots[channel.banks[plan.bank].active].write if plan.command == ACTIVE else plan.kind
        if is_write:
            channel.cas_wr += 1
        else:
            channel.cas_rd += 1
        channel.wck_expiry = NEVER  # on until the column command sets when it ends
        plan.at = clock + 1
        channel.plans[ROW].at = NOBODY
        channel.forced = True
        return True
    return False


@inner
def _issue(rules: Any, channel: Any, clock: int, command: int, number: int, kind: int) -> int:
    """Issue the chosen command on a bank (or rank). Returns the slot whose data it moves, else NOBODY."""
    if command == REF:
        timing.refresh(rules, channel, clock)
    elif command == PREA:
        _precharge_all(rules, channel, clock, number)
    elif command == PRE:
        timing.precharge(rules, channel, number, clock)
        _row_changed(channel, number)
    elif command == ACT:
        _activate(rules, channel, clock, number, kind)
    else:
        return _column(rules, channel, clock, command, number, kind)
    return NOBODY


@inner
def _row_changed(channel: Any, number: int) -> None:
    row_changed(channel, READ, number)
    row_changed(channel, WRITE, number)
    _note_candidates(channel, number)


@inner
def _note_candidates(channel: Any, number: int) -> None:
    """Note what `_choose_waiting` needs of a bank's oldest misses, after the bank or one of its lists has changed."""
    bank = channel.banks[number]
    command = ACT if bank.row == CLOSED else PRE
    channel.row_command[number] = command
    for kind in range(2):
        order = channel.first_miss[kind, number]
        is_candidate = order < NEVER and bank.active == NOBODY
        channel.miss_key[kind, number] = rank_key(0, order, command << 6 | number) if is_candidate else NEVER


@inlined
def _precharge_all(rules: Any, channel: Any, clock: int, rank: int) -> None:
    timing.precharge_all(rules, channel, rank, clock)
    size = rules.groups * rules.banks_per_group
    for number in range(rank * size, (rank + 1) * size):
        channel.banks[number].row = CLOSED
        _row_changed(channel, number)


@inlined
def _activate(rules: Any, channel: Any, clock: int, number: int, kind: int) -> None:
    """Open the row of the bank's oldest request, which leaves its queue and stays at the bank."""
    bank = channel.banks[number]
    channel.act2_deadline = clock + rules.aad if rules.aad > 0 else 0
    bank.active = _leave_queue(channel, kind, number, NOBODY)
    timing.activate(rules, channel, number, clock, channel.slots[bank.active].row)
    _row_changed(channel, number)
    place = channel.occupied_count[BANK_QUEUE]
    channel.occupied[BANK_QUEUE, place] = number
    channel.occupied_count[BANK_QUEUE] = place + 1


@inner
def _leave_queue(channel: Any, kind: int, number: int, before: int) -> int:
    slot = unlink(channel, kind, number, before)
    if kind == WRITE:
        channel.writes -= 1
        channel.filters[WRITE, bucket(channel.slots[slot].key)] -= 1
    else:
        channel.reads -= 1
    return slot


@inlined
def _column(rules: Any, channel: Any, clock: int, command: int, number: int, kind: int) -> int:
    """Read or write for the request at the bank, or for the oldest hit of the queue."""
    bank = channel.banks[number]
    if command == ACTIVE:
        slot = bank.active
        _leave_bank(channel, bank, number)
    else:
        mine = channel.lists[kind, number]
        slot = _leave_queue(channel, kind, number, before_order(channel, mine, channel.first_hit[kind, number]))
    timing.column(rules, channel, number, channel.slots[slot], clock)
    _note_candidates(channel, number)
    channel.wck_expiry = clock + (rules.wck_write if channel.slots[slot].write else rules.wck_read)
    channel.forced = False
    free_slot(channel, slot)
    return int(slot)


@inlined
def _leave_bank(channel: Any, bank: Any, number: int) -> None:
    bank.active = NOBODY
    place, last = 0, channel.occupied_count[BANK_QUEUE] - 1
    while channel.occupied[BANK_QUEUE, place] != number:
        place += 1
    for later in range(place, last):  # keeps the order of the activates
        channel.occupied[BANK_QUEUE, later] = channel.occupied[BANK_QUEUE, later + 1]
    channel.occupied_count[BANK_QUEUE] = last
