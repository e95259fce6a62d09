"""Energy of one action and static power: tables of sourced numbers (docs/energy.md)."""

from accelsim.energy.table import (
    KINDS,
    OVERRIDE,
    EnergyTable,
    Entry,
    Price,
    Value,
    list_tables,
    load_table,
)

__all__ = ["KINDS", "OVERRIDE", "EnergyTable", "Entry", "Price", "Value", "list_tables", "load_table"]
