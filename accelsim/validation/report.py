"""Writes reports/validation/: a page, and for each part a table of every row and a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from accelsim.errors import InputError
from accelsim.files import check_writable, whole_file
from accelsim.validation import figures
from accelsim.validation.model import Checked, Row
from accelsim.validation.page import page
from accelsim.validation.words import error_value, value_text

PAGE = "README.md"
HEADER = ("reference_set", "case", "quantity", "reference", "ours", "error", "allowed_error")
SPREAD_HEADER = ("ours_low", "ours_high", "agrees")


def prepare(folder: str | Path) -> Path:
    """Make the folder, before any work is done. Raises InputError when it cannot be made or written to."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(
            f"cannot be made ({reason})", where=str(folder), remedy="give a folder, or a place where one can be made"
        ) from error
    check_writable(path / PAGE)
    return path


def write_report(folder: Path, checked: Sequence[Checked], fast: bool) -> list[str]:
    """Write the report and return its files' names, the page last: what it names is there, and each file is whole.

    Without matplotlib there are no figures. Raises InputError when a file cannot be written.
    """
    files = {f"{each.part.name}.csv": table(each) for each in checked}
    drawn = [each for each in checked if figures.has_figure(each)] if figures.can_draw() else []
    files |= {f"{each.part.name}.png": figures.figure(each) for each in drawn}
    files[PAGE] = page(checked, fast, set(files)).encode()
    for name, content in files.items():
        with whole_file(folder / name) as stream:
            stream.write(content)
    return list(files)


def table(checked: Checked) -> bytes:
    """Every row of a part, as CSV; the page has the assumption of each reference set."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    has_spread = any(row.spread for row in checked.rows)
    writer.writerow(HEADER + SPREAD_HEADER * has_spread)
    for row in checked.rows:
        writer.writerow((*_cells(row), *_spread_cells(row)))
    return text.getvalue().encode()


def _cells(row: Row) -> tuple[str, ...]:
    allowed = "" if row.tolerance is None else f"{row.tolerance:g}"
    values = value_text(row.reference), value_text(row.ours), error_value(row.error), allowed
    return row.reference_set.name, row.case, row.quantity, *values


def _spread_cells(row: Row) -> tuple[str, ...]:
    if row.spread is None:
        return ()
    return *map(value_text, row.spread), "" if row.agrees is None else str(row.agrees).lower()
