"""Mappings of the user's own: a YAML list of {operator, tile: [m, n, k], order, dataflow, resident}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

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
    try:
        text = Path(path).read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot read the mapping file", where=str(path), value=str(error)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError("not YAML", where=where, value=getattr(error, "problem", None) or str(error)) from error
    if not isinstance(node, yaml.SequenceNode):
        raise InputError(
            "a mapping file is a list of entries", where=f"{path}:1", remedy=f"with keys {', '.join(KEYS)}"
        )
    result: dict[int, MappingEntry] = {}
    for child in node.value:
        entry = _entry(child, f"{path}:{child.start_mark.line + 1}")
        if entry.operator in result:
            raise InputError("the operator is mapped twice", where=entry.where, value=entry.operator)
        result[entry.operator] = entry
    return result


def _entry(node: yaml.Node, where: str) -> MappingEntry:
    raw = _mapping_of(node, where)
    for key in ("operator", "tile", "order"):
        if key not in raw:
            raise InputError(f"the entry has no `{key}`", where=where, remedy=f"give {', '.join(KEYS[:3])}")
    operator, tile, order = raw["operator"], raw["tile"], raw["order"]
    if not _whole(operator, 0):
        raise InputError("`operator` must be the id of an operator", where=where, value=operator)
    if not isinstance(tile, list) or len(tile) != 3 or not all(_whole(size, 1) for size in tile):
        raise InputError("`tile` must be three sizes [m, n, k] of at least 1", where=where, value=tile)
    if not isinstance(order, list) or sorted(map(str, order)) != ["k", "m", "n"]:
        raise InputError("`order` must name m, n and k once each, outer to inner", where=where, value=order)
    resident = raw.get("resident", [])
    if not isinstance(resident, list) or not set(map(str, resident)) <= {"a", "b"}:
        raise InputError("`resident` must be a list of a and b", where=where, value=resident)
    dataflow = raw.get("dataflow")
    if dataflow not in (None, "ws", "os", "is"):
        raise InputError("`dataflow` must be ws, os or is", where=where, value=dataflow)
    return MappingEntry(operator, tuple(tile), tuple(order), dataflow, frozenset(resident), where)


def _mapping_of(node: yaml.Node, where: str) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise InputError("an entry is a mapping", where=where, remedy=f"with keys {', '.join(KEYS)}")
    raw: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = f"{where.rsplit(':', 1)[0]}:{key_node.start_mark.line + 1}"
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
        if key not in KEYS:
            raise InputError("unknown key", where=line, value=key, remedy=f"valid keys: {', '.join(KEYS)}")
        if key in raw:
            raise InputError("the key is given twice", where=line, value=key)
        raw[key] = yaml.safe_load(yaml.serialize(value_node))
    return raw


def _whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


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
