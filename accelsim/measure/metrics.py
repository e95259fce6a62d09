"""The registry of metrics: every key of a Result with its unit, formula and meaning, and `explain`.

The entries stand in metrics.yaml; nothing about a metric is said anywhere else. Those of a comparison of Results stand
in comparison.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from accelsim.errors import InputError, InternalError

if TYPE_CHECKING:
    from accelsim.measure.result import Result

FORMAT = "accelsim-result/1"
COMPARISON = "accelsim-compare/1"

_TABLES = {FORMAT: "metrics.yaml", COMPARISON: "comparison.yaml"}
_WORDS = Path(__file__).with_name("words.yaml")
_INDEX = re.compile(r"\[(\d+)\]")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Metric:
    """One key of a Result. `name` is its path: `[]` one row of a list, `*` any name, `**` whatever lies below."""

    name: str
    unit: str
    type: str  # JSON type, perhaps "or null"
    formula: str  # {path} marks other metrics
    meaning: str
    optional: bool = False  # left out of a Result when 0

    @property
    def segments(self) -> tuple[str, ...]:
        """The path's parts: `operators[].macs` is ("operators", "[]", "macs")."""
        return tuple(self.name.replace("[]", ".[]").split("."))

    @property
    def plain_formula(self) -> str:
        """The formula without the marks around other metrics."""
        return _PLACEHOLDER.sub(r"\1", self.formula)


@cache
def list_metrics(format_name: str = FORMAT) -> tuple[Metric, ...]:
    """All metrics in the order of the Result, or of another format's data."""
    table = yaml.safe_load(Path(__file__).with_name(_TABLES[format_name]).read_text(encoding="utf-8"))
    return tuple(Metric(name=name, **entry) for key, entry in table.items() for name in _spelled_out(key))


def sections() -> tuple[str, ...]:
    """The top-level keys of a Result."""
    return tuple(metric.name for metric in list_metrics() if len(metric.segments) == 1)


def metric_of(path: Sequence[str], format_name: str = FORMAT) -> Metric:
    """The entry of one key of a Result, or of another format's data; a list index in `path` is "[]".

    Raises InternalError when there is none.
    """
    for metric in list_metrics(format_name):
        if _matches(metric.segments, path):
            return metric
    raise InternalError(f"{format_name}: the key {'.'.join(path)} has no entry in {_TABLES[format_name]}")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the report that is no metric's name: what it means, and the metrics or paths of a Result behind it."""

    meaning: str
    metrics: tuple[str, ...]


@cache
def list_words() -> Mapping[str, Word]:
    """The words of the report by their lower-case spelling, synonyms one by one (words.yaml)."""
    table = yaml.safe_load(_WORDS.read_text(encoding="utf-8"))
    words = {names: Word(entry["meaning"], tuple(entry["metrics"])) for names, entry in table.items()}
    return {name.strip(): word for names, word in words.items() for name in names.split(",")}


def find_metrics(query: str) -> tuple[Metric, ...]:
    """The metrics that `query` names: the exact name, else a word of the report, else all whose path ends with it.

    Brackets may be left out or hold a row's number, and a unit, component or other free name may stand for `*`. Raises
    InputError with the nearest names when there is none.
    """
    word = _word_of(query)
    if word is not None:
        return tuple(find_metrics(name)[0] for name in word.metrics)
    wanted = tuple(part for part in _without_rows(query).split(".") if part)
    bare = {metric: tuple(part for part in metric.segments if part != "[]") for metric in list_metrics()}
    exact = [metric for metric, parts in bare.items() if parts == wanted]
    ending = [metric for metric, parts in bare.items() if wanted and parts[-len(wanted) :] == wanted]
    within = [metric for metric, parts in bare.items() if _names_one(parts, _without_rows(query))]
    found = exact or ending or sorted(within, key=_names_in)[-1:]
    if not found:
        raise InputError("unknown metric", where="metric", value=query, remedy=_nearest(query))
    return tuple(found)


def explain(metric: str, result: Result | None = None) -> str:
    """What a metric means, its unit and formula; with `result` also the formula with that run's own numbers.

    A metric of a row (an operator, a unit) is shown for the row that `metric` numbers (`operators[3].cycles`), else for
    the one in which it is largest. Raises InputError for an unknown name, or a row that the run has not.
    """
    first, *others = find_metrics(metric)
    word = _word_of(metric)
    lines = [] if word is None else [f"{' '.join(metric.split())}: {word.meaning}", ""]
    lines += [first.name, f"  {first.meaning}", f"  unit      {first.unit}", f"  formula   {first.plain_formula}"]
    if result is not None:
        path = metric.strip() if word is None else word.metrics[0]
        lines.append(f"  this run  {_worked(first, path, result.data)}")
    if others:
        lines.append(f"  also      {', '.join(other.name for other in others)}")
    return "\n".join(lines)


def _word_of(query: str) -> Word | None:
    return list_words().get(" ".join(query.lower().split()))


