"""A sourced table as one machine is charged: its technology, memories, DRAM and overrides put in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING

from accelsim.energy import OVERRIDE, Memory, Price, SourcedTable, area_table, load_table
from accelsim.errors import InputError

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch, Estimate

Spread = tuple[float, float, float]  # low, nominal, high

WIDEST_BITS = 1024.0  # the widest memory that CACTI computed: what an unlimited bandwidth is taken for


@dataclass(frozen=True)
class PriceList:
    """The prices of one machine. `used` gathers the entries that were asked for, in the order of asking."""

    arch: Arch
    table: SourcedTable
    overrides: Mapping[str, Estimate]
    used: dict[str, Price] = field(default_factory=dict)

    def price(self, key: str) -> Price:
        """What the entry `key` costs on this machine. Raises InputError when the table has no such entry."""
        return self.made(key, lambda: self._from_table(key))

    def made(self, key: str, make: Callable[[], Price]) -> Price:
        """As `price`, for an entry that the caller makes of others when the machine does not override it."""
        if key not in self.used:
            self.table.check_key(key)
            self.used[key] = self._overridden(key) or make()
        return self.used[key]

    def mac_key(self, *dtypes: str) -> str:
        """The entry for a MAC of these operand dtypes, the dearer one's when they differ; InputError without one."""
        unit = {"energy": "pj", "area": "um2"}[self.table.what]
        keys = {f"mac_{dtype.removeprefix('u')}_{unit}": dtype for dtype in dtypes}
        for key, dtype in keys.items():
            if key not in self.table.entries:
                known = ", ".join(name for name in self.table.entries if name.startswith("mac_"))
                raise InputError(
                    f"the {self.table.title} cannot price a MAC of {dtype}",
                    where=self.arch.where("energy.table"),
                    remedy=f"it has {known}; use a trace of another precision",
                )
        nominal = {key: (self._overridden(key) or self._from_table(key)).nominal for key in keys}
        return max(nominal, key=lambda key: nominal[key])

    def _overridden(self, key: str) -> Price | None:
        given = self.overrides.get(key)
        return None if given is None else Price(given.low, given.nominal, given.high, OVERRIDE)

    def _from_table(self, key: str) -> Price:
        memory = next((memory for part, memory in memories(self.arch).items() if key.startswith(part)), None)
        family = self.arch.dram.device.family
        return self.table.price(key, self.arch.energy.technology_nm, memory=memory, device=family)


def price_list(arch: Arch) -> PriceList:
    """The machine's energy table with its overrides.

    Raises InputError, with the nearest valid name, for an unknown table or an override of no entry (of the area table
    too), and for a technology that the table does not scale to.
    """
    table = load_table(arch.energy.table, arch.where("energy.table"))
    table.check_technology(arch.energy.technology_nm, arch.where("energy.technology_nm"))
    area_prices(arch)
    return _checked(PriceList(arch, table, arch.energy.overrides))


def area_prices(arch: Arch) -> PriceList:
    """The area table with the machine's overrides. Raises InputError, with the nearest name, for one of no entry."""
    table = area_table()
    table.check_technology(arch.energy.technology_nm, arch.where("energy.technology_nm"))
    return _checked(PriceList(arch, table, arch.area.overrides))


def memories(arch: Arch) -> dict[str, Memory]:
    """The machine's memories by the start of their entries' names.

    The accumulator has a bank a column, as wide as a sum. The second level's banks are not described: it is one memory
    as wide as what it reads in a cycle.
    """
    cell, accumulator, scratchpad = arch.energy.sram_cell, arch.accumulator, arch.scratchpad
    columns = arch.array.count * arch.array.cols
    found = {
        "accumulator": Memory(accumulator.capacity_kib * 1024 / columns, accumulator.width_bytes * 8, cell, columns),
        "scratchpad": Memory(
            scratchpad.capacity_kib * 1024 / scratchpad.banks, scratchpad.bank_width_bytes * 8, cell, scratchpad.banks
        ),
    }
    if arch.second_level is not None:
        per_cycle = arch.second_level_bytes_per_cycle()
        width = WIDEST_BITS if per_cycle is None else max(8.0, float(8 * per_cycle))
        found["level2"] = Memory(arch.second_level.capacity_kib * 1024, width, cell)
    return found


def added(spreads: Iterable[Spread]) -> Spread:
    """Sum of the lows, of the nominals and of the highs."""
    rows = list(spreads)
    low, nominal, high = (fsum(row[i] for row in rows) for i in range(3))
    return low, nominal, high


def _checked(prices: PriceList) -> PriceList:
    what = prices.table.what
    for key in prices.overrides:
        prices.table.check_key(key, prices.arch.where(f"{what}.overrides.{key}"))
    return prices
