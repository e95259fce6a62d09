"""Plain text tables for the commands that look: aligned on a terminal, easy to search in a pipe."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from accelsim.report.numbers import printable

GAP = "  "
MIN_LAST = 24


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns, numbers to the right; on a terminal a long last column is wrapped."""
    cells = [[_text(cell) for cell in row] for row in rows]
    right = [_is_numeric([row[column] for row in rows]) for column in range(len(header))]
    widths = [max(len(row[column]) for row in [list(header), *cells]) for column in range(len(header))]
    last = _last_width(widths)
    for row in [list(header), *cells]:
        lead = GAP.join(_aligned(*cell) for cell in zip(row[:-1], widths, right, strict=False))
        tail = row[-1].rjust(widths[-1]) if right[-1] else row[-1]
        for number, line in enumerate(textwrap.wrap(tail, last) if last and len(tail) > last else [tail]):
            click.echo(f"{lead if number == 0 else ' ' * len(lead)}{GAP if lead else ''}{line}".rstrip())


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"{cell:,}" if isinstance(cell, int) else printable(str(cell))


def _is_numeric(column: Sequence[object]) -> bool:
    given = [cell for cell in column if cell is not None]
    return bool(given) and all(isinstance(cell, int) and not isinstance(cell, bool) for cell in given)


def _last_width(widths: Sequence[int]) -> int:
    """Columns left for the last one on a terminal; 0 for no limit."""
    if not sys.stdout.isatty():
        return 0
    left = shutil.get_terminal_size().columns - sum(widths[:-1]) - len(GAP) * (len(widths) - 1)
    return max(left, MIN_LAST)
