"""Energy of one action, static power and area: tables of sourced numbers (docs/energy.md, docs/area.md)."""

from accelsim.energy.memory import Memory
from accelsim.energy.table import Entry, SourcedTable, area_table, list_tables, load_table
from accelsim.energy.value import KINDS, OVERRIDE, Price, Value

__all__ = [
    "KINDS", "OVERRIDE", "Entry", "Memory", "Price", "SourcedTable", "Value", "area_table", "list_tables", "load_table",
]  # fmt: skip
