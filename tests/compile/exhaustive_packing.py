"""The best packing there is, by trying all: the reference for `accelsim.compile.pack`. For about ten items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import permutations, product

import numpy as np

from accelsim.compile.pack import Items

Value = tuple[int, int]  # worth of all that is packed, worth of what lies in space 0
_Fixed = tuple[Mapping[int, int], ...]  # for each space: item -> address


def best_value(items: Items) -> Value:
    """What the best packing is worth, of all that first fit makes in any order with the required items in front."""
    assert items.limit[0, 0] <= items.limit[0, 1]
    required = np.flatnonzero(items.required)
    return max(_best_beside(items, first_fit(items, order)) for order in permutations(required.tolist()))


def first_fit(items: Items, order: Sequence[int]) -> _Fixed:
    """For each space the addresses of the items that first fit finds room for, in the given order."""
    spaces: tuple[dict[int, int], ...] = tuple({} for _ in items.size)
    for item in order:
        for space, placed in enumerate(spaces):
            address = _lowest(items, space, item, placed)
            if address + items.size[space, item] <= items.limit[space, items.required[item]]:
                placed[item] = address
                break
    return spaces


def value_of(items: Items, space: Sequence[int]) -> Value:
    """What a packing is worth, given the space of each item (-1: none)."""
    where = np.array(space)
    return int(items.worth[where >= 0].sum()), int(items.worth[where == 0].sum())


def _best_beside(items: Items, fixed: _Fixed) -> Value:
    """The best value of all subsets of items for each space; `fixed` ones stay where they are."""
    settled = {item: space for space, placed in enumerate(fixed) for item in placed}
    spaces = range(len(items.size))
    choices = [
        (settled[item],)
        if item in settled
        else (-1, *(space for space in spaces if items.size[space, item] <= items.limit[space, 0]))
        for item in range(items.first.size)
    ]
    ways = np.array(list(product(*choices)))
    free = np.array([item not in settled for item in range(items.first.size)])
    for group in np.unique(items.first):  # those alive at once have to fit, fragments aside
        alive = free & (items.first <= group) & (group <= items.last)
        for space in spaces:
            ways = ways[(ways == space) @ (items.size[space] * alive) <= items.limit[space, 0]]
    worth = np.stack([(ways >= 0) @ items.worth, (ways == 0) @ items.worth])

    @cache
    def packable(space: int, chosen: tuple[int, ...]) -> bool:
        return _packable(items, space, [item for item in chosen if item not in settled], fixed[space])

    for way in np.lexsort(-worth[::-1]):
        if all(packable(space, tuple(np.flatnonzero(ways[way] == space).tolist())) for space in spaces):
            return int(worth[0, way]), int(worth[1, way])
    raise AssertionError("nothing at all can always be packed")


def _packable(items: Items, space: int, chosen: Sequence[int], fixed: Mapping[int, int]) -> bool:
    """True where the chosen items fit at some addresses.

    First fit by ascending address of any packing puts no item higher than it was, so it is enough to try first fit in
    the orders that give ascending addresses.
    """
    dead = set()

    def fits(placed: Mapping[int, int], floor: int) -> bool:
        state = tuple(sorted(placed.items()))
        if len(placed) == len(fixed) + len(chosen):
            return True
        if (state, floor) in dead:
            return False
        for item in chosen:
            if item not in placed:
                address = _lowest(items, space, item, placed)
                if address + items.size[space, item] > items.limit[space, 0]:
                    break  # nor later, when even less is free
                if address >= floor and fits({**placed, item: address}, address):
                    return True
        dead.add((state, floor))
        return False

    return fits(fixed, 0)


def _lowest(items: Items, space: int, item: int, placed: Mapping[int, int]) -> int:
    """The lowest address that is free over the item's life."""
    size, first, last = items.size[space].tolist(), items.first.tolist(), items.last.tolist()
    busy = sorted(
        (address, address + size[other])
        for other, address in placed.items()
        if first[other] <= last[item] and first[item] <= last[other]
    )
    low = 0
    for address, end in busy:
        if low + size[item] <= address:
            break
        low = max(low, end)
    return low
