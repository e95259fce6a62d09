"""What the comparison shows: rows picked, merged, ordered and written, without any layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelsim.report.numbers import compact, count, prefix, printable, ratio, scaled, significant
from accelsim.report.sections import cause_label, component_label, short_label, unit_label

Data = Mapping[str, Any]
Value = float | None

SHOWN_ROWS = 3  # of each section, and one for the others
_PICO = 1e-12
_TOTALS = {  # label, factor to base units, unit
    "cycles": ("cycles", 1, ""),
    "seconds": ("time", 1, "s"),
    "utilization": ("% of peak", 100, ""),
    "dram_bytes": ("DRAM, MB", 1e-6, ""),
    "energy_pj": ("energy", _PICO, "J"),
    "average_power_w": ("power", 1, "W"),
    "area_mm2": ("area, mm2", 1, ""),
    "energy_delay_js": ("energy-delay", 1, "Js"),
    "energy_delay_area_js_mm2": ("  x area", 1, "Js mm2"),  # below energy-delay, which it goes on
}


@dataclass(frozen=True)
class Row:
    """One line of the comparison: a label, and of each subject its value as text, its ratio and marks for both."""

    label: str
    values: Sequence[str]
    ratios: Sequence[str]
    best: Sequence[int] = ()
    open: Sequence[int] = ()  # subjects of whom the sources do not tell whether they are above or below the first


@dataclass(frozen=True)
class Section:
    """A heading and the rows below it."""

    title: str
    rows: Sequence[Row]


def total_rows(data: Data, chosen: Sequence[int], width: int) -> Iterator[Row]:
    """A row a total, of the `chosen` subjects; values take at most `width` characters."""
    for name, (label, factor, unit) in _TOTALS.items():
        total = data["totals"][name]
        values = _scaled([total["values"][i] for i in chosen], factor)
        short = _prefix(values) if unit else ""
        texts = [_text(value, short, width, whole=name == "cycles") for value in values]
        ratios = [ratio_text(total["values"][i], total["values"][0], total["ratios"][i]) for i in chosen]
        unsure = [place for place, i in enumerate(chosen) if is_open(total, i)]
        best = [place for place, i in enumerate(chosen) if i in total["best"]]
        yield Row(f"{label}, {short}{unit}" if unit else label, texts, ratios, best, unsure)


def is_open(total: Data, subject: int) -> bool:
    """Whether the ranges of the sources leave open if the subject is above or below the first one."""
    low, high = total["ratios_low"][subject], total["ratios_high"][subject]
    if low is None:
        return total["ratios"][subject] is not None
    return bool(low < high and low <= 1 <= high)


def sections(data: Data, chosen: Sequence[int], width: int) -> Iterator[Section]:
    """Where the time went, to which operators, what waited for what, and where the energy went."""

    def cycles(value: Value) -> str:
        return _text(value, "", width, whole=True)

    path = _merged(data["critical_path"], lambda row: unit_label(row["unit"]), sum)
    yield _section("Critical path, cycles", path, chosen, cycles)
    kinds = _merged(data["by_kind"], lambda row: str(row["kind"]), sum)
    yield _section("Operators, cycles", kinds, chosen, cycles)
    waits = _merged(data["stalls"], lambda row: f"{short_label(row['unit'])} for {cause_label(row['cause'])}", max)
    yield _section("Waiting, cycles", waits, chosen, cycles)
    parts = _merged(data["energy_pj"], lambda row: component_label(row["component"]), sum)
    energy = {label: _scaled(values, _PICO) for label, values in parts.items()}
    short = _prefix([value for values in energy.values() for value in values])
    yield _section(f"Energy, {short}J", energy, chosen, lambda value: _text(value, short, width, whole=False))


def difference_rows(data: Data, chosen: Sequence[int]) -> list[tuple[str, list[str]]]:
    """Keys that differ between the `chosen` subjects, least nested first, and each one's value.

    Keys are written as in a machine or on the command line.
    """
    rows = [(row["key"], [row["values"][i] for i in chosen]) for row in data["differences"]]
    if any(key.startswith("trace.") and key != "trace.sha256" for key, _ in rows):
        rows = [(key, values) for key, values in rows if key != "trace.sha256"]
    different = [(_key(key), values) for key, values in rows if any(value != values[0] for value in values)]
    different.sort(key=lambda row: row[0].count("."))
    return [
        (key, [_value(value, key, place, different) for place, value in enumerate(values)]) for key, values in different
    ]


def ratio_text(base: Value, value: Value, times: Value) -> str:
    """A ratio as 1.23x; "=" for equal values, "-" for an unknown one."""
    if base is not None and value == base:
        return "="
    return "-" if times is None else ratio(times, 1)


def _key(key: str) -> str:
    return printable(key.removeprefix("arch.").removeprefix("arguments."))


def _value(value: Any, key: str, place: int, rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """A value as text; "given" for a section that has keys of its own in this subject and is none in another."""
    if value is None:
        inner = any(name.startswith(f"{key}.") and values[place] is not None for name, values in rows)
        return "given" if inner else "-"
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _merged(
    rows: Sequence[Data], label: Callable[[Data], str], merge: Callable[[Sequence[float]], float]
) -> dict[str, list[Value]]:
    """Values by label; of several arrays or queues, cycles of the path add up, of waiting the most counts."""
    found: dict[str, list[Value]] = {}
    for row in rows:
        name, values = printable(label(row)), row["values"]
        found[name] = _joined(found[name], values, merge) if name in found else values
    return found


def _joined(first: Sequence[Value], second: Sequence[Value], merge: Callable[[Sequence[float]], float]) -> list[Value]:
    pairs = [[value for value in pair if value is not None] for pair in zip(first, second, strict=True)]
    return [merge(known) if known else None for known in pairs]


def _section(
    title: str, rows: Mapping[str, Sequence[Value]], chosen: Sequence[int], text: Callable[[Value], str]
) -> Section:
    """The rows that change most, largest change first, and the others together; `text` writes a value."""
    picked = [(label, [values[i] for i in chosen]) for label, values in rows.items()]
    found = _most_changed([(label, values) for label, values in picked if any(values)])
    return Section(title, [_row(label, values, [text(value) for value in values]) for label, values in found])


def _row(label: str, values: Sequence[Value], texts: Sequence[str]) -> Row:
    return Row(label, texts, [ratio_text(values[0], value, _times(values[0], value)) for value in values])


def _times(base: Value, value: Value) -> Value:
    return value / base if base and value is not None else None


def _most_changed(rows: Sequence[tuple[str, list[Value]]]) -> list[tuple[str, list[Value]]]:
    ordered = sorted(rows, key=lambda row: (_change(row[1]), max(value or 0 for value in row[1])), reverse=True)
    if len(ordered) <= SHOWN_ROWS + 1:
        return ordered
    rest = ordered[SHOWN_ROWS][1]
    for _, values in ordered[SHOWN_ROWS + 1 :]:
        rest = _joined(rest, values, sum)
    return [*ordered[:SHOWN_ROWS], (f"{len(ordered) - SHOWN_ROWS} others", rest)]


def _change(values: Sequence[Value]) -> float:
    """The largest distance from the first value; what is not there counts as nothing."""
    return max(abs((value or 0) - (values[0] or 0)) for value in values)


def _scaled(values: Sequence[Value], factor: float) -> list[Value]:
    return [None if value is None else value * factor for value in values]


def _prefix(values: Sequence[Value]) -> str:
    return prefix(max((value for value in values if value is not None), default=0.0))


def _text(value: Value, short: str, width: int, *, whole: bool) -> str:
    if value is None:
        return "-"
    if whole:
        return count(round(value), width)
    text = significant(scaled(value, short))
    return text if len(text) <= width else compact(scaled(value, short))
