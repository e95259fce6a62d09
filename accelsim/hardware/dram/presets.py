"""Devices by name, from the table presets.yaml, with a number of channels and an address mapping of one's choice."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from accelsim.errors import InputError
from accelsim.hardware.dram.device import AddressMap, Controller, Device, Geometry, Power, Timing

DEFAULT_MAPPING = "MOP4CLXOR"  # the best worst case over tiles of BERT: docs/dram.md
_FIELDS = {"Ro": "row", "Ba": "bank", "Ra": "rank", "Co": "column", "Bg": "group", "Ch": "channel"}


@cache
def _table() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("presets.yaml").read_text(encoding="utf-8"))
    return data


def preset_names() -> list[str]:
    """All names, in the order of the table."""
    return list(_table())


def preset(
    name: str,
    channels: int = 1,
    mapping: str = DEFAULT_MAPPING,
    channel_xor: bool = True,
    controller: Controller | None = None,
) -> Device:
    """The device `name` with `channels` channels (a power of two).

    mapping: fields from high to low bits (`address_map`). Raises InputError for an unknown name or a bad mapping.
    """
    if name not in _table():
        raise InputError("unknown DRAM preset", where="preset", value=name, remedy=f"one of {', '.join(_table())}")
    entry = _table()[name]
    geometry = Geometry(channels=channels, **entry["geometry"])
    timing = Timing(**entry["timing"])
    power = Power(**entry["power"]) if "power" in entry else None
    return Device(
        name,
        geometry,
        timing,
        address_map(geometry, mapping, channel_xor),
        controller or Controller(dual_command=timing.act_clocks > 1),
        power,
        entry.get("energy_pj_per_bit"),
    )


def address_map(geometry: Geometry, mapping: str = DEFAULT_MAPPING, channel_xor: bool = True) -> AddressMap:
    """An AddressMap from its name: two letters a field from high to low bits, or MOP4CLXOR.

    Ro row, Ba bank, Bg bank group, Ra rank or pseudo channel, Co column, Ch channel; a group not named goes below the
    bank. MOP4CLXOR keeps four transactions of a row together, spreads the next ones over rank, group and bank, and
    xors those with the column. Raises InputError when a field is missing, unknown or named twice.
    """
    widths = {name: size.bit_length() - 1 for name, size in geometry.sizes.items()}
    if mapping == "MOP4CLXOR":
        low = min(2, widths["column"])
        order = [("channel", widths["channel"]), ("column", low)]
        order += [(name, widths[name]) for name in ("rank", "group", "bank")]
        order += [("column", widths["column"] - low), ("row", widths["row"])]
        return AddressMap(tuple(order), xor=True, channel_xor=channel_xor)
    names = [_FIELDS.get(mapping[at : at + 2]) for at in range(0, len(mapping), 2)]
    if "group" not in names and "bank" in names:
        names.insert(names.index("bank") + 1, "group")
    if None in names or sorted(str(name) for name in names) != sorted(_FIELDS.values()):
        raise InputError(
            "not an address mapping",
            where="mapping",
            value=mapping,
            remedy=f"name each of {', '.join(_FIELDS)} once, such as RoBaRaCoBgCh, or MOP4CLXOR",
        )
    return AddressMap(tuple((str(name), widths[str(name)]) for name in reversed(names)), channel_xor=channel_xor)
