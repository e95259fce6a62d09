"""Energy of one action and static power, from a table of sourced numbers with low, nominal and high values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from accelsim.errors import InputError, InternalError

KINDS = ("published", "measured", "interpolated", "extrapolated")  # from the most to the least certain
OVERRIDE = "override"  # kind of a number that the machine description gives itself
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Price:
    """What one action costs, in the entry's unit, and how that is known (one of KINDS, or OVERRIDE)."""

    low: float
    nominal: float
    high: float
    kind: str

    def combined(self, other: Price, value: Callable[[float, float], float], kind: str) -> Price:
        """The Price of `value(self, other)` at each of low, nominal and high."""
        low, nominal, high = (value(mine, theirs) for mine, theirs in zip(self.spread, other.spread, strict=True))
        return Price(low, nominal, high, kind)

    def times(self, factor: float) -> Price:
        """The Price of `factor` actions."""
        return Price(self.low * factor, self.nominal * factor, self.high * factor, self.kind)

    @property
    def spread(self) -> tuple[float, float, float]:
        """low, nominal, high."""
        return self.low, self.nominal, self.high


@dataclass(frozen=True, slots=True)
class Value:
    """A number of the table at its own technology; `ratio` is what it grows by at the table's scaling_nm."""

    low: float
    nominal: float
    high: float
    kind: str
    source: str
    ratio: float = 1.0
    size_kib: float | None = None  # the memory size that it is for
    device: str | None = None  # the DRAM family that it is for


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table: a single value, one per DRAM device, or a curve over the size of a memory."""

    key: str
    unit: str
    about: str
    values: tuple[Value, ...]

    @property
    def by_size(self) -> bool:
        """True when the price depends on the size of a memory."""
        return self.values[0].size_kib is not None

    @property
    def by_device(self) -> bool:
        """True when the price depends on the DRAM family."""
        return self.values[0].device is not None


@dataclass(frozen=True)
class EnergyTable:
    """A table of energies at `technology_nm`; `price` also gives them at another node of `range_nm`."""

    name: str
    technology_nm: float
    scaling_nm: float
    range_nm: tuple[float, float]
    sources: Mapping[str, str]
    entries: Mapping[str, Entry]

    def check_technology(self, technology_nm: float, where: str | None = None) -> None:
        """Raise InputError when the table cannot be scaled to `technology_nm`."""
        low, high = self.range_nm
        if not low <= technology_nm <= high:
            raise InputError(
                f"the energy table {self.name} is for {self.technology_nm:g} nm and scales to {low:g} to {high:g} nm",
                where=where,
                value=technology_nm,
                remedy="give a node in that range, and energy.overrides for what you know better",
            )

    def check_key(self, key: str, where: str | None = None) -> None:
        """Raise InputError, with the nearest key, when there is no entry `key`."""
        if key not in self.entries:
            near = get_close_matches(key, self.entries, 1)
            remedy = f"did you mean {near[0]}?" if near else f"entries: {', '.join(self.entries)}"
            raise InputError(f"the energy table {self.name} has no entry {key}", where=where, remedy=remedy)

    def price(
        self, key: str, technology_nm: float | None = None, *, size_kib: float = 0.0, device: str | None = None
    ) -> Price:
        """The price of entry `key` for a machine at `technology_nm` (default: the table's own).

        `size_kib` is the memory's size where the entry depends on it, `device` the DRAM family likewise. Raises
        InputError for an unknown key or a device the entry does not know.
        """
        self.check_key(key)
        entry = self.entries[key]
        node = self.technology_nm if technology_nm is None else technology_nm
        values = [value for value in entry.values if value.device == (device if entry.by_device else None)]
        if not values:
            known = ", ".join(str(value.device) for value in entry.values)
            raise InputError(f"the energy table {self.name} has no {key} for {device}", remedy=f"it has {known}")
        prices = [self._at_node(value, node) for value in values]
        if not entry.by_size:
            return prices[0]
        return _at_size([float(value.size_kib or 0) for value in values], prices, size_kib)

    def _at_node(self, value: Value, technology_nm: float) -> Price:
        """`value` scaled to a node: a power law through the values at the table's two nodes."""
        exponent = math.log(technology_nm / self.technology_nm) / math.log(self.scaling_nm / self.technology_nm)
        factor = value.ratio**exponent
        kind = value.kind
        if factor != 1:
            within = self.technology_nm <= technology_nm <= self.scaling_nm
            kind = _least_certain(kind, "interpolated" if within else "extrapolated")
        return Price(value.low, value.nominal, value.high, kind).times(factor)


def _at_size(sizes: Sequence[float], prices: Sequence[Price], size: float) -> Price:
    """Interpolate log(price) over log(size); outside the sizes the nearest price, marked extrapolated."""
    if len(sizes) == 1 or size in sizes:
        return prices[sizes.index(size) if size in sizes else 0]
    if not sizes[0] < size < sizes[-1]:
        nearest = prices[0] if size < sizes[0] else prices[-1]
        return Price(*nearest.spread, "extrapolated")
    above = next(i for i, known in enumerate(sizes) if known > size)
    first, second = prices[above - 1], prices[above]
    weight = math.log(size / sizes[above - 1]) / math.log(sizes[above] / sizes[above - 1])
    kind = _least_certain(_least_certain(first.kind, second.kind), "interpolated")
    return first.combined(second, lambda a, b: a ** (1 - weight) * b**weight, kind)


def _least_certain(a: str, b: str) -> str:
    return max(a, b, key=KINDS.index)


def list_tables() -> list[str]:
    """Names of the energy tables that come with accelsim."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def load_table(name: str, where: str | None = None) -> EnergyTable:
    """The energy table `name`. Raises InputError, at `where`, when there is none of that name."""
    if name not in list_tables():
        near = get_close_matches(name, list_tables(), 1)
        remedy = f"did you mean {near[0]}?" if near else f"tables: {', '.join(list_tables())}"
        raise InputError("there is no such energy table", where=where, value=name, remedy=remedy)
    return _read(name)


@cache
def _read(name: str) -> EnergyTable:
    data = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    curves = data["curves"]
    entries = {key: _entry(key, raw, curves) for key, raw in data["entries"].items()}
    low, high = data["range_nm"]
    return EnergyTable(
        name=name,
        technology_nm=data["technology_nm"],
        scaling_nm=data["scaling_nm"],
        range_nm=(low, high),
        sources=data["sources"],
        entries=entries,
    )


def _entry(key: str, raw: Mapping[str, Any], curves: Mapping[str, Any]) -> Entry:
    values = tuple(Value(**value) for value in (curves[raw["curve"]] if "curve" in raw else raw["values"]))
    wrong = [v for v in values if not 0 < v.low <= v.nominal <= v.high or v.kind not in KINDS or not v.source]
    if wrong or not values:
        raise InternalError(f"energy table entry {key} is not in order: {wrong or 'no values'}")
    return Entry(key, raw["unit"], raw["about"], values)
