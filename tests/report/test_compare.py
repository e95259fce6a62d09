"""Results side by side: figures are those of the Results, ratios and products right, what is unknown said so."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from math import fsum
from typing import Any

import jsonschema
import pytest
from rich.console import Console

import accelsim
from accelsim.errors import InputError
from accelsim.measure.metrics import COMPARISON, list_metrics, metric_of
from accelsim.measure.result import Result
from accelsim.measure.schema import comparison_schema
from accelsim.report.compare import DIFFERENT_WORK, MAX_LINES, Comparison
from tests.report.example import crowded_result, small_result

Data = dict[str, Any]
Change = Callable[[Data], object]
ENERGIES = ("energy_low_pj", "energy_pj", "energy_high_pj")
AREAS = ("area_low_mm2", "area_mm2", "area_high_mm2")


def changed(*changes: Change) -> Data:
    data = small_result().to_dict()
    for change in changes:
        change(data)
    return data


def lanes(data: Data) -> None:
    data["provenance"]["arch"]["vector"]["lanes"] = 7


def slower(data: Data) -> None:
    data["total"]["cycles"] *= 2
    data["total"]["seconds"] *= 2


def priced(energy: tuple[float, float, float], area: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> Change:
    """One component each, as (low, nominal, high)."""

    def change(data: Data) -> None:
        for keys, component, spread in ((ENERGIES, "dram", energy), (AREAS, "array", area)):
            for key, value in zip(keys, spread, strict=True):
                data[key] = {component: value}

    return change


def compared(*data: Data, names: list[str] | None = None) -> Comparison:
    return accelsim.compare(data, names)


def line_of(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(label))


def block(text: str, title: str) -> list[str]:
    """The labels below a heading of the numbers."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    return [re.split(r"\s{2,}", line)[0] for line in lines[start + 1 : start + 5]]


@pytest.fixture(params=[2, 3, 4, 8])
def crowd(request: pytest.FixtureRequest) -> Comparison:
    """Subjects with large numbers, long names and many differences."""
    results = [crowded_result().to_dict() for _ in range(request.param)]
    for number, data in enumerate(results):
        data["total"]["cycles"] += 10**9 * number
        data["provenance"]["arch"] |= {f"key_{i}": {"inner": i * number} for i in range(20)}
    return compared(*results, names=["a very long name of a machine " * 4] * len(results))


# Numbers


def test_totals_are_those_of_the_results() -> None:
    first, second = small_result().to_dict(), changed(lanes, slower)
    totals = compared(first, second).to_dict()["totals"]
    for position, data in enumerate((first, second)):
        energy, area = fsum(data["energy_pj"].values()), fsum(data["area_mm2"].values())
        seconds = data["total"]["seconds"]
        found = {name: total["values"][position] for name, total in totals.items()}
        assert found == {
            "cycles": data["total"]["cycles"],
            "seconds": seconds,
            "utilization": data["total"]["utilization"],
            "dram_bytes": data["dram"]["read_bytes"] + data["dram"]["write_bytes"],
            "energy_pj": energy,
            "average_power_w": data["average_power_w"]["nominal"],
            "area_mm2": area,
            "energy_delay_js": pytest.approx(energy * 1e-12 * seconds),
            "energy_delay_area_js_mm2": pytest.approx(energy * 1e-12 * seconds * area),
        }


def test_ratios_are_over_the_first_and_the_best_is_named() -> None:
    totals = compared(changed(), changed(slower), changed(slower, slower)).to_dict()["totals"]
    assert totals["cycles"]["ratios"] == [1, 2, 4]
    assert totals["energy_delay_js"]["ratios"] == pytest.approx([1, 2, 4])
    assert totals["cycles"]["best"] == [0]
    assert totals["area_mm2"]["best"] == []
    better = changed(lambda data: data["total"].update(utilization=1.0))
    assert compared(changed(), better).to_dict()["totals"]["utilization"]["best"] == [1]


@pytest.mark.parametrize(
    ("section", "of"),
    [
        ("critical_path", lambda data: data["critical_path"]["by_unit"]),
        ("by_kind", lambda data: {row["kind"]: row["cycles"] for row in data["by_kind"]}),
        ("energy_pj", lambda data: data["energy_pj"]),
    ],
)
def test_sections_hold_every_figure_of_each_result(section: str, of: Callable[[Data], Data]) -> None:
    results = [crowded_result().to_dict(), small_result().to_dict()]
    rows = compared(*results).to_dict()[section]
    for position, data in enumerate(results):
        found = {next(iter(row.values())): row["values"][position] for row in rows}
        assert {name: value for name, value in found.items() if value} == {n: v for n, v in of(data).items() if v}


