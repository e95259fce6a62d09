"""Rows in few words: how many, how far apart, where most, and whether that is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.validation.model import Row

EXACT, WITHIN, REPORTED = "exact", "within", "reported"
BY_SPREAD = "low to high"


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows that share a name; errors are absolute values, quantiles are errors that occur.

    worst_case: case and quantity of the first of the largest errors, empty when all are 0.
    """

    name: str
    assumption: str
    cases: int
    values: int
    median: float
    ninetieth: float
    worst: float
    worst_case: str
    allowed: tuple[float | str | None, ...]
    outside: int

    @property
    def verdict(self) -> str:
        """`exact`, `within` the tolerance, `reported` where there is none, or how many values lie outside."""
        if self.outside:
            return f"OUTSIDE: {self.outside}"
        if set(self.allowed) == {None}:
            return REPORTED
        return EXACT if self.worst == 0 else WITHIN


def by_set(rows: Sequence[Row]) -> list[Summary]:
    """A Summary a reference set, in the order in which they first come."""
    return _by(rows, lambda row: row.reference_set.name)


def by_series(rows: Sequence[Row]) -> list[Summary]:
    """A Summary for each series of sets."""
    return _by(rows, lambda row: row.reference_set.series)


def by_series_and_quantity(rows: Sequence[Row]) -> list[Summary]:
    """A Summary for each quantity of each series of sets; all `commands` together."""
    return _by(rows, lambda row: f"{row.reference_set.series}: {row.quantity.split()[0]}")


def _by(rows: Sequence[Row], name: Callable[[Row], str]) -> list[Summary]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return [_summary(name, group) for name, group in groups.items()]


def _summary(name: str, rows: Sequence[Row]) -> Summary:
    errors = np.abs([row.error for row in rows])
    median, ninetieth = np.quantile(errors, (0.5, 0.9), method="inverted_cdf").tolist()
    worst = rows[int(errors.argmax())]
    return Summary(
        name=name,
        assumption=rows[0].reference_set.assumption,
        cases=len({(row.reference_set.name, row.case) for row in rows}),
        values=len(rows),
        median=median,
        ninetieth=ninetieth,
        worst=float(errors.max()),
        worst_case=f"{worst.case}, {worst.quantity}" if errors.any() else "",
        allowed=tuple(dict.fromkeys(BY_SPREAD if row.agrees is not None else row.tolerance for row in rows)),
        outside=sum(row.is_outside for row in rows),
    )
