"""Energy and area tables against published figures."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.measure.references import ReferenceRow, reference_rows
from accelsim.validation.intervals import draw_intervals
from accelsim.validation.model import Part, Progress, ReferenceSet, Row

SETS = {
    "energy": ("MAC (pJ)", "energy_pj"),
    "sram": ("SRAM access (pJ)", "energy_pj"),
    "dram": ("DRAM access (pJ/bit)", "energy_pj_per_bit"),
    "power": ("power of a machine (W)", "power_w"),
    "area": ("area of a machine (mm²)", "area_mm2"),
}
"""Series and quantity by part of the references."""
ASSUMPTION = "each figure names its relation: equal, inside our low to high, or below (it counts more than we do)"


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """Every published figure, whether `fast` or not."""
    return map(_row, reference_rows())


def _row(found: ReferenceRow) -> Row:
    series, quantity = SETS[found.part]
    return Row(
        ReferenceSet(f"published: {series}", series, ASSUMPTION),
        f"{found.quantity}; {found.relation}; {found.source}",
        quantity,
        float(found.reference),
        found.nominal,
        None,
        spread=(found.low, found.high),
        agrees=found.agrees,
    )


COMPARES = """\
What a MAC, an access, a machine at full load and its area need by the tables of accelsim/energy, against published
figures (accelsim/measure/references.yaml). Ours has a low, a nominal and a high; each figure says how it must lie to
them. `equal`: our nominal is taken from it, so this shows no more than that the table is read right. `inside`: an
independent figure that lies between our low and high. `below`: a total that counts more than we do, such as a chip
with its memory, which our low must not exceed. Errors are those of the nominal and no measure of agreement: published
figures of the same thing differ by up to six.
"""
DIFFERENCES = """\
None lies outside. An int8 MAC is published at 0.08 to 0.11 pJ at 7 nm, 0.12 to 0.34 at 22 nm and 0.3 to 1.15 at 45
nm: a multiplier alone, or one with its registers and its share of control.
[docs/energy_sources.md](../../docs/energy_sources.md) and [docs/area.md](../../docs/area.md) say what each source
counts and which one is taken.
"""

PART = Part(
    name="energy",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out="nothing",
    rows=rows,
    draw=draw_intervals,
)
