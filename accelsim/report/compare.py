"""Several Results side by side: what differs in the machines, and in time, energy, area, stalls and operators."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from io import StringIO
from textwrap import wrap
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from accelsim.errors import InputError
from accelsim.measure.comparison import compare_results
from accelsim.measure.result import Result
from accelsim.report.compare_rows import Row, Section, difference_rows, is_open, sections, total_rows
from accelsim.report.numbers import printable, ratio, shortened
from accelsim.report.text import WIDTH, put

Data = Mapping[str, Any]

MAX_LINES = 45
DIFFERENT_WORK = "the runs did different work: ratios compare machine and work together"
_LABEL, _RATIO = 19, 6
_NARROWEST, _WIDEST = 7, 13  # of a value
_FEWEST_KEYS = 5
_LEAST_WIDTH = 20
_BEST, _OPEN = "*", "~"
_OPEN_NOTE = f"{_OPEN} the ranges of the sources leave open which of the two is lower"


@dataclass(frozen=True)
class Comparison:
    """Results side by side, the first as the baseline. `to_dict()` is all of it, `text()` what the terminal shows."""

    data: Data

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain JSON data (`accelsim-compare/1`), a copy."""
        return deepcopy(dict(self.data))

    def to_json(self) -> str:
        """The comparison as JSON text; never NaN or infinity."""
        return json.dumps(self.data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def text(self, width: int = WIDTH) -> str:
        """What `show` prints, without colour, in lines of `width` characters. Raises InputError for too few of them."""
        if type(width) is not int or width < _LEAST_WIDTH:
            what = f"not a number of characters from {_LEAST_WIDTH} on"
            raise InputError(what, where="width", value=width, remedy=f"without one it is {WIDTH}")
        stream = StringIO()
        Console(file=stream, width=width, highlight=False, no_color=True).print(render(self, width))
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"

    def show(self, console: Console | None = None) -> None:
        """Print to stdout, or to `console`: as wide as a terminal, anywhere else in 80 columns."""
        out = console or Console(highlight=False)
        put(out, render(self, out.width if out.is_terminal else WIDTH))


def compare(names: Sequence[str], results: Sequence[Result]) -> Comparison:
    """Compare results called `names`. Raises InputError for fewer than two, or a Result that lacks a number."""
    return Comparison(compare_results(names, results))


def render(comparison: Comparison, width: int = WIDTH) -> RenderableType:
    """The comparison as a rich renderable; subjects that do not fit beside each other get a block of their own."""
    data = comparison.data
    letters = _letters(len(data["subjects"]))
    others = range(1, len(letters))
    fits = max(1, (width - _LABEL - _NARROWEST - 2) // (_NARROWEST + _RATIO + 4))
    above, below = list(_legend(data, letters, width)), [_conclusion(data, letters, i) for i in others]
    free = MAX_LINES - len(above) - sum(len(wrap(sentence, width)) for sentence in below) - 1
    blocks = [
        _block(data, letters, [0, *others[first : first + fits]], width, free) for first in range(0, len(others), fits)
    ]
    return Group(*above, *blocks, Text(""), *(Text(sentence, style="bold") for sentence in below))


def _letters(subjects: int) -> list[str]:
    """A, B, ... Z, and then numbers."""
    return [chr(ord("A") + i) if i < 26 else str(i + 1) for i in range(subjects)]


def _legend(data: Data, letters: Sequence[str], width: int) -> Iterator[Text]:
    """What each letter stands for: its name, and its trace where they are not all the same."""
    subjects = data["subjects"]
    traces = {subject["trace"] for subject in subjects}
    if len(traces) == 1:
        yield Text(shortened(printable(subjects[0]["trace"]), width), style="bold")
    for letter, subject in zip(letters, subjects, strict=True):
        name, trace = printable(subject["name"]), printable(subject["trace"])
        on = "" if len(traces) == 1 else f": {trace} on {printable(subject['arch'])}"
        yield Text(f"{letter}  {shortened(f'{name}{on}', width - 3)}")
    if not data["same_work"]:
        yield Text(DIFFERENT_WORK, style="bold")


def _block(data: Data, letters: Sequence[str], chosen: Sequence[int], width: int, lines: int) -> RenderableType:
    """Everything about subjects that stand beside each other, in `lines` lines if that goes: keys, totals, sections."""
    heads = [letters[i] for i in chosen]
    free = (width - _LABEL - (_RATIO + 2) * (len(chosen) - 1)) // len(chosen) - 2
    values = max(_NARROWEST, min(free, _WIDEST))
    totals, parts = list(total_rows(data, chosen, values)), list(sections(data, chosen, values))
    notes = list(_notes(data, totals, chosen, letters))
    left = lines - len(totals) - sum(len(part.rows) + 1 for part in parts) - len(notes) - 4  # two blanks, two heads
    keys, more = _differences(data, heads, chosen, max(_FEWEST_KEYS, left), width)
    roomy = len(keys.rows) + len(more) + len(parts) <= left
    return Group(Text(""), keys, *more, Text(""), _numbers(heads, totals, parts, roomy=roomy), *notes)


def _differences(
    data: Data, heads: Sequence[str], chosen: Sequence[int], most: int, width: int
) -> tuple[Table, list[Text]]:
    """At most `most` keys that differ, and the names of those left out."""
    rows = difference_rows(data, chosen)
    shown = rows if len(rows) <= most else rows[: most - 1]
    table = _table("What differs", *heads)
    room = max((width - max((len(key) for key, _ in shown), default=0)) // len(chosen) - 2, 6)
    for key, values in shown:
        table.add_row(Text(key), *(Text(shortened(value, room)) for value in values))
    if not rows:
        return table, [Text("nothing: machines and options are the same")]
    rest = ", ".join(key for key, _ in rows[len(shown) :])
    return table, [Text(shortened(f"and {len(rows) - len(shown)} more: {rest}", width))] if rest else []


def _numbers(heads: Sequence[str], totals: Sequence[Row], parts: Sequence[Section], *, roomy: bool) -> Table:
    """Totals and sections in one table, so that all columns stand below each other."""
    first, *others = heads
    table = _table("", f"{first} ", *(head for other in others for head in (f"{other} ", f"{other}/{first} ")))
    for row in totals:
        table.add_row(*_cells(row))
    for part in parts:
        if roomy:
            table.add_row()
        table.add_row(Text(part.title, style="bold"))
        for row in part.rows:
            table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> Iterator[Text]:
    """Label, first value, then value and ratio of each other subject; a place for a mark behind each number."""
    yield Text(shortened(row.label, _LABEL))
    for place, (value, times) in enumerate(zip(row.values, row.ratios, strict=True)):
        best = place in row.best
        yield Text(f"{value}{_BEST if best else ' '}", style="bold" if best else "")
        if place:
            yield Text(f"{times}{_OPEN if place in row.open else ' '}")


def _notes(data: Data, totals: Sequence[Row], chosen: Sequence[int], letters: Sequence[str]) -> Iterator[Text]:
    """What the marks mean, and why an area is not known."""
    marks = [f"{_BEST} best"] if any(row.best for row in totals) else []
    marks += [_OPEN_NOTE] if any(row.open for row in totals) else []
    if marks:
        yield Text("   ".join(marks), style="dim")
    for i in chosen:
        if unpriced := data["subjects"][i]["unpriced_area"]:
            yield Text(f"area of {letters[i]} is not known: {printable(', '.join(unpriced))} set to 0", style="dim")


def _conclusion(data: Data, letters: Sequence[str], i: int) -> str:
    """A plain sentence: what subject `i` gains or loses, for which area and energy, and whether that pays."""
    name, base, totals = letters[i], letters[0], data["totals"]
    words = [
        f"the same {word}" if times == 1 else f"{ratio(times, 1)} the {word}"
        for word, key in (("area", "area_mm2"), ("energy", "energy_pj"))
        if (times := totals[key]["ratios"][i]) is not None
    ]
    products = [
        f"{word} {ratio(times, 1)}"
        for word, key in (("energy-delay", "energy_delay_js"), ("energy-delay-area", "energy_delay_area_js_mm2"))
        if (times := totals[key]["ratios"][i]) is not None
    ]
    speed = f"{name} {_speed(totals['seconds']['ratios'][i])} {base}"
    cost = f"{speed} for {' and '.join(words)}" if words else speed
    verdict = _verdict(totals["energy_delay_area_js_mm2"], i) if data["same_work"] else ""
    return f"{cost}: {', '.join(products)}{verdict}." if products else f"{cost}."


def _speed(times: float | None) -> str:
    if times is None or not times:
        return "cannot be timed against"
    if times == 1:
        return "is as fast as"
    return f"is {ratio(1 / times, 1)} faster than" if times < 1 else f"is {ratio(times, 1)} slower than"


def _verdict(product: Data, i: int) -> str:
    """Whether the subject does better for its area than the first, as far as the sources tell."""
    times = product["ratios"][i]
    if times is None:
        return "; energy-delay-area is not known"
    if times == 1:
        return ", so neither is better for its area"
    if is_open(product, i):
        return "; which is better for its area is open"
    return f", so it is {'better' if times < 1 else 'worse'} for its area"


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for index, header in enumerate(headers):
        table.add_column(Text(header), justify="right" if index else "left", no_wrap=True)
    return table