def test_stalls_hold_every_unit_and_cause() -> None:
    results = [crowded_result().to_dict(), small_result().to_dict()]
    rows = compared(*results).to_dict()["stalls"]
    for position, data in enumerate(results):
        found = {(row["unit"], row["cause"]): row["values"][position] for row in rows if row["values"][position]}
        units = data["units"].items()
        assert found == {(name, cause): n for name, unit in units for cause, n in unit["stalls"].items() if n}
    absent = next(row for row in rows if row["unit"] == "core0.level2.load")
    assert absent["values"][1] is None  # no such unit; not: a unit that never waits


def test_differing_keys_are_found_however_deep() -> None:
    def change(data: Data) -> None:
        data["provenance"]["arch"] |= {"special": {"softmax": {"elements_per_cycle": 16}}, "name": "other"}
        data["provenance"]["arguments"]["fusion"] = "none"

    differences = {row["key"]: row["values"] for row in compared(changed(), changed(lanes, change)).data["differences"]}
    arch = changed()["provenance"]["arch"]
    assert differences == {
        "arch.vector.lanes": [arch["vector"]["lanes"], 7],
        "arch.special": [arch["special"], None],
        "arch.special.softmax.elements_per_cycle": [None, 16],
        "arguments.fusion": ["elementwise", "none"],
    }
    text = compared(changed(), changed(lanes, change)).text()
    assert line_of(text, "special ").split() == ["special", "none", "given"]
    assert line_of(text, "special.softmax").split()[1:] == ["-", "16"]


def test_every_key_has_an_entry_in_the_registry(crowd: Comparison) -> None:
    def paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        inner = (
            value.items() if isinstance(value, dict) else (("[]", v) for v in value) if isinstance(value, list) else ()
        )
        return [path] * bool(path) + [found for key, each in inner for found in paths(each, (*path, key))]

    for path in paths(crowd.to_dict()):
        assert metric_of(path, COMPARISON).meaning.endswith(".")
    names = [metric.name for metric in list_metrics(COMPARISON)]
    assert len(set(names)) == len(names)


