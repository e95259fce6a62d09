"""Waiting requests: slots of the channel's pool, linked in order of arrival into lists of one bank and kind each.

`occupied` names, for each kind, the banks whose list is not empty. A list knows its first hit and its first miss.
"""

from __future__ import annotations

from typing import Any

from accelsim.hardware.dram.state import CLOSED, FILTER, NEVER, NOBODY
from accelsim.jit import inlined, inner


@inner
def take_slot(channel: Any, row: int, key: int, is_write: bool, clock: int, owner: int) -> int:
    """A free slot, filled in."""
    index = channel.free
    slot = channel.slots[index]
    channel.free = slot.next
    channel.order += 1
    slot.row, slot.key, slot.write, slot.owner = row, key, is_write, owner
    slot.arrive, slot.order = clock, channel.order
    slot.merged = slot.merged_arrive = 0
    return int(index)


@inner
def free_slot(channel: Any, index: int) -> None:
    """Give a slot back; its content stands until it is taken again."""
    channel.slots[index].next = channel.free
    channel.free = index


@inner
def append(channel: Any, kind: int, bank: int, index: int) -> None:
    """Put a slot at the end of a bank's list."""
    mine, slot = channel.lists[kind, bank], channel.slots[index]
    slot.next = NOBODY
    if mine.count == 0:
        mine.head = index
        mine.place = channel.occupied_count[kind]
        channel.occupied[kind, mine.place] = bank
        channel.occupied_count[kind] += 1
    else:
        channel.slots[mine.tail].next = index
    mine.tail = index
    mine.count += 1
    if slot.row == channel.banks[bank].row:
        channel.first_hit[kind, bank] = min(channel.first_hit[kind, bank], slot.order)
    else:
        channel.first_miss[kind, bank] = min(channel.first_miss[kind, bank], slot.order)


@inner
def unlink(channel: Any, kind: int, bank: int, before: int) -> int:
    """Take the slot after `before` (NOBODY: the first) out of a bank's list; returns it."""
    mine = channel.lists[kind, bank]
    index = mine.head if before == NOBODY else channel.slots[before].next
    slot = channel.slots[index]
    after = slot.next
    if before == NOBODY:
        mine.head = after
    else:
        channel.slots[before].next = after
    if after == NOBODY:
        mine.tail = before
    mine.count -= 1
    if mine.count == 0:
        _leave_occupied(channel, kind, mine)
    row = channel.banks[bank].row
    if slot.order == channel.first_hit[kind, bank]:
        channel.first_hit[kind, bank] = _first_order(channel, after, row, True)
    elif slot.order == channel.first_miss[kind, bank]:
        channel.first_miss[kind, bank] = _first_order(channel, after, row, False)
    return int(index)


@inlined
def _leave_occupied(channel: Any, kind: int, mine: Any) -> None:
    last = channel.occupied_count[kind] - 1
    moved = channel.occupied[kind, last]
    channel.occupied_count[kind] = last
    channel.occupied[kind, mine.place] = moved
    channel.lists[kind, moved].place = mine.place


@inner
def _first_order(channel: Any, index: int, row: int, hit: bool) -> int:
    """Order of the first request from `index` on that asks for `row` (`hit`), or for another row; NEVER if none."""
    while index != NOBODY:
        slot = channel.slots[index]
        if (slot.row == row) == hit:
            return int(slot.order)
        index = slot.next
    return NEVER


@inner
def row_changed(channel: Any, kind: int, bank: int) -> None:
    """Find a list's first hit and first miss anew, after its bank's row was opened or closed."""
    mine, row = channel.lists[kind, bank], channel.banks[bank].row
    if row == CLOSED or mine.count == 0:
        channel.first_hit[kind, bank] = NEVER
        channel.first_miss[kind, bank] = channel.slots[mine.head].order if mine.count > 0 else NEVER
        return
    channel.first_hit[kind, bank] = _first_order(channel, mine.head, row, True)
    channel.first_miss[kind, bank] = _first_order(channel, mine.head, row, False)


@inner
def before_order(channel: Any, mine: Any, order: int) -> int:
    """The slot before the one with this `order`, NOBODY if that is the head. There must be one."""
    before, index = NOBODY, mine.head
    while channel.slots[index].order != order:
        before, index = index, channel.slots[index].next
    return before


@inner
def find(channel: Any, kind: int, bank: int, key: int, is_write: bool) -> int:
    """The read or write of an address in a bank's list, else NOBODY."""
    index = channel.lists[kind, bank].head
    while index != NOBODY:
        slot = channel.slots[index]
        if slot.key == key and slot.write == is_write:
            break
        index = slot.next
    return int(index)


@inner
def bucket(key: int) -> int:
    """Place of an address in a channel's filter."""
    return (key ^ (key >> 9) ^ (key >> 18)) & (FILTER - 1)


@inner
def rank_key(wait: int, order: int, code: int) -> int:
    """One number to order candidates by: clocks to wait, then order, then an 8 bit code that names the candidate."""
    return (wait << 44) | (order << 8) | code
