"""Placement: which tensors stay on chip between operators, by liveness, and where every tensor lies.

Residents are packed from address 0 upwards over the whole run (greedy by traffic saved for each byte and group of
life, first fit over live ranges), so that the rest of the scratchpad is one free range at any time: tile buffers
live there. Residents take at most `RESIDENT_SHARE` of the scratchpad, lest tiles become too small to reuse data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accelsim.arch.sections import Scratchpad
from accelsim.arch.spec import Arch
from accelsim.compile.fuse import Group
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
class _Candidate:
    tensor: Tensor
    first: int
    last: int
    readers: int
    required: bool

    @property
    def bytes(self) -> int:
        return -(-self.tensor.bytes // _ALIGN) * _ALIGN

    @property
    def merit(self) -> tuple[bool, float, int, int]:
        """Required ones first, then traffic saved for each byte and group of life, then size, then order."""
        return (self.required, (1 + self.readers) / (self.last - self.first + 1), self.bytes, -self.tensor.id)


def place(
    groups: tuple[Group, ...], trace: Trace, arch: Arch, residency: bool, off_chip: frozenset[int] = frozenset()
) -> Placement:
    """Place every tensor of the groups; those of `off_chip`, which a host reads or writes, in DRAM.

    Raises InputError where a tensor that the trace puts on chip fits neither scratchpad nor second level, or is of
    `off_chip`.
    """
    candidates = sorted(_candidates(groups, trace), key=lambda c: c.merit, reverse=True)
    scratchpad: dict[int, Region] = {}
    level2: dict[int, Region] = {}
    capacity = arch.scratchpad.capacity_bytes
    second = arch.second_level.capacity_bytes if arch.second_level else 0
    for candidate in candidates:
        if candidate.tensor.id in off_chip and candidate.required:
            raise _out_of_reach(candidate.tensor)
        if not (candidate.required or residency) or candidate.tensor.id in off_chip:
            continue
        limit = capacity if candidate.required else int(capacity * RESIDENT_SHARE)
        if (region := _fit(candidate, scratchpad, limit, _bytes_in_banks(candidate, arch.scratchpad))) is not None:
            scratchpad[candidate.tensor.id] = region
        elif (region := _fit(candidate, level2, second, candidate.bytes)) is not None:
            level2[candidate.tensor.id] = region
        elif candidate.required:
            raise _does_not_fit(candidate.tensor, capacity, second)
    tops = tuple(_top(scratchpad, index) for index in range(len(groups)))
    return Placement(scratchpad, level2, dram_addresses(groups, trace, arch), tops)


def _candidates(groups: tuple[Group, ...], trace: Trace) -> list[_Candidate]:
    """Tensors that may or must stay on chip: written here and read again, or put on chip by the trace."""
    written = {view.tensor: index for index, group in enumerate(groups) for view in group.outputs}
    read: dict[int, list[int]] = {}
    for index, group in enumerate(groups):
        for name in dict.fromkeys(view.tensor for view in group.inputs):
            read.setdefault(name, []).append(index)
    found = []
    for number in sorted({*written, *read}):
        tensor, readers = trace.tensors[number], read.get(number, [])
        initial = tensor.initial == "on_chip" and number not in written
        if initial or tensor.final == "on_chip" or (number in written and readers):
            last = len(groups) - 1 if tensor.final == "on_chip" else max(readers, default=written.get(number, 0))
            required = initial or tensor.final == "on_chip"
            found.append(_Candidate(tensor, written.get(number, 0), last, len(readers), required))
    return found


def _bytes_in_banks(candidate: _Candidate, scratchpad: Scratchpad) -> int:
    """Bytes of the scratchpad that a tensor takes, with the padding of its rows where the machine pads them."""
    shape, size = candidate.tensor.shape, candidate.bytes
    if scratchpad.transpose != "padding" or not shape:
        return size
    row_bytes = shape[-1] * DTYPE_BYTES[candidate.tensor.dtype]
    rows = candidate.tensor.elements // shape[-1]
    padded = rows * int(padded_pitch(row_bytes, scratchpad.banks, scratchpad.bank_width_bytes))
    return -(-padded // _ALIGN) * _ALIGN


def _fit(candidate: _Candidate, placed: Mapping[int, Region], limit: int, size: int) -> Region | None:
    """The lowest address of `size` bytes below `limit` that is free over the candidate's whole life."""
    busy = [r for r in placed.values() if r.first <= candidate.last and candidate.first <= r.last]
    address = 0
    for region in sorted(busy, key=lambda r: r.address):
        if address + size <= region.address:
            break
        address = max(address, region.end)
    if address + size > limit:
        return None
    return Region(address, size, candidate.first, candidate.last)


def _top(placed: Mapping[int, Region], group: int) -> int:
    return max((r.end for r in placed.values() if r.first <= group <= r.last), default=0)


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
