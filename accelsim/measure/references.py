"""The energy and area tables against published figures: rows for the validation report and for tests.

`python -m accelsim.measure.references` in the repository writes them into docs/energy_sources.md and docs/area.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from accelsim.arch import load_arch
from accelsim.energy import Memory, load_table
from accelsim.files import between_marks
from accelsim.measure.area import area_of
from accelsim.measure.energy import bits_moved
from accelsim.measure.prices import Spread, added, price_list

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch

BEGIN, END = "<!-- references: made by python -m accelsim.measure.references -->\n", "<!-- end of references -->\n"
PAGES: Mapping[Path, tuple[str, ...]] = {
    Path("docs") / "energy_sources.md": ("energy", "sram", "dram", "power"),
    Path("docs") / "area.md": ("area",),
}
_FIGURES = Path(__file__).with_name("references.yaml")
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A published figure and ours for the same thing, in `unit`.

    relation: `equal` (our nominal is taken from it), `inside` (it lies between our low and high) or `below` (it counts
    more than we do: our low must not exceed it).
    """

    part: str  # energy, sram, dram, power, area
    source: str
    quantity: str
    unit: str
    reference: float
    low: float
    nominal: float
    high: float
    relation: str

    @property
    def ratio(self) -> float:
        """Our nominal over the reference."""
        return self.nominal / self.reference

    @property
    def agrees(self) -> bool:
        """Whether the relation holds."""
        if self.relation == "equal":
            return abs(self.ratio - 1) <= _TOLERANCE
        return self.low <= self.reference * (1 + _TOLERANCE) and (
            self.relation == "below" or self.reference <= self.high * (1 + _TOLERANCE)
        )


def reference_rows() -> list[ReferenceRow]:
    """Every published figure of references.yaml with ours beside it."""
    figures = yaml.safe_load(_FIGURES.read_text(encoding="utf-8"))
    return [
        ReferenceRow(part, row["source"], quantity, unit, row["value"], *ours, row["relation"])
        for part, compare in _PARTS.items()
        for row in figures[part]
        for quantity, unit, ours in compare(row)
    ]


def full_load_power(arch: Arch, dtype: str) -> Spread:
    """(low, nominal, high) W on chip when every processing element does a MAC of `dtype` in every cycle.

    Operands are read from the scratchpad once a row, each column's sum is written once and read once a cycle, and
    everything leaks; without DRAM, vector unit and second level.
    """
    prices, array = price_list(arch), arch.array
    macs = float(arch.peak_macs_per_cycle(dtype))
    sums = array.count * array.cols * arch.accumulator.width_bytes
    per_cycle = {
        prices.mac_key(dtype): macs,
        "array_register_pj_per_bit": macs * bits_moved(arch, dtype, dtype, array.dataflows[0]),
        "scratchpad_read_pj_per_byte": macs / array.cols,
        "accumulator_write_pj_per_byte": sums,
        "accumulator_read_pj_per_byte": sums,
    }
    leaking = {
        "array_leakage_mw_per_pe": array.count * array.rows * array.cols,
        "scratchpad_leakage_mw_per_kib": arch.scratchpad.capacity_kib,
        "accumulator_leakage_mw_per_kib": arch.accumulator.capacity_kib,
    }
    watts = [prices.price(key).times(count * float(arch.clock_hz) * 1e-12) for key, count in per_cycle.items()]
    watts += [prices.price(key).times(count * 1e-3) for key, count in leaking.items()]
    return added(price.spread for price in watts)


_Row = Mapping[str, Any]
_Compared = Iterator[tuple[str, str, Spread]]  # quantity, unit, ours


def _energy(row: _Row) -> _Compared:
    name = row["entry"].removesuffix("_pj").removeprefix("mac_")
    yield f"{name} MAC at {row['nm']:g} nm", "pJ", load_table("tpu_v4i_7nm").price(row["entry"], row["nm"]).spread


def _sram(row: _Row) -> _Compared:
    memory = Memory(row["kib"] * 1024, 64, "hp")
    price = load_table("tpu_v4i_7nm").price("scratchpad_read_pj_per_byte", row["nm"], memory=memory)
    yield f"64 bit read of {row['kib']} KiB at {row['nm']:g} nm", "pJ", price.times(8).spread


def _dram(row: _Row) -> _Compared:
    price = load_table("tpu_v4i_7nm").price("dram_read_pj_per_byte", device=row["device"])
    yield f"{row['device']} read", "pJ/bit", price.times(1 / 8).spread


def _power(row: _Row) -> _Compared:
    yield f"{row['arch']}, arrays busy", "W", full_load_power(load_arch(row["arch"]), row["dtype"])


def _area(row: _Row) -> _Compared:
    area = area_of(load_arch(row["arch"]))
    parts = {**area.by_component, "total": area.total_mm2}
    yield f"{row['arch']}, {row['component']}", "mm2", parts[row["component"]]


_PARTS = {"energy": _energy, "sram": _sram, "dram": _dram, "power": _power, "area": _area}


def page(text: str, parts: Collection[str]) -> str:
    """The page `text` with the table between its two marks made anew from the rows of `parts`."""
    return between_marks(text, BEGIN, END, _markdown(parts))


def _markdown(parts: Collection[str]) -> str:
    lines = ["", "| quantity | unit | reference | low | nominal | high | nominal / reference | relation | source |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for row in reference_rows():
        if row.part in parts:
            numbers = " | ".join(f"{value:.3g}" for value in (row.reference, row.low, row.nominal, row.high, row.ratio))
            relation = row.relation if row.agrees else f"**not {row.relation}**"
            lines.append(f"| {row.quantity} | {row.unit} | {numbers} | {relation} | {row.source} |")
    return "\n".join([*lines, ""]) + "\n"


def main(root: Path = Path()) -> None:
    """Rewrite the pages below `root`."""
    for path, parts in PAGES.items():
        text = (root / path).read_text(encoding="utf-8")
        (root / path).write_text(page(text, parts), encoding="utf-8")


if __name__ == "__main__":
    main()
