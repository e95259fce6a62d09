"""Energy, leakage, area and access time of an SRAM, interpolated in a table of CACTI's results (docs/sram.md).

The table, sram.csv, is CACTI 7 (HewlettPackard/cacti at 1ffd8df): plain RAM of one bank with one read-write port, at
350 K, optimised for energy x delay squared; 22 to 65 nm, 16 KiB to 32 MiB, 64 to 1024 bit wide; cells `hp` (itrs-hp,
fast) and `lstp` (itrs-lstp, low standby power: slower, and leaking 230 times less at 22 nm, 5,700 times at 45 nm).

Between its points every figure is linear in logarithms: first along capacity, then along width, then along technology.
Where a node was computed at 256 bit only, the change with width is that of the nodes with all widths. Outside its
points the nearest figure grows by a rule of `RULES`, whose name the result carries.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import InputError

Float64: TypeAlias = NDArray[np.float64]

CELLS = ("hp", "lstp")
TECHNOLOGY_NM = (5.0, 65.0)  # accepted; the points begin at 22
_POINTS = Path(__file__).with_name("sram.csv")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a memory needs. Energy is per access of the whole width; leakage is that of the whole memory at 350 K."""

    read_pj: float
    write_pj: float
    leakage_mw: float
    area_mm2: float
    access_ns: float


@dataclass(frozen=True, slots=True)
class Sram:
    """The figures of a memory and how they are known.

    kind: `measured` (a point of the table), `interpolated` or `extrapolated`. rules: the RULES that were applied.
    """

    figures: Figures
    kind: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """One row of the table: what was asked of CACTI, and its answer."""

    cell: str
    technology_nm: float
    capacity_bytes: float
    width_bits: float
    figures: Figures

    @property
    def node(self) -> tuple[str, float]:
        """Cell and technology."""
        return self.cell, self.technology_nm


@dataclass(frozen=True, slots=True)
class Rule:
    """How the figures grow with `ratio`, asked over nearest: each with a power of its own, in Figures' order."""

    about: str
    powers: Figures

    def growth(self, ratio: float) -> Float64:
        """[5] natural logarithms of the factors."""
        return np.array(astuple(self.powers)) * math.log(ratio)


RULES: Mapping[str, Rule] = {
    "sqrt_capacity": Rule(
        "wires grow with the side: energy and time as the root of capacity, leakage and area as capacity",
        Figures(read_pj=0.5, write_pj=0.5, leakage_mw=1.0, area_mm2=1.0, access_ns=0.5),
    ),
    "linear_width": Rule(
        "energy as the bits of an access, nothing else changes",
        Figures(read_pj=1.0, write_pj=1.0, leakage_mw=0.0, area_mm2=0.0, access_ns=0.0),
    ),
    "node_power": Rule(
        "from 22 to 7 nm energy x 0.564, leakage x 0.44, area x 0.318 (Stillmaker and Baas, Integration 2017, as in "
        "hwcomponents-cacti); time is kept, since wires get no faster",
        Figures(read_pj=0.5, write_pj=0.5, leakage_mw=0.717, area_mm2=1.0, access_ns=0.0),
    ),
    "width_of_hp": Rule(
        "lstp, and hp above 45 nm, at another width than 256 bit: all figures change as those of hp at the nearest "
        "node with all widths",
        Figures(read_pj=0.0, write_pj=0.0, leakage_mw=0.0, area_mm2=0.0, access_ns=0.0),
    ),
}


