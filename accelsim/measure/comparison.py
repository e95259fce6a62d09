"""Several Results side by side, the first as the baseline, as plain data (`accelsim-compare/1`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelsim.errors import InputError
from accelsim.measure.facts import Facts, Value, facts_of
from accelsim.measure.metrics import COMPARISON
from accelsim.measure.ratios import Range, ratio_range
from accelsim.measure.result import Result

Data = dict[str, Any]

_NAMES = ("name", "description")  # of a machine: they change nothing


@dataclass(frozen=True)
class _Total:
    """A total of the comparison: its value, whether more of it is better, and whose sources' ranges it carries."""

    value: Callable[[Facts], Value]
    more_is_better: bool = False
    of_energy: bool = False
    of_area: bool = False


_TOTALS = {
    "cycles": _Total(lambda facts: facts.cycles),
    "seconds": _Total(lambda facts: facts.seconds),
    "utilization": _Total(lambda facts: facts.utilization, more_is_better=True),
    "dram_bytes": _Total(lambda facts: facts.dram_bytes),
    "energy_pj": _Total(lambda facts: facts.energy_pj, of_energy=True),
    "average_power_w": _Total(lambda facts: facts.power_w, of_energy=True),
    "area_mm2": _Total(lambda facts: facts.area_mm2, of_area=True),
    "energy_delay_js": _Total(lambda facts: facts.energy_delay_js, of_energy=True),
    "energy_delay_area_js_mm2": _Total(lambda facts: facts.energy_delay_area_js_mm2, of_energy=True, of_area=True),
}


def compare_results(names: Sequence[str], results: Sequence[Result]) -> Data:
    """The comparison as plain data; every key is explained in comparison.yaml.

    `names` are what the results are called, one each; the first result is what the others are compared with. Raises
    InputError for fewer than two results, another number of names, or a Result that lacks a number.
    """
    if len(results) < 2:
        raise InputError("there is nothing to compare with", value=list(names), remedy="give two results or more")
    if len(names) != len(results):
        raise InputError(f"{len(results)} results need as many names", where="names", value=list(names))
    facts = [facts_of(name, result.data) for name, result in zip(names, results, strict=True)]
    return {
        "format": COMPARISON,
        "subjects": [_subject(each) for each in facts],
        "same_work": len({_work(each) for each in facts}) == 1,
        "differences": _differences(facts),
        "totals": _totals(facts),
        "critical_path": [{"unit": name, **row} for name, row in _cycle_rows(facts, lambda each: each.path)],
        "by_kind": [{"kind": name, **row} for name, row in _cycle_rows(facts, lambda each: each.kinds)],
        "energy_pj": [{"component": name, **row} for name, row in _energy_rows(facts)],
        "stalls": [{"unit": unit, "cause": cause, **row} for (unit, cause), row in _stall_rows(facts)],
    }


def _work(facts: Facts) -> tuple[Any, ...]:
    """What tells one piece of work from another: the trace's content and the layers taken of it."""
    return facts.provenance["trace"]["sha256"], facts.provenance["arguments"].get("layers")


def _subject(facts: Facts) -> Data:
    arch, trace = facts.provenance["arch"]["name"], facts.provenance["trace"]["name"]
    return {"name": facts.name, "arch": arch, "trace": trace, "unpriced_area": list(facts.unpriced)}


def _differences(facts: Sequence[Facts]) -> list[Data]:
    """Keys of machine, options and trace that are not the same everywhere, in the order in which they are given."""
    flat = [dict(_leaves(_settings(each))) for each in facts]
    keys = dict.fromkeys(key for each in flat for key in each)
    rows = [{"key": key, "values": [each.get(key) for each in flat]} for key in keys]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]


def _settings(facts: Facts) -> Data:
    """Provenance without the machine's name and description."""
    given = facts.provenance
    arch = {key: value for key, value in given["arch"].items() if key not in _NAMES}
    return {"arch": arch, **{key: given.get(key) for key in ("arguments", "trace", "engine", "version")}}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything below a nested mapping; an empty one has none."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))


def _totals(facts: Sequence[Facts]) -> Data:
    energy = [_range(facts[0], each, "energy") for each in facts]
    area = [_range(facts[0], each, "area") for each in facts]
    found = {}
    for name, total in _TOTALS.items():
        values = [total.value(each) for each in facts]
        ratios = [_ratio(values[0], value) for value in values]
        used = [[e] * total.of_energy + [a] * total.of_area for e, a in zip(energy, area, strict=True)]
        ends = [_ends(ratio, ranges) for ratio, ranges in zip(ratios, used, strict=True)]
        found[name] = {
            "values": values,
            "ratios": ratios,
            "ratios_low": [low for low, _ in ends],
            "ratios_high": [high for _, high in ends],
            "best": _best(values, total.more_is_better),
        }
    return found


def _range(base: Facts, other: Facts, of: str) -> Range | None:
    """The range of the ratio of two energies or areas, as multiples of the nominal ratio."""
    shared = base.provenance["arch"][of] == other.provenance["arch"][of]
    return ratio_range(getattr(base, of), getattr(other, of), shared=shared)


def _ends(ratio: Value, ranges: Sequence[Range | None]) -> tuple[Value, Value]:
    """The ends of a ratio that carries the ranges of its factors; (None, None) when one is not known."""
    low = high = ratio
    for each in ranges:
        if low is None or high is None or each is None:
            return None, None
        low, high = low * each[0], high * each[1]
    return low, high


def _ratio(base: Value, value: Value) -> Value:
    return value / base if base and value is not None else None


def _best(values: Sequence[Value], more_is_better: bool) -> list[int]:
    """Positions of the best value; none when all that are known are equal."""
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:
        return []
    best = max(known) if more_is_better else min(known)
    return [position for position, value in enumerate(values) if value == best]


def _row(values: Sequence[Value]) -> Data:
    return {"values": list(values), "ratios": [_ratio(values[0], value) for value in values]}


def _cycle_rows(facts: Sequence[Facts], of: Callable[[Facts], Mapping[str, int]]) -> Iterator[tuple[str, Data]]:
    """Cycles by name; None where a result has no such unit or kind."""
    for name in dict.fromkeys(name for each in facts for name in of(each)):
        yield name, _row([of(each).get(name) for each in facts])


def _energy_rows(facts: Sequence[Facts]) -> Iterator[tuple[str, Data]]:
    for name in dict.fromkeys(name for each in facts for name in each.energy):
        yield name, _row([each.energy[name][1] if name in each.energy else None for each in facts])


def _stall_rows(facts: Sequence[Facts]) -> Iterator[tuple[tuple[str, str], Data]]:
    """Cycles by waiting unit and cause; None where a result has no such unit."""
    for key in dict.fromkeys(key for each in facts for key in each.stalls):
        yield key, _row([each.stalls.get(key, 0) if key[0] in each.units else None for each in facts])
