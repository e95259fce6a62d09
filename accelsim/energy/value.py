"""Numbers with a low, a nominal and a high value: as a table gives them at its nodes, and as a machine is charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# From the most to the least certain: in the source (or a sum of numbers that are), on silicon, from a model of exactly
# this thing, between known numbers, beyond them.
KINDS = ("published", "measured", "computed", "interpolated", "extrapolated")
OVERRIDE = "override"  # kind of a number that the machine description gives itself


@dataclass(frozen=True, slots=True)
class Price:
    """What one action, or one thing, costs in the entry's unit, and how that is known (one of KINDS, or OVERRIDE)."""

    low: float
    nominal: float
    high: float
    kind: str

    def combined(self, other: Price, value: Callable[[float, float], float], kind: str | None = None) -> Price:
        """`value(self, other)` at each of low, nominal and high; `kind` defaults to the less certain of the two."""
        low, nominal, high = (value(mine, theirs) for mine, theirs in zip(self.spread, other.spread, strict=True))
        return Price(low, nominal, high, kind or least_certain(self.kind, other.kind))

    def times(self, factor: float) -> Price:
        """The Price of `factor` actions."""
        return Price(self.low * factor, self.nominal * factor, self.high * factor, self.kind)

    @property
    def spread(self) -> tuple[float, float, float]:
        """low, nominal, high."""
        return self.low, self.nominal, self.high


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a table: at a technology node, or for every node when `nm` is None."""

    low: float
    nominal: float
    high: float
    kind: str
    source: str
    nm: float | None = None
    device: str | None = None  # the DRAM family that it is for

    @property
    def price(self) -> Price:
        """The number as it stands."""
        return Price(self.low, self.nominal, self.high, self.kind)


def at_node(values: Sequence[Value], technology_nm: float) -> Price:
    """The values of one thing, ascending by node, at another node.

    Between two nodes low, nominal and high are linear in logarithms; beyond the first and the last all three follow the
    nominal's power law between those two, so that their order is kept.
    """
    nodes = [value.nm for value in values if value.nm is not None]
    if not nodes or technology_nm in nodes:
        return values[nodes.index(technology_nm) if nodes else 0].price
    first, last = values[0], values[-1]
    if not nodes[0] < technology_nm < nodes[-1]:
        power = math.log(last.nominal / first.nominal) / math.log(nodes[-1] / nodes[0])
        nearest, node = (first, nodes[0]) if technology_nm < nodes[0] else (last, nodes[-1])
        return Price(*nearest.price.times((technology_nm / node) ** power).spread, "extrapolated")
    above = next(i for i, node in enumerate(nodes) if node > technology_nm)
    share = math.log(technology_nm / nodes[above - 1]) / math.log(nodes[above] / nodes[above - 1])
    return between(values[above - 1].price, values[above].price, share)


def between(first: Price, second: Price, share: float) -> Price:
    """The Price `share` of the way from `first` to `second`, in logarithms; at best interpolated."""
    kind = least_certain(least_certain(first.kind, second.kind), "interpolated")
    return first.combined(second, lambda a, b: float(a ** (1 - share) * b**share), kind)


def least_certain(a: str, b: str) -> str:
    """The less certain of two KINDS; an override is as certain as what it stands beside."""
    return b if a == OVERRIDE else a if b == OVERRIDE else max(a, b, key=KINDS.index)