class SramTable:
    """CACTI's points, ready to be interpolated."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = tuple(points)
        self._exact = {(p.cell, p.technology_nm, p.capacity_bytes, p.width_bits): p for p in self.points}
        by_curve: dict[tuple[str, float], dict[float, list[Point]]] = {}
        for point in self.points:
            by_curve.setdefault(point.node, {}).setdefault(point.width_bits, []).append(point)
        self._nodes = {node: _curves(widths) for node, widths in by_curve.items()}

    def look_up(self, capacity_bytes: float, width_bits: float, technology_nm: float, cell: str) -> Sram:
        """The figures of a memory.

        Raises InputError for sizes below a byte and a bit, a technology outside TECHNOLOGY_NM, and an unknown cell.
        """
        _check(capacity_bytes, width_bits, technology_nm, cell)
        if point := self._exact.get((cell, technology_nm, capacity_bytes, width_bits)):
            return Sram(point.figures, "measured")
        wanted = {"node_power": technology_nm, "sqrt_capacity": capacity_bytes, "linear_width": width_bits}
        nearest = {
            rule: min(max(value, low), high)
            for (rule, value), (low, high) in zip(wanted.items(), self._ranges(cell), strict=True)
        }
        logs, borrowed = self._logs_at(cell, *nearest.values()), self._borrows_width(cell, *nearest.values())
        rules = [rule for rule, value in wanted.items() if value != nearest[rule]]
        for rule in rules:
            logs = logs + RULES[rule].growth(wanted[rule] / nearest[rule])
        rules += ["width_of_hp"] if borrowed else []
        return Sram(Figures(*np.exp(logs).tolist()), "extrapolated" if rules else "interpolated", tuple(rules))

    def _ranges(self, cell: str) -> list[tuple[float, float]]:
        """Smallest and largest technology and capacity of the cell's points, and width of any point's."""
        own = [point for point in self.points if point.cell == cell]
        values = (
            [point.technology_nm for point in own],
            [point.capacity_bytes for point in own],
            [point.width_bits for point in self.points],
        )
        return [(min(column), max(column)) for column in values]

    def _borrows_width(self, cell: str, technology_nm: float, capacity_bytes: float, width_bits: float) -> bool:
        """Whether the change with width is not the cell's own, or lies outside the nodes that have all widths."""
        whole = [nm for (name, nm), curves in self._nodes.items() if name == cell and len(curves) > 1]
        own = {width for (name, _), curves in self._nodes.items() if name == cell for width in curves}
        if not whole:
            return width_bits not in own
        above = [curves for (name, nm), curves in self._nodes.items() if name == cell and nm > max(whole)]
        return technology_nm > max(whole) and any(width_bits not in curves for curves in above)

    def _logs_at(self, cell: str, technology_nm: float, capacity_bytes: float, width_bits: float) -> Float64:
        """[5] logarithms of the figures, inside the table's range."""
        nodes = sorted(nm for name, nm in self._nodes if name == cell)
        logs = [self._at_node(self._nodes[cell, nm], nm, capacity_bytes, width_bits) for nm in nodes]
        return _interpolated(technology_nm, nodes, np.array(logs))

    def _at_node(self, curves: _Curves, technology_nm: float, capacity_bytes: float, width_bits: float) -> Float64:
        if len(curves) > 1:
            return _at_width(curves, capacity_bytes, width_bits)
        (own_width,) = curves
        return _at_width(curves, capacity_bytes, own_width) + self._widening(
            technology_nm, capacity_bytes, own_width, width_bits
        )

    def _widening(self, technology_nm: float, capacity_bytes: float, width_bits: float, to_bits: float) -> Float64:
        """[5] logarithms of the change from one width to another, as at the nearest nodes that have all widths."""
        whole = {nm: curves for (_, nm), curves in sorted(self._nodes.items()) if len(curves) > 1}
        changes = [
            _at_width(curves, capacity_bytes, to_bits) - _at_width(curves, capacity_bytes, width_bits)
            for curves in whole.values()
        ]
        return _interpolated(technology_nm, list(whole), np.array(changes))


_Curves: TypeAlias = dict[float, tuple[list[float], Float64]]  # by width: capacities [n] and logarithms [n, 5]


def _curves(widths: Mapping[float, list[Point]]) -> _Curves:
    result = {}
    for width, points in sorted(widths.items()):
        points = sorted(points, key=lambda point: point.capacity_bytes)
        logs = np.log([astuple(point.figures) for point in points])
        result[width] = [point.capacity_bytes for point in points], logs
    return result


def _at_width(curves: _Curves, capacity_bytes: float, width_bits: float) -> Float64:
    logs = [_interpolated(capacity_bytes, capacities, logs) for capacities, logs in curves.values()]
    return _interpolated(width_bits, list(curves), np.array(logs))


def _interpolated(value: float, known: Sequence[float], logs: Float64) -> Float64:
    """[5] linear over the logarithm of `known` [n, ascending], constant beyond its ends; logs [n, 5]."""
    return np.array([np.interp(math.log(value), np.log(known), column) for column in logs.T])


