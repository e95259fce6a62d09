"""Placement: which tensors stay on chip between operators, by liveness, and where every tensor lies.

What is made large is the DRAM traffic saved (`saved_bytes`). Residents are packed from address 0 upwards over the whole
run (`pack`), so that the rest of the scratchpad is one free range at any time: tile buffers live there. Residents take
at most `RESIDENT_SHARE` of the scratchpad, lest tiles become too small to reuse data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from accelsim.arch.sections import Scratchpad
from accelsim.arch.spec import Arch
from accelsim.compile.fuse import Group, elements
from accelsim.compile.pack import NOWHERE, Items, items_of, pack
from accelsim.errors import InputError
from accelsim.hardware.scratchpad import padded_pitch
from accelsim.trace.model import DTYPE_BYTES, Tensor, Trace

RESIDENT_SHARE = 0.5
_ALIGN = 64  # bytes; keeps every on-chip tensor on a bank line of the shipped machines


@dataclass(frozen=True)
class Region:
    """Bytes of one space held by a tensor from group `first` to group `last` (inclusive)."""

    address: int
    bytes: int
    first: int
    last: int

    @property
    def end(self) -> int:
        return self.address + self.bytes


@dataclass(frozen=True)
class Placement:
    """Where tensors live. A tensor in neither on-chip map lives in DRAM only."""

    scratchpad: Mapping[int, Region]
    level2: Mapping[int, Region]
    dram_address: Mapping[int, int]  # storage -> byte address
    resident_top: tuple[int, ...]  # [groups] end of the scratchpad's residents while the group runs

    def place_of(self, tensor: int) -> str:
        return "scratchpad" if tensor in self.scratchpad else "level2" if tensor in self.level2 else "dram"


@dataclass(frozen=True)
class Candidate:
    """A tensor that may or must stay on chip, from group `first` to group `last`."""

    tensor: Tensor
    first: int
    last: int
    readers: int  # groups that read it
    saved_bytes: int  # of DRAM traffic, by staying on chip
    required: bool

    @property
    def bytes(self) -> int:
        return -(-self.tensor.bytes // _ALIGN) * _ALIGN

    @property
    def orders(self) -> tuple[tuple[float, ...], ...]:
        """What comes first in each order that is tried: most accesses for each group of life; most saved for each byte
        and group, most saved, the shortest life; of equals the larger, then the earlier. Required ones before all."""
        life = self.last - self.first + 1
        merits = ((1 + self.readers) / life, self.saved_bytes / (self.bytes * life), self.saved_bytes, -life)
        return tuple((-self.required, -merit, -self.bytes, self.tensor.id) for merit in merits)


def place(
    groups: tuple[Group, ...], trace: Trace, arch: Arch, residency: bool, off_chip: frozenset[int] = frozenset()
) -> Placement:
    """Place every tensor of the groups; those of `off_chip`, which a host reads or writes, in DRAM.

    Raises InputError where a tensor that the trace puts on chip fits neither scratchpad nor second level, or is of
    `off_chip`.
    """
    some = [c for c in candidates(groups, trace) if c.required or (residency and c.tensor.id not in off_chip)]
    for candidate in some:
        if candidate.tensor.id in off_chip:
            raise _out_of_reach(candidate.tensor)
    scratchpad, level2 = _packed(some, arch)
    tops = _tops(scratchpad, len(groups))
    return Placement(scratchpad, level2, dram_addresses(groups, trace, arch), tops)


def saved_bytes(placement: Placement, groups: tuple[Group, ...], trace: Trace) -> int:
    """DRAM traffic that the tensors on chip save: the write of each, unless it must end in DRAM, and every read.

    Each operand of a group counts as fetched once, with all elements of its view. What a matmul saves that would fetch
    an operand several times is left out: its tiles are chosen later, by what is resident.
    """
    return sum(c.saved_bytes for c in candidates(groups, trace) if placement.place_of(c.tensor.id) != "dram")


def candidates(groups: tuple[Group, ...], trace: Trace) -> list[Candidate]:
    """Tensors that may or must stay on chip, by id: written here and read again, or put on chip by the trace."""
    written = {view.tensor: index for index, group in enumerate(groups) for view in group.outputs}
    read: dict[int, list[int]] = {}
    read_bytes: dict[int, int] = {}
    for index, group in enumerate(groups):
        for view in group.inputs:
            size = elements(view) * DTYPE_BYTES[trace.tensors[view.tensor].dtype]
            read.setdefault(view.tensor, []).append(index)
            read_bytes[view.tensor] = read_bytes.get(view.tensor, 0) + size
    found = []
    for number in sorted({*written, *read}):
        tensor, readers = trace.tensors[number], read.get(number, [])
        initial = tensor.initial == "on_chip" and number not in written
        required = initial or tensor.final == "on_chip"
        if required or (number in written and readers):
            last = len(groups) - 1 if tensor.final == "on_chip" else max(readers, default=written.get(number, 0))
            saved = read_bytes.get(number, 0) + tensor.bytes * (number in written and tensor.final != "dram")
            found.append(Candidate(tensor, written.get(number, 0), last, len(set(readers)), saved, required))
    return found


def packing_items(some: list[Candidate], arch: Arch) -> Items:
    """Candidates, in the order of `first`, as items to be packed in a share of the scratchpad and the second level."""
    capacity = arch.scratchpad.capacity_bytes
    second = arch.second_level.capacity_bytes if arch.second_level else 0
    limits = np.array([[int(capacity * RESIDENT_SHARE), capacity], [second, second]], np.int64)
    rows = [(c.first, c.last, _bytes_in_banks(c, arch.scratchpad), c.bytes, c.saved_bytes, c.required) for c in some]
    first, last, banks, plain, saved, required = np.array(rows, np.int64).T.copy()
    return items_of(first, last, np.stack([banks, plain]), saved, required, limits)


def _packed(some: list[Candidate], arch: Arch) -> tuple[dict[int, Region], dict[int, Region]]:
    """The residents of the scratchpad and those of the second level, by tensor."""
    spaces: tuple[dict[int, Region], dict[int, Region]] = {}, {}
    if not some:
        return spaces
    some = sorted(some, key=lambda c: (c.first, c.tensor.id))
    items = packing_items(some, arch)
    orders = np.array([np.lexsort(np.array(keys).T[::-1]) for keys in zip(*(c.orders for c in some), strict=True)])
    space, address = pack(items, orders)
    for index, candidate in enumerate(some):
        where = int(space[index])
        if where != NOWHERE:
            size = int(items.size[where, index])
            region = Region(int(address[index]), size, candidate.first, candidate.last)
            spaces[where][candidate.tensor.id] = region
        elif candidate.required:
            raise _does_not_fit(candidate.tensor, *(int(limit) for limit in items.limit[:, 1]))
    return spaces


def _bytes_in_banks(candidate: Candidate, scratchpad: Scratchpad) -> int:
    """Bytes of the scratchpad that a tensor takes, with the padding of its rows where the machine pads them."""
    shape, size = candidate.tensor.shape, candidate.bytes
    if scratchpad.transpose != "padding" or not shape:
        return size
    row_bytes = shape[-1] * DTYPE_BYTES[candidate.tensor.dtype]
    rows = candidate.tensor.elements // shape[-1]
    padded = rows * int(padded_pitch(row_bytes, scratchpad.banks, scratchpad.bank_width_bytes))
    return -(-padded // _ALIGN) * _ALIGN


def _tops(placed: Mapping[int, Region], groups: int) -> tuple[int, ...]:
    """The highest end of a resident while each group runs."""
    tops = np.zeros(groups, np.int64)
    for region in placed.values():
        life = tops[region.first : region.last + 1]
        np.maximum(life, region.end, out=life)
    return tuple(tops.tolist())


def dram_addresses(groups: tuple[Group, ...], trace: Trace, arch: Arch) -> dict[int, int]:
    """Byte address of every storage, in the order of first use, aligned to `dram.tensor_align_bytes`."""
    addresses: dict[int, int] = {}
    align, top = arch.dram.tensor_align_bytes, 0
    for group in groups:
        for view in (*group.inputs, *group.outputs):
            tensor = trace.tensors[view.tensor]
            if tensor.storage not in addresses:
                addresses[tensor.storage] = top
                top += -(-tensor.bytes // align) * align
    return addresses


def _out_of_reach(tensor: Tensor) -> InputError:
    return InputError(
        f"tensor '{tensor.name}' is on chip in the trace, and the host that works on it reaches DRAM only",
        where=f"tensor {tensor.id}",
        remedy="give the machine a vector unit, or let the tensor be in dram",
    )


def _does_not_fit(tensor: Tensor, capacity: int, second: int) -> InputError:
    return InputError(
        f"tensor '{tensor.name}' is on chip in the trace but does not fit: {tensor.bytes} bytes against "
        f"{capacity} of scratchpad and {second} of second level, beside the other tensors kept there",
        where=f"tensor {tensor.id}",
        value=tensor.shape,
        remedy="enlarge scratchpad.capacity_kib, add a second_level, or let the tensor start in dram",
    )
