"""Tables of sourced numbers with low, nominal and high values: energy of an action and static power, or area."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from accelsim.energy.memory import Memory, Published, memory_price
from accelsim.energy.value import KINDS, Price, Value, at_node
from accelsim.errors import InputError, InternalError

AREA_TABLE = "area"
_FOLDER = Path(__file__).parent
_FIGURES = ("read_pj", "write_pj", "leakage_mw", "area_mm2")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a table: values by node (and DRAM device), a memory's figure, or a sum made elsewhere (neither)."""

    key: str
    unit: str
    about: str
    values: tuple[Value, ...] = ()
    figure: str | None = None  # of a memory's organisation: accelsim.energy.memory

    @property
    def by_device(self) -> bool:
        """True when the price depends on the DRAM family."""
        return any(value.device is not None for value in self.values)


@dataclass(frozen=True)
class SourcedTable:
    """A table of `what` ("energy" or "area"): every number has a source; `price` gives it at any node of `range_nm`.

    `technology_nm` is the node of most of its numbers. `published` are energies of accesses to memories.
    """

    name: str
    what: str
    technology_nm: float
    range_nm: tuple[float, float]
    sources: Mapping[str, str]
    entries: Mapping[str, Entry]
    published: Published

    @property
    def title(self) -> str:
        """The table in words."""
        return f"{self.what} table" if self.name == self.what else f"{self.what} table {self.name}"

    def check_technology(self, technology_nm: float, where: str | None = None) -> None:
        """Raise InputError when the table cannot be scaled to `technology_nm`."""
        low, high = self.range_nm
        if not low <= technology_nm <= high:
            raise InputError(
                f"the {self.title} is for {self.technology_nm:g} nm and scales to {low:g} to {high:g} nm",
                where=where,
                value=technology_nm,
                remedy=f"give a node in that range, and {self.what}.overrides for what you know better",
            )

    def check_key(self, key: str, where: str | None = None) -> None:
        """Raise InputError, with the nearest key, when there is no entry `key`."""
        if key not in self.entries:
            near = get_close_matches(key, self.entries, 1)
            remedy = f"did you mean {near[0]}?" if near else f"entries: {', '.join(self.entries)}"
            raise InputError(f"the {self.title} has no entry {key}", where=where, remedy=remedy)

    def price(
        self, key: str, technology_nm: float | None = None, *, memory: Memory | None = None, device: str | None = None
    ) -> Price:
        """The price of entry `key` for a machine at `technology_nm` (default: the table's own).

        `memory` is the memory where the entry depends on one, `device` the DRAM family likewise. Raises InputError for
        an unknown key or a device the entry does not know, InternalError for an entry that is made elsewhere or lacks
        its memory.
        """
        self.check_key(key)
        entry = self.entries[key]
        node = self.technology_nm if technology_nm is None else technology_nm
        if entry.figure is not None and memory is not None:
            return memory_price(entry.figure, memory, node, self.published)
        if not entry.values:
            raise InternalError(f"the {self.title} alone cannot price {key}")
        values = [value for value in entry.values if value.device == (device if entry.by_device else None)]
        if not values:
            known = ", ".join(str(value.device) for value in entry.values)
            raise InputError(f"the {self.title} has no {key} for {device}", remedy=f"it has {known}")
        return at_node(values, node)


def list_tables() -> list[str]:
    """Names of the energy tables that come with accelsim."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml") if path.stem != AREA_TABLE)


def load_table(name: str, where: str | None = None) -> SourcedTable:
    """The energy table `name`. Raises InputError, at `where`, when there is none of that name."""
    if name not in list_tables():
        near = get_close_matches(name, list_tables(), 1)
        remedy = f"did you mean {near[0]}?" if near else f"tables: {', '.join(list_tables())}"
        raise InputError("there is no such energy table", where=where, value=name, remedy=remedy)
    return _read(name, "energy")


def area_table() -> SourcedTable:
    """The area table."""
    return _read(AREA_TABLE, "area")


@cache
def _read(name: str, what: str) -> SourcedTable:
    data = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    low, high = data["range_nm"]
    table = SourcedTable(
        name=name,
        what=what,
        technology_nm=data["technology_nm"],
        range_nm=(low, high),
        sources=data["sources"],
        entries={key: _entry(key, raw) for key, raw in data["entries"].items()},
        published=data.get("published_sram", {}),
    )
    values = [value for entry in table.entries.values() for value in entry.values]
    wrong = [value for value in values if not _is_in_order(value)]
    if wrong:
        raise InternalError(f"{what} table {name} is not in order: {wrong[0]}")
    return table


def _entry(key: str, raw: Mapping[str, Any]) -> Entry:
    values, figure = tuple(_values(raw.get("values", ()))), raw.get("figure")
    if figure not in (None, *_FIGURES):
        raise InternalError(f"table entry {key}: no figure {figure} of a memory")
    return Entry(key, raw["unit"], raw["about"], values, figure)


def _values(rows: Iterable[Mapping[str, Any]]) -> list[Value]:
    return [Value(**row) for row in rows]


def _is_in_order(value: Value) -> bool:
    return 0 < value.low <= value.nominal <= value.high and value.kind in KINDS and bool(value.source)
