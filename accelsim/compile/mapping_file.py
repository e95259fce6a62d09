"""Mappings of the user's own: a YAML list of {operator, tile: [m, n, k], order, dataflow, resident}."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from accelsim.arch.document import join, read_plain
from accelsim.compile.fuse import Group
from accelsim.compile.mapper import MatmulCosts, Tiling, buffer_bytes, estimate_cycles, fits, single_candidate
from accelsim.compile.plan import MatmulWork
from accelsim.compile.program import Program
from accelsim.errors import InputError

KEYS = ("operator", "tile", "order", "dataflow", "resident")


@dataclass(frozen=True)
class MappingEntry:
    """One entry of a mapping file; `where` is its place in the file for messages."""

    operator: int
    tile: tuple[int, int, int]
    order: tuple[str, ...]
    dataflow: str | None
    resident: frozenset[str]
    where: str


def read_mapping(path: str | Path) -> dict[int, MappingEntry]:
    """The entries of a mapping file by operator id. Raises InputError with file:line for anything not understood."""
    entries, places = read_plain(Path(path))
    if not isinstance(entries, list):
        raise InputError("a mapping file is a list of entries", where=places[""], remedy=f"with keys {', '.join(KEYS)}")
    result: dict[int, MappingEntry] = {}
    for index, raw in enumerate(entries):
        entry = _entry(raw, f"[{index}]", places)
        if entry.operator in result:
            raise InputError("the operator is mapped twice", where=entry.where, value=entry.operator)
        result[entry.operator] = entry
    return result


def _entry(raw: object, path: str, places: Mapping[str, str]) -> MappingEntry:
    where = places[path]
    if not isinstance(raw, dict):
        raise InputError("an entry is a mapping", where=where, value=raw, remedy=f"with keys {', '.join(KEYS)}")
    for key in raw:
        if key not in KEYS:
            raise InputError(
                "unknown key", where=places[join(path, key)], value=key, remedy=f"valid: {', '.join(KEYS)}"
            )
    for key in KEYS[:3]:
        if key not in raw:
            raise InputError(f"the entry has no `{key}`", where=where, remedy=f"give {', '.join(KEYS[:3])}")
    for key, value in raw.items():
        holds, expected = _EXPECTED[key]
        if not holds(value):
            raise InputError(f"`{key}` must be {expected}", where=places[join(path, key)], value=value)
    resident = frozenset(raw.get("resident", ()))
    return MappingEntry(raw["operator"], tuple(raw["tile"]), tuple(raw["order"]), raw.get("dataflow"), resident, where)


def _whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _listed(value: object, allowed: tuple[str, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item in allowed for item in value)


_EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "operator": (lambda value: _whole(value, 0), "the id of an operator"),
    "tile": (
        lambda value: isinstance(value, list) and len(value) == 3 and all(_whole(size, 1) for size in value),
        "three sizes [m, n, k] of at least 1",
    ),
    "order": (
        lambda value: _listed(value, ("m", "n", "k")) and sorted(value) == ["k", "m", "n"],
        "m, n and k once each, outer to inner",
    ),
    "dataflow": (lambda value: value is None or value in ("ws", "os", "is"), "ws, os or is"),
    "resident": (lambda value: _listed(value, ("a", "b")), "a list of a and b"),
}


def unknown_operators(mapping: Mapping[int, MappingEntry], groups: Sequence[Group]) -> None:
    """Raise InputError for an entry whose operator is no matmul that is lowered."""
    heads = {group.head.id for group in groups if group.head.kind == "matmul"}
    for operator, entry in mapping.items():
        if operator not in heads:
            raise InputError(
                "no matmul has this id",
                where=entry.where,
                value=operator,
                remedy="`accelsim show program` lists the operators",
            )


def check_entry(entry: MappingEntry, work: MatmulWork, costs: MatmulCosts) -> tuple[Tiling, int]:
    """The entry as a Tiling, with its estimated cycles. Raises InputError where it does not fit operator or machine."""
    view = work.view
    for name, size, total in zip("mnk", entry.tile, (view.m, view.n, view.k), strict=True):
        if size > total:
            raise InputError(f"tile {name} is larger than the operator's {total}", where=entry.where, value=size)
    if entry.dataflow not in (None, work.array.dataflow):
        raise InputError(
            f"the array is {work.array.dataflow}", where=entry.where, value=entry.dataflow, remedy="set array.dataflow"
        )
    if work.whole_rows and entry.tile[1] < view.n:
        raise InputError(
            f"the {work.unit} unit at the array's output takes whole rows: tile n must be {view.n}",
            where=entry.where,
            value=entry.tile[1],
            remedy=f"give whole rows, or set special.{work.unit}.attach: scratchpad",
        )
    tiling = Tiling(*entry.tile, entry.order, entry.resident)
    candidate = single_candidate(work, tiling, costs.arrays)
    if not fits(candidate, costs):
        raise InputError(
            f"the tile needs {int(buffer_bytes(candidate, costs))} bytes of scratchpad (free: "
            f"{costs.scratchpad_bytes}) or more accumulator than the {costs.accumulator_bytes} bytes there are",
            where=entry.where,
            value=list(entry.tile),
            remedy="make the tile smaller or hold fewer operands resident",
        )
    return tiling, int(estimate_cycles(candidate, costs))


def dump_mapping(program: Program) -> str:
    """The program's matmul mappings as a mapping file."""
    entries = [
        {
            "operator": plan.op,
            "tile": list(plan.tile),
            "order": list(plan.order or ()),
            "dataflow": plan.dataflow,
            "resident": list(plan.resident),
        }
        for plan in program.plans
        if plan.tile is not None
    ]
    return yaml.safe_dump(entries, sort_keys=False, default_flow_style=None)