def _without_rows(query: str) -> str:
    """`operators[3].cycles`, `operators.3.cycles` and `operators[].cycles` as `operators.cycles`."""
    return re.sub(r"\[\d*\]|\.\d+(?=\.|$)", "", query.strip())


def _spelled_out(key: str) -> Iterator[str]:
    """`by_{kind,layer}[].cycles` stands for one name each."""
    choice = _PLACEHOLDER.search(key)
    if choice is None:
        yield key
        return
    for option in choice[1].split(","):
        yield key.replace(choice[0], option)


def _matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if pattern[-1] == "**" and len(path) >= len(pattern):
        return _matches(pattern[:-1], path[: len(pattern) - 1])
    return len(pattern) == len(path) and all(p in (name, "*") for p, name in zip(pattern, path, strict=True))


def _names_one(parts: Sequence[str], query: str) -> bool:
    """True if `query` is a path of a run: names with dots in them may stand for `*`."""
    if not {"*", "**"} & set(parts):
        return False
    pattern = r"\.".join(".+" if part in ("*", "**") else re.escape(part) for part in parts)
    return re.fullmatch(pattern, query) is not None


def _names_in(metric: Metric) -> int:
    """How much of the path is spelled out: the more, the better it names what was asked for."""
    return sum(part not in ("*", "**") for part in metric.segments)


def _nearest(query: str) -> str:
    names = [metric.name.replace("[]", "") for metric in list_metrics()]
    last = {name.rsplit(".", 1)[-1]: name for name in names}
    close = get_close_matches(query, names, 3, 0.5) or [last[key] for key in get_close_matches(query, last, 3, 0.5)]
    close = get_close_matches(query.lower(), list_words(), 1, 0.8) + close
    return f"nearest: {', '.join(close)}" if close else "`accelsim list metrics` names all"


@dataclass(frozen=True, slots=True)
class _Place:
    """One occurrence of a metric in a Result: its path there, value, and the row (unit, operator, ...) around it."""

    path: tuple[str, ...]
    value: Any
    row: Mapping[str, Any]


def _places(
    segments: Sequence[str], value: Any, row: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[_Place]:
    """Every occurrence of a metric below `value`."""
    if not segments:
        yield _Place(path, value, row)
        return
    head, rest = segments[0], segments[1:]
    if head in ("[]", "*", "**"):
        items = enumerate(value or ()) if head == "[]" else (value or {}).items()
        for key, inner in items:
            yield from _places(rest, inner, inner if isinstance(inner, Mapping) else row, (*path, str(key)))
    elif head in value:
        yield from _places(rest, value[head], row, (*path, head))


def _worked(metric: Metric, query: str, data: Mapping[str, Any]) -> str:
    """The metric's value in this run after the formula's numbers, and where that is when there are several."""
    everywhere = list(_places(metric.segments, data, data))
    named = _INDEX.sub(r".\1", query)
    places = [place for place in everywhere if ".".join(place.path) == named]
    if not places and named != query:
        raise InputError("this run has no such row", where="metric", value=query, remedy="rows count from 0")
    places = places or everywhere
    if not places:
        return "0 (not in this run)"
    place = max(places, key=lambda place: _size(place.value))
    numbers = _with_numbers(metric.formula, place.row, data)
    shown = _shown(place.value) if numbers is None else f"{numbers} = {_shown(place.value)}"
    return shown if len(places) == 1 else f"{shown}  ({_label(place)}: the largest of {len(places)})"


def _size(value: Any) -> float:
    """A number that says how large a value is: itself, or the sum over a group; text counts 0, null less."""
    if isinstance(value, Mapping):
        return sum(_size(inner) for inner in value.values())
    return value if isinstance(value, int | float) else -1 if value is None else 0


def _with_numbers(formula: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> str | None:
    """The formula with the run's numbers in it; None when it names no other metric or one without a number."""
    names = _PLACEHOLDER.findall(formula)
    values = {name: _number(name, row, data) for name in names}
    if not names or None in values.values():
        return None
    return _PLACEHOLDER.sub(lambda match: _shown(values[match[1]]), formula)


def _number(name: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> float | None:
    for start in (row, data):
        found = list(_places(name.split("."), start, start))
        if found and found[0].value is not None:
            value = found[0].value
            return sum(value.values()) if isinstance(value, Mapping) else value
    return None


def _label(place: _Place) -> str:
    names = [place.row[key] for key in ("name", "kind", "layer", "phase") if key in place.row]
    path = ".".join(place.path)
    return f"{path}, {names[0]}" if names else path


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        sums = {key: _size(inner) if isinstance(inner, Mapping) else inner for key, inner in value.items()}
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in sums.items()) or "0"
    if isinstance(value, list):
        return f"{len(value)} rows" if value and isinstance(value[0], Mapping) else str(value)
    return f"{value:.6g}" if isinstance(value, float) else "null" if value is None else str(value)
