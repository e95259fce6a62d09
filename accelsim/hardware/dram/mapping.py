"""Where a byte address lies: channel, bank and row, by bit fields and xor-ed bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.hardware.dram.device import FIELDS, Device
from accelsim.jit import inner, kernel

Int64 = NDArray[np.int64]

# Shift and mask of each field above the transaction's offset; the column has a low and a high part.
MAPPING = np.dtype(
    [("offset", "i8"), ("high_shift", "i8"), ("high_mask", "i8"), ("high_place", "i8")]
    + [(f"{name}_{part}", "i8") for name in FIELDS for part in ("shift", "mask")]
    + [(name, "i8") for name in ("xor", "row_xor", "channel_xor", "channel_bits", "rank_bits", "group_bits")]
    + [(name, "i8") for name in ("bank_bits", "ranks", "groups", "banks")]
)


def mapping_record(device: Device) -> Any:
    """[1] MAPPING of a device."""
    geometry, address_map = device.geometry, device.address_map
    record = np.zeros(1, MAPPING).view(np.recarray)
    record.offset = geometry.transaction_bytes.bit_length() - 1
    shift, seen_columns = 0, 0
    for name, width in address_map.order:
        mask = (1 << width) - 1
        if name == "column" and seen_columns:
            record.high_shift, record.high_mask, record.high_place = shift, mask, seen_columns
        else:
            record[f"{name}_shift"], record[f"{name}_mask"] = shift, mask
        seen_columns += width if name == "column" else 0
        shift += width
    record.xor, record.row_xor, record.channel_xor = address_map.xor, address_map.row_xor, address_map.channel_xor
    for name in ("channel", "rank", "group", "bank"):
        record[f"{name}_bits"] = address_map.bits(name)
    record.ranks, record.groups, record.banks = geometry.ranks, geometry.groups, geometry.banks
    return record


@inner
def locate_one(mapping: Any, address: int) -> tuple[int, int, int]:
    """(channel, bank of the channel, row) of a byte address. The bank counts rank, group, bank, in this order."""
    block = address >> mapping.offset
    channel = (block >> mapping.channel_shift) & mapping.channel_mask
    rank = (block >> mapping.rank_shift) & mapping.rank_mask
    group = (block >> mapping.group_shift) & mapping.group_mask
    bank = (block >> mapping.bank_shift) & mapping.bank_mask
    row = (block >> mapping.row_shift) & mapping.row_mask
    if mapping.xor:
        column = (block >> mapping.column_shift) & mapping.column_mask
        column |= ((block >> mapping.high_shift) & mapping.high_mask) << mapping.high_place
        rank ^= column & mapping.rank_mask
        column >>= mapping.rank_bits
        group ^= column & mapping.group_mask
        column >>= mapping.group_bits
        bank ^= column & mapping.bank_mask
        if mapping.row_xor:
            row = (row ^ (column >> mapping.bank_bits)) & mapping.row_mask
    if mapping.channel_xor and mapping.channel_bits > 0:
        rest = block >> (mapping.channel_shift + mapping.channel_bits)
        while rest > 0:
            channel ^= rest & mapping.channel_mask
            rest >>= mapping.channel_bits
    bank += mapping.banks * (group + mapping.groups * rank)
    return channel, bank, row


@kernel
def _locate_all(mapping: Any, addresses: Int64, place: Int64) -> None:
    for index in range(addresses.size):
        place[0, index], place[1, index], place[2, index] = locate_one(mapping, addresses[index])


def locate(device: Device, addresses: ArrayLike) -> Int64:
    """Channel, bank of the channel and row of n byte addresses: int64 [3, n]."""
    flat = np.ascontiguousarray(addresses, np.int64)
    place = np.empty((3, flat.size), np.int64)
    _locate_all(mapping_record(device)[0], flat, place)
    return place
