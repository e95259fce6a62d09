"""The bank and timing state machine: when a command may issue, and what its issue forbids.

Every gap between two commands is kept as the first clock at which the second may issue: `bank_at[command, bank]`, where
gaps within a bank group are written to each of its banks, and `rank_at[command, rank]` (or pseudo channel). A command
is ready at the later of the two.
"""

from __future__ import annotations

from typing import Any

from accelsim.hardware.dram.state import ACT, CLOSED, PRE, RD, WR
from accelsim.jit import inlined, inner


@inner
def ready_at(channel: Any, number: int, command: int) -> int:
    """First clock at which ACT, PRE, RD or WR may issue on a bank, as far as timing goes."""
    return int(max(channel.bank_at[command, number], channel.rank_at[command, channel.rank[number]]))


@inner
def _bound(channel: Any, number: int, command: int, clock: int) -> None:
    """The bank may not issue `command` before `clock`."""
    channel.bank_at[command, number] = max(channel.bank_at[command, number], clock)


@inner
def _bound_group(rules: Any, channel: Any, number: int, command: int, clock: int) -> None:
    """The banks of this one's group may not issue `command` before `clock`."""
    first = channel.group[number]
    for other in range(first, first + rules.banks_per_group):
        _bound(channel, other, command, clock)


@inner
def _bound_rank(channel: Any, rank: int, command: int, clock: int) -> None:
    """The banks of a rank may not issue `command` before `clock`."""
    channel.rank_at[command, rank] = max(channel.rank_at[command, rank], clock)


@inner
def activate(rules: Any, channel: Any, number: int, clock: int, row: int) -> None:
    """Open `row`. The last four activates of the rank are a ring; the oldest bounds the next (tFAW)."""
    rank = channel.ranks[channel.rank[number]]
    channel.act += 1
    channel.row_bus = clock + rules.act_clocks
    channel.banks[number].row = row
    channel.banks[number].hits = 0
    _bound(channel, number, ACT, clock + rules.bank_act_act)
    _bound(channel, number, PRE, clock + rules.bank_act_pre)
    _bound(channel, number, RD, clock + rules.bank_act_rd)
    _bound(channel, number, WR, clock + rules.bank_act_wr)
    _bound_group(rules, channel, number, ACT, clock + rules.group_act_act)
    rank.last_four[rank.oldest] = clock
    rank.oldest = (rank.oldest + 1) & 3
    fourth = rank.last_four[rank.oldest] + rules.rank_four_act
    _bound_rank(channel, channel.rank[number], ACT, max(clock + rules.rank_act_act, fourth))
    rank.prea_at = max(rank.prea_at, clock + rules.rank_act_prea)
    rank.ref_at = max(rank.ref_at, clock + rules.rank_act_ref)
    if rank.open == 0:
        rank.active_since = clock
    rank.open += 1


@inner
def precharge(rules: Any, channel: Any, number: int, clock: int) -> None:
    """Close the bank's row."""
    rank = channel.ranks[channel.rank[number]]
    channel.pre += 1
    channel.banks[number].row = CLOSED
    _bound(channel, number, ACT, clock + rules.bank_pre_act)
    _bound_rank(channel, channel.rank[number], PRE, clock + rules.rank_pre_pre)
    rank.prea_at = max(rank.prea_at, clock + rules.rank_pre_pre)
    rank.ref_at = max(rank.ref_at, clock + rules.rank_pre_ref)
    rank.open -= 1
    if rank.open == 0:
        rank.active_clocks += clock - rank.active_since


@inlined
def precharge_all(rules: Any, channel: Any, number: int, clock: int) -> None:
    """Close all rows of a rank; the caller closes its banks."""
    rank = channel.ranks[number]
    channel.prea += 1
    _bound_rank(channel, number, ACT, clock + rules.rank_prea_act)
    _bound_rank(channel, number, PRE, clock + rules.rank_pre_pre)
    rank.ref_at = max(rank.ref_at, clock + rules.rank_pre_ref)
    rank.open = 0
    rank.active_clocks += clock - rank.active_since


