"""Addresses inside the on-chip buffers, and who must be done before they are reused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from accelsim.compile.program import Allocation
from accelsim.compile.template import merge_last
from accelsim.errors import InternalError


@dataclass
class Holder:
    """Bytes in use. `last` is, per unit, the last task that touches them: an in-order unit needs no other."""

    name: str
    address: int
    end: int  # first byte after it
    first_writer: int = -1  # -1: there before the run
    last: dict[int, int] = field(default_factory=dict)

    def touch(self, tasks: Mapping[int, int]) -> None:
        """Note the last tasks, per unit, of one more reader or writer."""
        merge_last(self.last, tasks)


class Space:
    """One buffer. A claim of bytes says which tasks have to release them first.

    Tile buffers are taken in turn (next fit), so that memory just given back is reused last and the next operator's
    loads can start while this operator still computes.
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self._recent: list[Holder] = []  # holders whose bytes nobody has claimed since, some trimmed
        self._all: list[Holder] = []
        self._next = 0

    def claim(self, name: str, address: int, size: int) -> tuple[Holder, dict[int, int]]:
        """Take [address, address + size); returns the holder and the last tasks, per unit, of those before it."""
        if address < 0 or address + size > self.capacity:
            raise InternalError(f"{self.name}: '{name}' at {address}+{size} is outside {self.capacity} bytes")
        blockers: dict[int, int] = {}
        remaining: list[Holder] = []
        end = address + size
        for holder in self._recent:
            if holder.end <= address or end <= holder.address:
                remaining.append(holder)
                continue
            merge_last(blockers, holder.last)
            remaining += _outside(holder, address, end)
        holder = Holder(name, address, end)
        self._recent = [*remaining, holder]
        self._all.append(holder)
        return holder, blockers

    def take(self, size: int, low: int) -> int:
        """Address of `size` bytes at or above `low`, next after the last taken ones."""
        address = max(self._next, low)
        if address + size > self.capacity:
            address = low
        self._next = address + size
        return address

    def allocations(self) -> Iterable[Allocation]:
        for holder in self._all:
            last = max(holder.last.values(), default=holder.first_writer)
            size = holder.end - holder.address
            if size and last >= 0:
                yield Allocation(self.name, holder.name, holder.address, size, holder.first_writer, last)


def _outside(holder: Holder, low: int, high: int) -> list[Holder]:
    """What is left of a holder beside [low, high); the pieces share its `last`, which may still grow."""
    pieces = []
    if holder.address < low:
        pieces.append(Holder(holder.name, holder.address, low, holder.first_writer, holder.last))
    if high < holder.end:
        pieces.append(Holder(holder.name, high, holder.end, holder.first_writer, holder.last))
    return pieces
