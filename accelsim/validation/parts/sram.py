"""Figures of an SRAM against CACTI 7 at points that the interpolation does not see, and against published ones."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from accelsim.energy.sram import AXES, Figures, Point, SramTable, predictions_left_out, sram_table
from accelsim.shipped import shipped
from accelsim.validation.model import Part, Progress, ReferenceSet, Row

TABLE_TOLERANCE = 1e-5  # leakage is a sum of two printed numbers
TOLERANCES: dict[str, dict[str, float | None]] = {
    "capacity": {"read_pj": 0.3, "write_pj": 0.4, "leakage_mw": 0.1, "area_mm2": 0.5, "access_ns": 0.25},
    "width": {"read_pj": 0.55, "write_pj": 0.3, "leakage_mw": 0.1, "area_mm2": 0.3, "access_ns": 0.2},
    "technology": {"read_pj": 0.2, "write_pj": 0.2, "leakage_mw": None, "area_mm2": 0.1, "access_ns": 0.15},
}
"""Just above the worst error known, so that a change for the worse shows; None where nothing is predicted."""


KIB, MIB = 2**10, 2**20
PUBLISHED = (
    ("Horowitz, ISSCC 2014", 45, ((8 * KIB, 10.0), (32 * KIB, 20.0), (MIB, 100.0))),
    ("Jouppi et al., ISCA 2021", 7, ((8 * KIB, 7.5), (32 * KIB, 8.5), (MIB, 14.0))),
)
"""Source, technology (nm), and energy (pJ) of a 64-bit access by capacity (bytes)."""


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """CACTI's points, each axis without some of them, and published energies."""
    yield from _table_rows()
    for axis in AXES:
        progress(f"SRAM: without {AXES[axis][0]}")
        yield from _left_out_rows(axis)
    for source, technology_nm, energies in PUBLISHED:
        yield from _published_rows(source, technology_nm, energies)


def _table_rows() -> Iterator[Row]:
    reference_set = ReferenceSet("CACTI 7: its points", "points", "itrs-hp and itrs-lstp, one bank, one port, 350 K")
    with (shipped("tests/oracles") / "cacti.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = _cacti_point(row)
            yield from _rows_of(reference_set, point, _look_up(sram_table(), point), TABLE_TOLERANCE)


def _cacti_point(row: dict[str, str]) -> Point:
    number = {name: float(text) for name, text in row.items() if name not in ("cell", "source")}
    figures = Figures(
        read_pj=number["read_pJ"],
        write_pj=number["write_pJ"],
        leakage_mw=number["leak_mW"] + number["gate_leak_mW"],
        area_mm2=number["area_mm2"],
        access_ns=number["access_ns"],
    )
    sizes = number["tech_nm"], number["size_bytes"], number["width_bits"]
    return Point(row["cell"].removeprefix("itrs-"), *sizes, figures)


def _left_out_rows(axis: str) -> Iterator[Row]:
    for point, ours in predictions_left_out(sram_table(), axis):
        yield from _rows_without(axis, point, ours)


def _rows_without(axis: str, point: Point, ours: Figures) -> Iterator[Row]:
    name, assumption = f"CACTI 7 without {AXES[axis][0]}", "neighbours on both sides of the axis"
    judged = ReferenceSet(name, f"{axis} left out", assumption)
    reported = ReferenceSet(f"{name}: leakage", judged.series, f"{assumption}; known not to be predicted")
    for row in _rows_of(judged, point, ours, TABLE_TOLERANCE):
        tolerance = TOLERANCES[axis][row.quantity]
        yield replace(row, reference_set=reported if tolerance is None else judged, tolerance=tolerance)


def _look_up(table: SramTable, point: Point) -> Figures:
    return table.look_up(point.capacity_bytes, point.width_bits, point.technology_nm, point.cell).figures


def _rows_of(reference_set: ReferenceSet, point: Point, ours: Figures, tolerance: float) -> Iterator[Row]:
    case = f"{point.cell}, {point.technology_nm:g} nm, {point.capacity_bytes / KIB:g} KiB, {point.width_bits:g} bit"
    for name in (field.name for field in fields(Figures)):
        yield Row(reference_set, case, name, getattr(point.figures, name), getattr(ours, name), tolerance)


def _published_rows(source: str, technology_nm: int, energies: Sequence[tuple[int, float]]) -> Iterator[Row]:
    reference_set = ReferenceSet(source, "published", "cell hp; theirs is a memory in use (a cache), ours a bare array")
    for capacity_bytes, energy_pj in energies:
        ours = sram_table().look_up(capacity_bytes, 64, technology_nm, "hp").figures.read_pj
        case = f"{technology_nm} nm, {capacity_bytes / KIB:g} KiB, 64 bit"
        yield Row(reference_set, case, "read_pj", energy_pj, ours, None)


COMPARES = """\
`sram_table().look_up` of accelsim/energy/sram.py. First at the 160 points that CACTI 7 was asked for. Then at points
that the table does not see: one point left out, all capacities of a width at a node, or a whole node; ends of an axis
are not counted, since nothing lies beyond them. What is allowed is the worst error known, rounded up: it claims
nothing, but shows a change for the worse. Last against published energies.
"""
DIFFERENCES = """\
Between its points CACTI jumps where it changes its organisation: a 64 KiB memory at 45 nm reads less energy 512 bits
wide than 256 bits wide, and no smooth curve follows that. **Leakage over technology is not predicted** and only
reported: CACTI's hp cells leak 2.4, 6.0, 18.0 and 20.6 mW per 16 KiB at 22, 32, 45 and 65 nm. Published figures are
reported, not judged: a cache has tags, and small memories of a real chip are dominated by what a bare array leaves
out; at 7 nm ours are extrapolated from 22 nm besides. See docs/sram.md.
"""

PART = Part(
    name="sram",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out="nothing",
    rows=rows,
    plotted={"read_pj": "energy of a read (pJ)", "area_mm2": "area (mm²)", "leakage_mw": "leakage (mW)"},
)
