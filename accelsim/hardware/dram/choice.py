"""What the unified front-end issues next: the plan for the next column command and for the next row command.

A plan names the first command to be ready, ties broken as the phases (1), (2), (3) of unified.py say. It holds until
an arrival, an issue or a refresh may change the choice.
"""

from __future__ import annotations

from typing import Any

from accelsim.hardware.dram import timing
from accelsim.hardware.dram.queues import before_order, rank_key
from accelsim.hardware.dram.state import ACTIVE, BANK_QUEUE, CLOSED, NEVER, NOBODY, PREA, RD, READ, REF, WRITE
from accelsim.jit import inlined, inner


@inner
def choose(rules: Any, channel: Any, clock: int, plan: Any, columns: bool) -> None:
    """Find the column (or row) command that issues next if nothing arrives before: phases (1), (2), (3) above."""
    _plan(plan, NEVER, ACTIVE, NOBODY, NEVER)
    if columns:
        _choose_active(channel, clock, plan)
        if plan.at == clock:
            return
    if channel.refresh_waiting > 0:
        if not columns:
            _choose_refresh(channel, clock, plan)
        return
    if not mode_holds(rules, channel):
        channel.write_mode = not channel.write_mode
    plan.kind = WRITE if channel.write_mode else READ
    best = _first_hit(channel, clock, plan.kind) if columns else _first_miss(rules, channel, clock, plan.kind)
    if best < NEVER and clock + (best >> 44) < plan.at:  # at the same clock, requests of phase 1 go first
        _plan(plan, clock + (best >> 44), (best >> 6) & 3, best & 63, (best >> 8) & (2**36 - 1))


@inner
def _choose_active(channel: Any, clock: int, plan: Any) -> None:
    """Phase 1: requests whose row was opened for them; first come, first served."""
    best = NEVER
    for place in range(channel.occupied_count[BANK_QUEUE]):
        number = channel.occupied[BANK_QUEUE, place]
        slot = channel.slots[channel.banks[number].active]
        wait = max(0, timing.ready_at(channel, number, RD + slot.write) - clock)
        best = min(best, rank_key(wait, slot.arrive, place))
    if best < NEVER:
        _plan(plan, clock + (best >> 44), ACTIVE, channel.occupied[BANK_QUEUE, best & 255], 0)


@inlined
def _choose_refresh(channel: Any, clock: int, plan: Any) -> None:
    """Phase 2: close the rank's rows, then refresh it; rows opened for a request stay open until it is served."""
    rank = channel.ranks[channel.refresh_rank]
    ready = max(clock, channel.row_bus, rank.prea_at if rank.open > 0 else rank.ref_at)
    if rank.open == 0:
        _plan(plan, ready, REF, channel.refresh_rank, 0)
    elif not _has_active(channel, channel.refresh_rank):
        _plan(plan, ready, PREA, channel.refresh_rank, 0)


@inlined
def _has_active(channel: Any, rank: int) -> bool:
    for place in range(channel.occupied_count[BANK_QUEUE]):
        if channel.rank[channel.occupied[BANK_QUEUE, place]] == rank:
            return True
    return False


@inlined
def _first_hit(channel: Any, clock: int, kind: int) -> int:
    """Phase 3, columns: the key of the first bank's oldest hit to be ready, then of the oldest; NEVER if none."""
    best = NEVER
    for place in range(channel.occupied_count[kind]):
        number = channel.occupied[kind, place]
        if channel.first_hit[kind, number] < NEVER:
            wait = max(0, timing.ready_at(channel, number, RD + kind) - clock)
            best = min(best, rank_key(wait, channel.first_hit[kind, number], (RD + kind) << 6 | number))
    return best


@inlined
def _first_miss(rules: Any, channel: Any, clock: int, kind: int) -> int:
    """Phase 3, rows: the same for the banks' oldest misses. A bank with a request of phase 1 keeps its row open."""
    special = rules.aad > 0 or rules.row_hit_first > 0
    first_clock = max(clock, channel.row_bus)
    best = NEVER
    for place in range(channel.occupied_count[kind]):
        number = channel.occupied[kind, place]
        if not (special and _may_not_open(rules, channel, kind, number)):
            ready = max(first_clock, timing.ready_at(channel, number, channel.row_command[number]))
            best = min(best, (ready - clock) << 44 | channel.miss_key[kind, number])
    return best


@inner
def _may_not_open(rules: Any, channel: Any, kind: int, number: int) -> bool:
    """True for what only some devices know: LPDDR5's activate under way, or (row hits first) a hit that came first."""
    if rules.aad > 0 and channel.act2_deadline > 0 and channel.banks[number].row == CLOSED:
        return True
    hit, miss = channel.first_hit[kind, number], channel.first_miss[kind, number]
    if rules.row_hit_first and hit < NEVER and miss < NEVER:
        mine = channel.lists[kind, number]
        return _arrival(channel, mine, hit) <= _arrival(channel, mine, miss)
    return False


@inner
def _arrival(channel: Any, mine: Any, order: int) -> int:
    before = before_order(channel, mine, order)
    return int(channel.slots[mine.head if before == NOBODY else channel.slots[before].next].arrive)


@inner
def _plan(plan: Any, at: int, command: int, bank: int, order: int) -> None:
    plan.at, plan.command, plan.bank, plan.order = at, command, bank, order


@inner
def mode_holds(rules: Any, channel: Any) -> bool:
    """True if the queue in service stays the same: writes from above the high mark, or while no read waits, down to
    below the low mark.
    """
    if channel.write_mode:
        return bool(channel.writes >= rules.write_low or channel.reads == 0)
    return bool(channel.writes <= rules.write_high and channel.reads > 0)
