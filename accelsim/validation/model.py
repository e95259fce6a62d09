"""What a part is made of: reference sets and rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress: TypeAlias = Callable[[str], None]
Value: TypeAlias = float | int | str
RowSource: TypeAlias = Callable[[bool, Progress], Iterator["Row"]]

_NOISE = 12  # digits of an error that do not depend on the processor


@dataclass(frozen=True, slots=True)
class ReferenceSet:
    """A source of reference values.

    name: unique within its part. series: what it is called in the figure; several sets may share it. assumption: what
    must hold for model and reference to speak of the same thing.
    """

    name: str
    series: str
    assumption: str


@dataclass(frozen=True, slots=True)
class Row:
    """One value of the reference beside ours.

    quantity: its name, which carries the unit (`latency_cycles`, `energy_pj`); `commands RD` is one of the `commands`.
    tolerance: largest |error| that passes: 0 for exact; None where the two may differ and the row only reports it.
    Numbers compare by ratio, words by being the same. spread: low and high of ours, where it is no single number.
    agrees: whether the two agree, where that is a matter of the spread and not of a tolerance.
    """

    reference_set: ReferenceSet
    case: str
    quantity: str
    reference: Value
    ours: Value
    tolerance: float | None = 0.0
    spread: tuple[float, float] | None = None
    agrees: bool | None = None

    @property
    def error(self) -> float:
        """ours / reference - 1; infinite where values differ that have no ratio."""
        if self.ours == self.reference:
            return 0.0
        if isinstance(self.ours, str) or isinstance(self.reference, str) or self.reference == 0:
            return math.inf
        error = float(self.ours / self.reference - 1)
        return math.inf if math.isnan(error) else round(error, _NOISE)

    @property
    def is_outside(self) -> bool:
        """Whether the model has failed here."""
        if self.tolerance is None:
            return self.agrees is False
        return self.ours != self.reference if self.tolerance == 0 else abs(self.error) > self.tolerance


@dataclass(frozen=True)
class Part:
    """A model and its references.

    compares: what is compared with what, in Markdown. differences: where the two still differ and why, in Markdown.
    left_out: what `fast` leaves out, a noun phrase. rows: from (fast, progress). plotted: quantities that get a panel
    of the figure each, and what it is called there, with its unit. draw: a figure of its own instead, drawn on an empty
    one. table: a table of its own from its rows, in Markdown.
    """

    name: str
    compares: str
    differences: str
    left_out: str
    rows: RowSource
    plotted: Mapping[str, str] = field(default_factory=dict)
    draw: Callable[[Figure, Sequence[Row]], None] | None = None
    table: Callable[[Sequence[Row]], str] | None = None


@dataclass(frozen=True)
class Checked:
    """A part that has been run. Numbers of `rows` are Python's own."""

    part: Part
    rows: list[Row]

    @property
    def outside(self) -> list[Row]:
        """Rows beyond their tolerance."""
        return [row for row in self.rows if row.is_outside]
