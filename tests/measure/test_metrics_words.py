"""Words of the report that `explain` understands though they are no metric's name, and rows named by their number."""

from __future__ import annotations

import pytest

from accelsim.errors import InputError
from accelsim.measure.metrics import explain, find_metrics, list_metrics, list_words
from accelsim.measure.result import Result
from tests.report.example import small_result


@pytest.fixture(scope="module")
def result() -> Result:
    return small_result()


def test_every_word_leads_to_metrics() -> None:
    names = {metric.name for metric in list_metrics()}
    for word, entry in list_words().items():
        assert word == word.lower()
        assert word not in names
        assert find_metrics(word) == tuple(find_metrics(path)[0] for path in entry.metrics)


@pytest.mark.parametrize(
    ("word", "metric"),
    [
        ("wait", "units.*.stalls"),
        ("stall", "units.*.stalls"),
        ("% of peak", "total.utilization"),
        ("TOPS", "total.macs"),
        ("Power", "average_power_w.nominal"),
        ("energy", "energy_pj"),
        ("dependencies", "bounds.dependency_cycles"),
        ("vector unit", "units.*"),
        ("critical  path", "critical_path.by_unit"),
        ("mapper's estimate", "program.tiles[].estimated_cycles"),
    ],
)
def test_word_of_the_screen_is_explained_with_its_metric(word: str, metric: str) -> None:
    first, blank, name, *_ = explain(word).splitlines()
    assert first.lower().startswith(" ".join(word.lower().split()) + ": ")
    assert (blank, name) == ("", metric)


def test_word_for_a_unit_shows_that_unit(result: Result) -> None:
    unit = result.units["core0.load0"]
    text = explain("DRAM load", result)
    assert f" = {result.cycles} = busy {sum(unit['busy'].values())}, stalls " in text
    assert "the largest of" not in text


@pytest.mark.parametrize("query", ["operators[0].cycles", "operators.0.cycles"])
def test_row_is_named_by_its_number(query: str, result: Result) -> None:
    data = result.to_dict()
    data["operators"] = [data["operators"][0] | {"cycles": 7}, data["operators"][0] | {"cycles": 9}]
    assert "this run  7  (operators.0.cycles, " not in explain("operators.cycles", Result(data))
    assert "  this run  7" in explain(query, Result(data)).splitlines()
    assert explain(query).startswith("operators[].cycles\n")


def test_row_that_is_not_there_is_refused(result: Result) -> None:
    with pytest.raises(InputError, match=r"no such row; got 'operators\[5\].cycles'"):
        explain("operators[5].cycles", result)


def test_near_miss_of_a_word_is_told() -> None:
    with pytest.raises(InputError, match="nearest: dependencies"):
        explain("dependancies")
