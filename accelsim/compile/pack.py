"""Packing: which items get bytes of a space for as long as they live, so that their worths add up to the most.

This is dynamic storage allocation with a choice of items, NP-hard even without the choice (Garey and Johnson, Computers
and Intractability, 1979, problem SR2). So items are tried first fit in several orders, and each result is improved by
moves of single items until none helps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.jit import inner, kernel

Int64 = NDArray[np.int64]

NOWHERE = -1
MOST_COMPARISONS = 2_000_000  # of two items, before no more is tried: some ten milliseconds


class Items(NamedTuple):
    """What is to be packed, in the order of `first`. Space 0 is the better one of those that there are."""

    first: Int64  # [items] the first group in which it lives
    last: Int64  # [items] the last one
    size: Int64  # [spaces, items] bytes
    worth: Int64  # [items] what it adds in whichever space, >= 0
    required: Int64  # [items] 1 where it must lie somewhere: it never moves for others
    limit: Int64  # [spaces, 2] address at which items must end, those that are not required and those that are
    begin: Int64  # [items] no item before this one is still alive in its life
    end: Int64  # [items] this item and those after it start later than it ends


class _Packing(NamedTuple):
    space: Int64  # [items] index of the space or NOWHERE
    address: Int64  # [items] bytes
    tally: Int64  # [2] comparisons made, and the highest end in space 0 that an item not required was ever given


def items_of(first: Int64, last: Int64, size: Int64, worth: Int64, required: Int64, limit: Int64) -> Items:
    """The items, with what may meet each one: a range of items that holds all whose lives meet its own."""
    begin = np.searchsorted(np.maximum.accumulate(last), first, "left").astype(np.int64)
    end = np.searchsorted(first, last, "right").astype(np.int64)
    return Items(first, last, size, worth, required, limit, begin, end)


@kernel
def pack(items: Items, orders: Int64) -> tuple[Int64, Int64]:
    """Space [items] and address [items] of the best packing found; `orders` [orders, items] has required ones in front.

    Best is: most required items packed, then most worth, then most worth in space 0; of equals the first found. So the
    result is never worse than first fit in any of the orders.

    Nor is it worse than what is found for a lower limit of space 0 (for items not required): a limit below the highest
    end that was given is tried next, until no better result is possible. All this while comparisons are left.
    """
    low = items.limit.copy()
    lowered = Items(items.first, items.last, items.size, items.worth, items.required, low, items.begin, items.end)
    best, best_packing = (-1, -1, -1), _nothing(items)
    comparisons = 0
    while True:
        highest = 0
        for index, order in enumerate(orders):
            packing = _nothing(items)
            packing.tally[0] = comparisons
            _first_fit(lowered, order, packing)
            _improve(lowered, order, packing, comparisons + (MOST_COMPARISONS - comparisons) // (len(orders) - index))
            found = _value(items, order, packing)
            if found > best:
                best, best_packing = found, packing
            comparisons, highest = packing.tally[0], max(highest, packing.tally[1])
            if comparisons > MOST_COMPARISONS or not _may_gain(items, best):
                break
        low[0, 0] = highest - 1
        if comparisons > MOST_COMPARISONS or not _may_gain(lowered, best):
            return best_packing.space, best_packing.address


@inner
def _nothing(items: Items) -> _Packing:
    count = items.first.size
    return _Packing(np.full(count, NOWHERE, np.int64), np.zeros(count, np.int64), np.zeros(2, np.int64))


@inner
def _may_gain(items: Items, best: tuple[int, int, int]) -> bool:
    """True while the items that are small enough for their limits are worth more than the best packing."""
    small = inside = 0
    for item in range(items.first.size):
        small += items.worth[item] * _fits(items, item)
        inside += items.worth[item] * (items.size[0, item] <= items.limit[0, items.required[item]])
    return (small, inside) > best[1:] and items.limit[0, 0] > 0


@inner
def _fits(items: Items, item: int) -> bool:
    """True for an item that would fit a space if it were alone."""
    for space in range(items.size.shape[0]):
        if items.size[space, item] <= items.limit[space, items.required[item]]:
            return True
    return False


@inner
def _first_fit(items: Items, order: Int64, packing: _Packing) -> None:
    """Give each item in turn the lowest free address of the first space where it fits."""
    for item in order:
        for space in range(items.size.shape[0]):
            size, limit = items.size[space, item], items.limit[space, items.required[item]]
            address = _lowest(items, item, space, size, limit, packing)
            if address + size <= limit:
                packing.space[item], packing.address[item] = space, address
                if space == 0 and not items.required[item]:
                    packing.tally[1] = max(packing.tally[1], address + size)
                break


@inner
def _lowest(items: Items, item: int, space: int, size: int, limit: int, packing: _Packing) -> int:
    """The lowest address that is free over the item's whole life, or one from which it ends above the limit."""
    address, moved = 0, True
    while moved and address + size <= limit:
        moved = False
        packing.tally[0] += items.end[item] - items.begin[item]
        for other in range(items.begin[item], items.end[item]):
            if packing.space[other] == space and items.last[other] >= items.first[item]:
                other_end = packing.address[other] + items.size[space, other]
                if packing.address[other] < address + size and address < other_end:
                    address, moved = other_end, True
    return address


@inner
def _value(items: Items, some: Int64, packing: _Packing) -> tuple[int, int, int]:
    """Of some items those packed: how many required ones, the worth of all, the worth of those in space 0."""
    required = worth = inside = 0
    for item in some:
        if packing.space[item] != NOWHERE:
            required += items.required[item]
            worth += items.worth[item]
            inside += items.worth[item] * (packing.space[item] == 0)
    return required, worth, inside


@inner
def _improve(items: Items, order: Int64, packing: _Packing, most: int) -> None:
    """Try moves until none helps: take out all items whose lives meet that of one, and put them back first fit. `most`
    bounds the comparisons."""
    count = items.first.size
    rank, every = np.empty(count, np.int64), np.empty(count, np.int64)
    old_space, old_address = np.empty(count, np.int64), np.empty(count, np.int64)
    for place in range(count):
        rank[order[place]] = place
    helped = True
    while helped:
        helped = False
        for item in range(count):
            if items.required[item] or packing.tally[0] > most or not _fits(items, item):
                continue
            window = every[: _window(items, item, rank, packing.space[item] == 0, every)]
            before = _value(items, window, packing)
            for other in window:
                old_space[other], old_address[other] = packing.space[other], packing.address[other]
                packing.space[other] = NOWHERE
            _first_fit(items, window, packing)
            if _value(items, window, packing) > before:
                helped = True
                continue
            for other in window:
                packing.space[other], packing.address[other] = old_space[other], old_address[other]


@inner
def _window(items: Items, item: int, rank: Int64, behind: bool, window: Int64) -> int:
    """Fill `window` with the items that may move and whose lives meet that of `item`, by rank, but `item` itself behind
    or in front; returns how many."""
    count = 0
    for other in range(items.begin[item], items.end[item]):
        if items.last[other] < items.first[item] or items.required[other]:
            continue
        place = count
        while place and _later(window[place - 1], other, item, rank, behind):
            window[place] = window[place - 1]
            place -= 1
        window[place] = other
        count += 1
    return count


@inner
def _later(one: int, other: int, item: int, rank: Int64, behind: bool) -> bool:
    """True where `one` comes after `other` in the window of `item`."""
    if item in (one, other):
        return (one == item) == behind
    return bool(rank[one] > rank[other])