def test_comparison_obeys_its_schema_and_is_json(crowd: Comparison) -> None:
    validator = jsonschema.Draft202012Validator(comparison_schema())
    data = json.loads(crowd.to_json())
    assert data == crowd.to_dict()
    validator.validate(data)
    data["totals"]["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(data)


# What the sources leave open


def ends(first: Change, second: Change, total: str = "energy_pj") -> tuple[float, float]:
    found = compared(changed(first), changed(second)).to_dict()["totals"][total]
    return found["ratios_low"][1], found["ratios_high"][1]


def test_shared_prices_cancel() -> None:
    assert ends(priced((1, 2, 4)), priced((1.1, 2.2, 4.4))) == pytest.approx((1.1, 1.1))


def test_prices_of_different_tables_do_not_cancel() -> None:
    def other_table(data: Data) -> None:
        priced((1.1, 2.2, 4.4))(data)
        data["provenance"]["arch"]["energy"] = {"table": "another"}

    assert ends(priced((1, 2, 4)), other_table) == pytest.approx((1.1 / 4, 4.4))


def test_product_carries_the_ranges_of_energy_and_area() -> None:
    second = priced((1, 2, 8), (0.5, 1.0, 1.0))
    assert ends(priced((1, 2, 4)), second, "energy_delay_area_js_mm2") == pytest.approx((0.5, 2.0))
    assert ends(priced((1, 2, 4)), second, "cycles") == (1, 1)


def test_difference_within_the_ranges_is_marked_and_said() -> None:
    open_text = compared(changed(priced((1, 2, 4))), changed(priced((0.5, 2.2, 8)))).text()
    assert line_of(open_text, "energy, ").endswith("1.10x~")
    assert "~ the ranges of the sources leave open which of the two is lower" in open_text
    assert "which is better for its area is open." in " ".join(open_text.split())
    clear = compared(changed(priced((1, 2, 4))), changed(priced((1.1, 2.2, 4.4)))).text()
    assert "~" not in clear
    assert "so it is worse for its area." in " ".join(clear.split())


def test_ratio_whose_range_is_not_known_is_open() -> None:
    text = compared(changed(priced((0, 2, 4))), changed(priced((0, 3, 4)))).text()
    assert line_of(text, "energy, ").endswith("1.50x~")


# Unknown values


def test_unknown_area_is_a_dash_and_says_why() -> None:
    def unpriced(data: Data) -> None:
        zero = dict.fromkeys(("low", "nominal", "high"), 0)
        data["provenance"]["arch"]["area"]["overrides"]["scratchpad_mm2_per_kib"] = zero

    comparison = compared(changed(), changed(unpriced))
    for total in ("area_mm2", "energy_delay_area_js_mm2"):
        found = comparison.data["totals"][total]
        assert (found["values"][1], found["ratios"][1], found["ratios_low"][1], found["best"]) == (None, None, None, [])
    text = comparison.text()
    assert line_of(text, "area, mm2").split()[-2:] == ["-", "-"]
    assert line_of(text, "  x area").split()[-2:] == ["-", "-"]
    assert "area of B is not known: scratchpad_mm2_per_kib set to 0" in text
    assert "energy-delay-area is not known" in " ".join(text.split())


def test_result_without_energy_shows_dashes() -> None:
    def nothing(data: Data) -> None:
        for key in ENERGIES:
            data[key] = {}
        data["average_power_w"]["nominal"] = None

    text = compared(changed(nothing), changed(slower)).text()
    for label in ("energy, ", "power, ", "energy-delay, ", "  x area"):
        assert re.search(r" - +\d\S* +-$", line_of(text, label)), label
    assert " the energy" not in text


def test_run_without_time_has_no_ratio() -> None:
    def idle(data: Data) -> None:
        data["total"] |= {"cycles": 0, "seconds": 0.0, "utilization": 0.0}

    comparison = compared(changed(idle), changed())
    assert comparison.data["totals"]["cycles"]["ratios"] == [None, None]
    assert "B cannot be timed against A" in comparison.text()


# Text


def test_text_is_short_and_fits(crowd: Comparison) -> None:
    for width in (80, 120):
        lines = crowd.text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert all(line == line.rstrip() for line in lines)
        assert "…" not in "".join(lines)
    assert len(crowd.data["subjects"]) > 2 or len(crowd.text().splitlines()) <= MAX_LINES


def test_every_subject_has_its_column_and_its_conclusion(crowd: Comparison) -> None:
    for letter in "BCDEFGH"[: len(crowd.data["subjects"]) - 1]:
        assert re.search(rf"^ +A .* {letter} +{letter}/A", crowd.text(), re.MULTILINE)
        assert re.search(rf"^{letter} is .* than A |^{letter} is as fast as A ", crowd.text(), re.MULTILINE)


def test_terminal_pipe_and_text_show_the_same(crowd: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    crowd.show(Console(file=out, force_terminal=True, width=80))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    crowd.show()
    piped = capsys.readouterr().out
    assert [line.rstrip() for line in plain.splitlines()] == piped.splitlines() == crowd.text().splitlines()
    assert piped.isascii()


def test_shown_sections_add_up_to_the_whole() -> None:
    """What is folded into the others is not lost."""
    results = [crowded_result().to_dict(), crowded_result().to_dict()]
    results[1]["by_kind"][3]["cycles"] += 1000
    lines = compared(*results).text().splitlines()
    start = lines.index("Operators, cycles")
    rows = [
        [int(cell.replace(",", "")) for cell in re.findall(r"[\d,]{5,}", row)] for row in lines[start + 1 : start + 5]
    ]
    for column, data in enumerate(results):
        assert sum(row[column] for row in rows) == sum(row["cycles"] for row in data["by_kind"])


def test_most_changed_comes_first_and_the_rest_is_folded() -> None:
    results = [crowded_result().to_dict(), crowded_result().to_dict()]
    for row, more in zip(results[1]["by_kind"], (10, 40, 0, 30, 20), strict=False):
        row["cycles"] += more
    kinds = [row["kind"] for row in results[0]["by_kind"]]
    text = compared(*results).text()
    assert block(text, "Operators, cycles") == [kinds[1], kinds[3], kinds[4], f"{len(kinds) - 3} others"]


def test_equal_values_are_told_from_close_ones() -> None:
    def little_slower(data: Data) -> None:
        data["total"]["cycles"] += 1

    text = compared(changed(), changed(little_slower)).text()
    assert line_of(text, "cycles").endswith(" 1.00x")
    assert line_of(text, "time").endswith(" =")


def test_equal_subjects_are_said_to_be_equal() -> None:
    text = compared(changed(), changed()).text()
    assert "nothing: machines and options are the same" in text
    assert "B is as fast as A for the same area and the same energy" in text
    assert "*" not in text


def test_conclusion_answers_whether_the_area_pays() -> None:
    faster = compared(changed(priced((2, 2, 2))), changed(priced((1, 1, 1), (1.5, 1.5, 1.5)))).text()
    expected = "B is as fast as A for 1.50x the area and 0.50x the energy: energy-delay 0.50x, energy-delay-area 0.75x"
    assert f"{expected}, so it is better for its area." in " ".join(faster.split())
    assert "B is 2.00x slower than A" in compared(changed(), changed(slower)).text()
    assert "B is 2.00x faster than A" in compared(changed(slower), changed()).text()


def test_different_work_is_said_and_not_judged() -> None:
    def longer(data: Data) -> None:
        data["provenance"]["trace"] |= {"sha256": "1" * 64, "name": "another"}

    comparison = compared(changed(), changed(longer))
    assert comparison.data["same_work"] is False
    assert DIFFERENT_WORK in comparison.text()
    assert "another on test machine" in comparison.text()
    assert "better for its area" not in comparison.text()
    assert compared(changed(), changed(lanes)).data["same_work"] is True
    layers = changed(lambda data: data["provenance"]["arguments"].update(layers="0:1"))
    assert compared(changed(), layers).data["same_work"] is False


def test_markup_and_control_characters_of_names_are_printed_literally() -> None:
    def named(data: Data) -> None:
        data["provenance"]["arch"] |= {"name": "[red]x", "odd[bold]": "[/nothing]\x1b[31m"}
        data["provenance"]["trace"]["name"] = "[blue]t"
        data["by_kind"][0] |= {"kind": "[green]k"}

    text = compared(changed(named), changed(named, slower), changed(), names=["[red]x", "a\nb", "c"]).text()
    for literal in ("A  [red]x", r"B  a\nb", "[blue]t on [red]x", "odd[bold]", r"[/nothing]\x1b", "[green]k"):
        assert literal in text, literal


# What cannot be compared


def test_names_come_from_files_and_machines(tmp_path: Any) -> None:
    path = tmp_path / "after.json"
    path.write_text(small_result().to_json())
    subjects = accelsim.compare([small_result(), path, str(path), changed()]).data["subjects"]
    assert [subject["name"] for subject in subjects] == ["test machine", "after.json", "after.json", "test machine"]


@pytest.mark.parametrize(
    ("results", "names", "message"),
    [
        ([changed()], None, "nothing to compare with"),
        ([], None, "nothing to compare with"),
        ([changed(), changed()], ["one"], "2 results need as many names"),
        ([changed(), 7], None, r"results\[1\]: not a Result; got 7"),
        ([changed(), {"format": "accelsim-result/9"}], None, r"results\[1\]: a Result of another version.*/9"),
        ([changed(), "missing.json"], None, "missing.json: cannot be read"),
    ],
)
def test_what_is_no_result_is_refused(results: list[Any], names: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        accelsim.compare(results, names)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.update(total={}),
        lambda data: data["total"].update(cycles="many"),
        lambda data: data["total"].update(seconds=float("nan")),
        lambda data: data["energy_low_pj"].clear(),
        lambda data: data.update(units=[]),
        lambda data: data["by_kind"].append(3),
        lambda data: data["provenance"].update(arch=None),
        lambda data: data["provenance"]["arch"].update(name=3),
        lambda data: data["provenance"].pop("arguments"),
    ],
)
def test_damaged_result_is_refused_by_name(damage: Change) -> None:
    with pytest.raises(InputError, match=r"mine: the Result is damaged .*; simulate again"):
        compared(changed(), changed(damage), names=["fine", "mine"])


def test_result_is_not_changed_and_to_dict_is_a_copy() -> None:
    result = small_result()
    before = result.to_json()
    comparison = accelsim.compare([result, Result(changed(lanes))])
    comparison.to_dict()["subjects"].clear()
    assert len(comparison.data["subjects"]) == 2
    assert result.to_json() == before
