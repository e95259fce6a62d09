"""What a comparison takes from a Result, read and checked: a Result may come from a file that somebody has edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any

from accelsim.errors import InputError
from accelsim.measure.ratios import Parts

Value = float | None

_PICO = 1e-12


@dataclass(frozen=True)
class Facts:
    """What a comparison takes from one Result; energy in pJ and area in mm2 by component, as (low, nominal, high)."""

    name: str
    provenance: Mapping[str, Any]
    cycles: int
    seconds: float
    utilization: float
    dram_bytes: int
    power_w: Value
    energy: Parts
    area: Parts
    unpriced: tuple[str, ...]  # entries of the area that the machine sets to nothing
    path: Mapping[str, int]
    kinds: Mapping[str, int]
    units: frozenset[str]
    stalls: Mapping[tuple[str, str], int]

    @property
    def energy_pj(self) -> Value:
        """Nominal energy of all components; None when the Result has none."""
        return _sum(self.energy)

    @property
    def area_mm2(self) -> Value:
        """Nominal area of all components; None when one of them has no price."""
        return None if self.unpriced else _sum(self.area)

    @property
    def energy_delay_js(self) -> Value:
        """Energy x time, J s."""
        return None if self.energy_pj is None else self.energy_pj * _PICO * self.seconds

    @property
    def energy_delay_area_js_mm2(self) -> Value:
        """Energy x time x area, J s mm2."""
        product, area = self.energy_delay_js, self.area_mm2
        return None if product is None or area is None else product * area


def facts_of(name: str, data: Mapping[str, Any]) -> Facts:
    """The facts of a Result's data, called `name`. Raises InputError when one is missing or is no number."""
    try:
        return _read(name, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"the Result is damaged ({type(error).__name__}: {error})"
        raise InputError(what, where=name, remedy="simulate again") from error


def _read(name: str, data: Mapping[str, Any]) -> Facts:
    total, dram, provenance, units = data["total"], data["dram"], data["provenance"], data["units"]
    stalls = {(unit, why): _count(n) for unit, row in units.items() for why, n in row["stalls"].items()}
    path = {unit: _count(cycles) for unit, cycles in data["critical_path"]["by_unit"].items()}
    power = data["average_power_w"]["nominal"]
    return Facts(
        name=name,
        provenance=_checked(provenance),
        cycles=_count(total["cycles"]),
        seconds=_number(total["seconds"]),
        utilization=_number(total["utilization"]),
        dram_bytes=_count(dram["read_bytes"]) + _count(dram["write_bytes"]),
        power_w=None if power is None else _number(power),
        energy=_parts(data, "energy_low_pj", "energy_pj", "energy_high_pj"),
        area=_parts(data, "area_low_mm2", "area_mm2", "area_high_mm2"),
        unpriced=tuple(key for key, price in provenance["arch"]["area"]["overrides"].items() if not price["high"]),
        path=dict.fromkeys(units, 0) | path,
        kinds={str(row["kind"]): _count(row["cycles"]) for row in data["by_kind"]},
        units=frozenset(units),
        stalls=stalls,
    )


def _checked(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provenance, when it has what a comparison shows of it. Raises KeyError or TypeError."""
    arch, trace = provenance["arch"], provenance["trace"]
    if not all(isinstance(text, str) for text in (arch["name"], trace["name"], trace["sha256"])):
        raise TypeError("a name is no text")
    if not all(isinstance(group, Mapping) for group in (arch["energy"], arch["area"], provenance["arguments"])):
        raise TypeError("a group is no object")
    return provenance


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(f"{value!r:.40} is no number")
    return float(value)


def _parts(data: Mapping[str, Any], *keys: str) -> Parts:
    """(low, nominal, high) of each component."""
    columns = [data[key] for key in keys]
    names = dict.fromkeys(name for column in columns for name in column)
    found = {name: [_number(column[name]) for column in columns] for name in names}
    return {name: (low, nominal, high) for name, (low, nominal, high) in found.items()}


def _sum(parts: Parts) -> Value:
    return fsum(nominal for _, nominal, _ in parts.values()) if parts else None
