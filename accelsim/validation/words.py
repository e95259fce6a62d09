"""Errors, tolerances and values as text; the same on every processor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accelsim.validation.model import Row, Value


def error_text(error: float) -> str:
    """An error in percent, with two digits that matter: `0`, `0.31 %`, `unequal`."""
    if error == 0:
        return "0"
    if math.isinf(error):
        return "unequal"
    percent = 100 * error
    return f"{percent:.0f} %" if abs(percent) >= 100 else f"{percent:.2g} %"


def error_value(error: float) -> str:
    """An error as the tables give it: a signed ratio, or `unequal`."""
    return "unequal" if math.isinf(error) else f"{error:.6g}"


def tolerance_text(allowed: Sequence[float | str | None]) -> str:
    """What is allowed, each once: `exact, 0.001 %`, words as they are, or `-` for nothing judged."""
    return ", ".join(_allowed_text(each) for each in allowed)


def _allowed_text(allowed: float | str | None) -> str:
    if allowed is None or isinstance(allowed, str):
        return allowed or "-"
    return "exact" if allowed == 0 else f"{100 * allowed:g} %"


def value_text(value: Value) -> str:
    """A value as the tables give it: whole numbers whole, others with nine digits."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def row_text(row: Row) -> str:
    """A row in one line, for a message."""
    values = f"reference {value_text(row.reference)}, ours {value_text(row.ours)}"
    return f"{row.reference_set.name}: {row.case}, {row.quantity}: {values} ({error_text(row.error)})"


def markdown_table(header: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; `align` has an l or r for each column."""
    marks = ["---:" if letter == "r" else "---" for letter in align]
    cells = [header, marks, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
