"""Mappings of the user's own: a YAML list of {operator, tile: [m, n, k], order, dataflow, resident, depth: [a, b]}."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from accelsim.arch.document import join, read_plain
from accelsim.compile.candidates import DEPTH, MatmulCosts, Tiling, buffer_bytes, fits, single_candidate, sum_bytes
from accelsim.compile.estimate import estimate_cycles
from accelsim.compile.fuse import Group
from accelsim.compile.mapper import Mapped
from accelsim.compile.program import Program
from accelsim.compile.work import MatmulWork
from accelsim.errors import InputError

KEYS = ("operator", "tile", "order", "dataflow", "resident", "depth")
MOST_DEEP = 1000


@dataclass(frozen=True)
class MappingEntry:
    """One entry of a mapping file; `where` is its place in the file for messages."""

    operator: int
    tile: tuple[int, int, int]
    order: tuple[str, ...]
    dataflow: str | None
    resident: frozenset[str]
    where: str
    depth: tuple[int, int] = DEPTH


def read_mapping(path: str | Path) -> dict[int, MappingEntry]:
    """The entries of a mapping file by operator id. Raises InputError with file:line for anything not understood."""
    entries, places = read_plain(Path(path))
    if not isinstance(entries, list):
        raise InputError("a mapping file is a list of entries", where=places[""], remedy=f"with keys {', '.join(KEYS)}")
    result: dict[int, MappingEntry] = {}
    for index, raw in enumerate(entries):
        entry = _entry(raw, f"[{index}]", places)
        if entry.operator in result:
            raise InputError(
                "the operator is mapped twice",
                where=entry.where,
                value=entry.operator,
                remedy="keep one entry of the two",
            )
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
    chosen = raw["operator"], tuple(raw["tile"]), tuple(raw["order"]), raw.get("dataflow"), resident
    return MappingEntry(*chosen, where, tuple(raw.get("depth", DEPTH)))


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
    "depth": (
        lambda value: (
            isinstance(value, list) and len(value) == 2 and all(_whole(size, 1) and size <= MOST_DEEP for size in value)
        ),
        f"two numbers of slots [a, b] from 1 to {MOST_DEEP}",
    ),
}


def unknown_operators(mapping: Mapping[int, MappingEntry], groups: Sequence[Group]) -> None:
    """Raise InputError for an entry whose operator is no matmul that is lowered, or has blocks of its own."""
    heads = {group.head.id for group in groups if group.head.kind == "matmul"}
    attended = {part for group in groups if group.before for part in group.parts}
    for operator, entry in mapping.items():
        if operator in attended:
            raise InputError(
                "the operator is part of attention that runs block by block",
                where=entry.where,
                value=operator,
                remedy="give --rule attention=off to map it",
            )
        if operator not in heads:
            raise InputError(
                "no matmul has this id",
                where=entry.where,
                value=operator,
                remedy="`accelsim show program` lists the operators",
            )


def check_entry(entry: MappingEntry, machines: Sequence[tuple[MatmulWork, MatmulCosts]]) -> Mapped:
    """The entry as a mapping, with its estimated cycles; machines: the matmul in each dataflow that it may take.

    Raises InputError where the entry does not fit operator or machine.
    """
    work, costs = _machine_of(entry, machines)
    view = work.view
    for name, size, total in zip("mnk", entry.tile, (view.m, view.n, view.k), strict=True):
        if size > total:
            raise InputError(f"tile {name} is larger than the operator's {total}", where=entry.where, value=size)
    if work.whole_rows and entry.tile[1] < view.n:
        raise _cut_rows(entry, work)
    tiling = Tiling(*entry.tile, entry.order, entry.resident, work.array.dataflow, entry.depth)
    candidate = single_candidate(work, tiling, costs.arrays)
    if not fits(candidate, costs):
        raise InputError(
            f"the tile needs {int(buffer_bytes(candidate, costs))} bytes of scratchpad ({costs.scratchpad_bytes} free) "
            f"and {int(sum_bytes(candidate, costs))} of accumulator ({costs.accumulator_bytes} there)",
            where=entry.where,
            value=list(entry.tile),
            remedy="make the tile smaller, hold fewer operands resident or give less depth",
        )
    return Mapped(tiling, int(estimate_cycles(candidate, costs)))


def _machine_of(
    entry: MappingEntry, machines: Sequence[tuple[MatmulWork, MatmulCosts]]
) -> tuple[MatmulWork, MatmulCosts]:
    """The matmul in the entry's dataflow, the first that it may take where the entry names none."""
    allowed = [work.array.dataflow for work, _ in machines]
    if entry.dataflow is None:
        return machines[0]
    if entry.dataflow not in allowed:
        attached = machines[0][0].attached
        raise InputError(
            f"the {machines[0][0].unit} unit at the array's output needs dataflow ws"
            if attached
            else f"the array is {' or '.join(allowed)}",
            where=entry.where,
            value=entry.dataflow,
            remedy="give ws" if attached else "set array.dataflow",
        )
    return machines[allowed.index(entry.dataflow)]


def _cut_rows(entry: MappingEntry, work: MatmulWork) -> InputError:
    where = "at the array's output" if work.attached else "after the matmul"
    apart = f"set special.{work.unit}.attach: scratchpad" if work.attached else "give --rule matmul_layernorm=off"
    return InputError(
        f"the {work.unit} unit {where} takes whole rows: tile n must be {work.view.n}",
        where=entry.where,
        value=entry.tile[1],
        remedy=f"give whole rows, or {apart}",
    )


def dump_mapping(program: Program) -> str:
    """The program's matmul mappings as a mapping file, but for those of fused attention, whose blocks are its own."""
    entries = [
        {
            "operator": plan.op,
            "tile": list(plan.tile),
            "order": list(plan.order),
            "dataflow": plan.dataflow,
            "resident": list(plan.resident),
            "depth": list(plan.depth or DEPTH),
        }
        for plan in program.plans
        if plan.tile is not None and plan.order is not None
    ]
    return yaml.safe_dump(entries, sort_keys=False, default_flow_style=None)