@inner
def refresh(rules: Any, channel: Any, clock: int) -> None:
    """Refresh the rank whose turn it is."""
    number = channel.refresh_rank
    rank = channel.ranks[number]
    channel.ref += 1
    channel.refresh_waiting -= 1
    channel.refresh_rank = (number + 1) % rules.ranks
    _bound_rank(channel, number, ACT, clock + rules.rank_ref_act)
    rank.prea_at = max(rank.prea_at, clock + rules.rank_ref_act)
    rank.ref_at = max(rank.ref_at, clock + rules.rank_ref_act)


@inner
def column(rules: Any, channel: Any, number: int, slot: Any, clock: int) -> None:
    """Read or write for the request in `slot`, and for the reads merged with it."""
    channel.banks[number].hits += 1
    _burst(rules, channel, number, clock + (rules.write_latency if slot.write else rules.read_latency))
    if slot.write:
        _write(rules, channel, number, clock)
        return
    _read(rules, channel, number, clock)
    departs = clock + rules.read_latency
    channel.latency_sum += (1 + slot.merged) * departs - slot.arrive - slot.merged_arrive
    channel.read_count += 1 + slot.merged
    channel.last_read = max(channel.last_read, departs)


@inlined
def _burst(rules: Any, channel: Any, number: int, end: int) -> None:
    """A burst ends at `end`. Counts those that begin before the last one on their bus has ended: there must be none."""
    bus = channel.ranks[0 if rules.shared_bus else channel.rank[number]]
    channel.overlaps += end - rules.burst < bus.bus_free
    bus.bus_free = end


@inner
def forward(channel: Any, clock: int) -> None:
    """A read is answered by a waiting write, in the next clock."""
    channel.forwarded += 1
    channel.latency_sum += 1
    channel.read_count += 1
    channel.last_read = max(channel.last_read, clock + 1)


@inlined
def _read(rules: Any, channel: Any, number: int, clock: int) -> None:
    own = channel.rank[number]
    rank = channel.ranks[own]
    channel.rd += 1
    _bound(channel, number, PRE, clock + rules.bank_rd_pre)
    _bound_group(rules, channel, number, RD, clock + rules.group_rd_rd)
    _bound_rank(channel, own, RD, clock + rules.rank_rd_rd)
    _bound_rank(channel, own, WR, clock + rules.rank_rd_wr)
    rank.prea_at = max(rank.prea_at, clock + rules.rank_rd_prea)
    if rules.ranks > 1:
        _bound_other_ranks(rules, channel, own, clock + rules.other_rd_rd, clock + rules.other_rd_wr)


@inlined
def _write(rules: Any, channel: Any, number: int, clock: int) -> None:
    own = channel.rank[number]
    rank = channel.ranks[own]
    channel.wr += 1
    channel.last_write = clock
    _bound(channel, number, PRE, clock + rules.bank_wr_pre)
    _bound_group(rules, channel, number, WR, clock + rules.group_wr_wr)
    _bound_group(rules, channel, number, RD, clock + rules.group_wr_rd)
    _bound_rank(channel, own, WR, clock + rules.rank_wr_wr)
    _bound_rank(channel, own, RD, clock + rules.rank_wr_rd)
    rank.prea_at = max(rank.prea_at, clock + rules.rank_wr_prea)
    if rules.ranks > 1:
        _bound_other_ranks(rules, channel, own, clock + rules.other_wr_rd, clock + rules.other_wr_wr)


@inner
def _bound_other_ranks(rules: Any, channel: Any, own: int, read_at: int, write_at: int) -> None:
    for rank in range(rules.ranks):
        if rank != own:
            _bound_rank(channel, rank, RD, read_at)
            _bound_rank(channel, rank, WR, write_at)