def _check(capacity_bytes: float, width_bits: float, technology_nm: float, cell: str) -> None:
    if cell not in CELLS:
        raise InputError("unknown SRAM cell", where="cell", value=cell, remedy=f"use {' or '.join(CELLS)}")
    for name, value in (("capacity_bytes", capacity_bytes), ("width_bits", width_bits)):
        if not 1 <= value < math.inf:
            raise InputError("not a memory's size", where=name, value=value, remedy="give a finite number from 1 on")
    low, high = TECHNOLOGY_NM
    if not low <= technology_nm <= high:
        raise InputError(
            "no SRAM figures for this technology",
            where="technology_nm",
            value=technology_nm,
            remedy=f"give a node from {low:g} to {high:g} nm",
        )


@cache
def sram_table() -> SramTable:
    """The table that comes with accelsim."""
    with _POINTS.open(newline="", encoding="utf-8") as file:
        return SramTable(_point(row) for row in csv.DictReader(file))


def _point(row: Mapping[str, str]) -> Point:
    figures = Figures(**{field.name: float(row[field.name]) for field in fields(Figures)})
    technology_nm, capacity_bytes, width_bits = (
        float(row[name]) for name in ("technology_nm", "capacity_bytes", "width_bits")
    )
    return Point(row["cell"], technology_nm, capacity_bytes, width_bits, figures)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How well a figure of the points left out is predicted from the others; errors are max(a/b, b/a) - 1.

    axis: what was left out at a time. worst_point: the point with the largest error.
    """

    figure: str
    axis: str
    points: int
    median: float
    ninetieth: float
    worst: float
    worst_point: Point


AXES: Mapping[str, tuple[str, Callable[[Point], object]]] = {
    "capacity": ("one point", lambda point: point),
    "width": ("all capacities of a width at a node", lambda point: (point.node, point.width_bits)),
    "technology": ("a whole node", lambda point: point.node),
}
"""What is left out at a time, in words and as the key that the points left out together share."""


def leave_one_out(table: SramTable | None = None) -> list[LeftOut]:
    """Errors of the interpolation at points that it does not see, along each axis; ends of an axis are not counted."""
    whole = table or sram_table()
    result = []
    for axis in AXES:
        pairs = list(predictions_left_out(whole, axis))
        errors = np.abs([np.log(astuple(guess)) - np.log(astuple(point.figures)) for point, guess in pairs])
        for column, field in zip(np.expm1(errors).T, fields(Figures), strict=True):
            median, ninetieth = np.quantile(column, (0.5, 0.9)).tolist()
            worst = pairs[int(column.argmax())][0]
            result.append(LeftOut(field.name, axis, len(pairs), median, ninetieth, float(column.max()), worst))
    return result


def predictions_left_out(table: SramTable, axis: str) -> Iterator[tuple[Point, Figures]]:
    """Points with a neighbour on both sides along an axis of AXES, and what the table says when it lacks them.

    It lacks all points that share the axis's key. Ends of the axis, with nothing beyond them, are not among the points.
    """
    key = AXES[axis][1]
    groups = {key(point) for point in table.points}
    for group in sorted(groups, key=str):
        left_out = [point for point in table.points if key(point) == group]
        rest = SramTable(point for point in table.points if key(point) != group)
        for point in left_out:
            if _is_between(point, rest.points, axis):
                sizes = point.capacity_bytes, point.width_bits, point.technology_nm
                yield point, rest.look_up(*sizes, point.cell).figures


def _is_between(point: Point, others: Sequence[Point], axis: str) -> bool:
    """Whether points that differ in nothing but the axis lie on both sides."""
    name = {"capacity": "capacity_bytes", "width": "width_bits", "technology": "technology_nm"}[axis]
    same = [other for other in ("cell", "capacity_bytes", "width_bits", "technology_nm") if other != name]
    line = [getattr(p, name) for p in others if all(getattr(p, s) == getattr(point, s) for s in same)]
    return bool(line) and min(line) < getattr(point, name) < max(line)


def leave_one_out_table() -> str:
    """`leave_one_out` as Markdown."""
    lines = ["| figure | left out | points | median | 90 % | worst | worst at |", "|---|---|---|---|---|---|---|"]
    for row in leave_one_out():
        point = row.worst_point
        at = f"{point.cell}, {point.technology_nm:g} nm, {point.capacity_bytes / 1024:g} KiB, {point.width_bits:g} bit"
        errors = f"{row.median:.1%} | {row.ninetieth:.1%} | {row.worst:.1%}"
        lines.append(f"| `{row.figure}` | {AXES[row.axis][0]} ({row.axis}) | {row.points} | {errors} | {at} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(leave_one_out_table(), end="")
