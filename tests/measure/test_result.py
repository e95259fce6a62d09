"""The Result as data: canonical JSON, round trip, schema, and an entry in the registry for every key."""

import json
import math
from pathlib import Path

import jsonschema
import pytest

from accelsim.errors import InputError, InternalError
from accelsim.measure.metrics import explain, find_metrics, list_metrics, metric_of, sections
from accelsim.measure.reference import comparison_schema_text, metrics_page, schema_text
from accelsim.measure.result import Result, measure
from accelsim.measure.schema import result_schema
from tests.measure.programs import machine, matmul_trace, provenance, worked_example

DOCS = Path(__file__).parents[2] / "docs"


def measured(**more):
    program, timeline = worked_example()
    return measure(program, timeline, machine(), matmul_trace(), provenance(**more))


@pytest.fixture(scope="module")
def result():
    return measured()


def paths_of(value, path=()):
    """The path of every key in nested data, list rows as "[]"."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_of(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from paths_of(inner, (*path, "[]"))


def test_every_key_has_an_entry_in_the_registry(result):
    for path in paths_of(result.to_dict()):
        assert metric_of(path).meaning.endswith(".")


def test_a_key_without_an_entry_is_found():
    with pytest.raises(InternalError, match=r"total\.surprise has no entry"):
        metric_of(("total", "surprise"))


def test_entries_are_whole_and_unique():
    metrics = list_metrics()
    assert len({metric.name for metric in metrics}) == len(metrics) > 100
    assert all(metric.unit and metric.formula and metric.meaning for metric in metrics)


def test_sections_stand_in_the_order_of_the_result(result):
    assert sections() == tuple(result.to_dict())


def test_result_obeys_its_schema(result):
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(result.to_dict())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data["total"].pop("cycles"),
        lambda data: data["total"].update(surprise=1),
        lambda data: data["total"].update(cycles=-1),
        lambda data: data["units"]["core0.vector"]["stalls"].update(boredom=1),
        lambda data: data["operators"][0].update(layer="first"),
        lambda data: data.update(format="accelsim-result/2"),
    ],
)
def test_schema_refuses_what_is_no_result(result, damage):
    data = result.to_dict()
    damage(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(result_schema()).validate(data)


def test_committed_reference_and_schema_are_up_to_date():
    remedy = "run `python -m accelsim.measure.reference`"
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == metrics_page(), remedy
    assert (DOCS / "schema" / "result.schema.json").read_text(encoding="utf-8") == schema_text(), remedy
    assert (DOCS / "schema" / "compare.schema.json").read_text(encoding="utf-8") == comparison_schema_text(), remedy


def test_json_round_trip_gives_the_same_bytes(result, tmp_path):
    file = tmp_path / "result.json"
    file.write_text(result.to_json(), encoding="utf-8")
    again = Result.from_file(file)
    assert again == result
    assert again.to_json() == result.to_json() == measured().to_json()


def test_order_of_provenance_keys_changes_nothing(result):
    backwards = dict(reversed(provenance()["arch"].items()))
    assert measured(arch=backwards).to_json() == result.to_json()


def test_infinite_rates_of_the_machine_are_written_as_yaml_does():
    text = measured(arch={"accumulator": {"drain_elements_per_cycle": math.inf}}).to_json()
    assert json.loads(text)["provenance"]["arch"]["accumulator"]["drain_elements_per_cycle"] == ".inf"


def test_a_copy_leaves_the_result_alone(result):
    result.to_dict()["total"]["cycles"] = 0
    result.operators[0]["cycles"] = 0
    assert result.cycles == result.operators[0]["cycles"] == 2403


def test_short_forms(result):
    assert (result.seconds, result.dram_bytes) == (2403 / 1e9, 131072)
    assert result.energy_pj == pytest.approx(result.operators[0]["energy_pj"])
    assert repr(result).startswith("<Result: 2,403 cycles, utilization 21.3%")


def test_program_says_which_choices_were_in_force(result):
    program = result.to_dict()["program"]
    assert (program["tasks"], program["edges"], program["units"]) == (11, 10, 6)
    assert (program["fusion"], program["residency"]) == ("elementwise", True)
    assert program["tiles"][0]["tile"] == [256, 128, 128]


def test_notebook_table_is_plain_and_escaped(result):
    html = result._repr_html_()
    assert "<td>2,403</td>" in html
    assert html.count("<table>") == html.count("</table>") == 2
    odd = result.to_dict()
    odd["by_kind"][0]["kind"] = "<script>"
    assert "<script>" not in Result.from_dict(odd)._repr_html_()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"damaged.json: is not JSON \(line 1, column 2\); give a file"),
        ("[" * 100_000, "is not a Result; give a file"),
        ("[]", "not a Result: it has no `format`"),
        ('{"format": "accelsim-result/9"}', "got 'accelsim-result/9'"),
        ('{"format": "accelsim-result/1"}', "has no 'provenance'"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path, text, message):
    file = tmp_path / "damaged.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        Result.from_file(file)


def test_explain_puts_the_runs_numbers_into_the_formula(result):
    text = explain("utilization", result)
    assert text.splitlines()[0] == "total.utilization"
    assert "total.macs / (total.peak_macs_per_cycle x total.cycles)" in text
    assert "8388608 / (16384 x 2403) = 0.213067" in text
    assert "operators[].utilization" in text


def test_explain_without_a_run_has_no_numbers():
    assert "this run" not in explain("total.cycles")


def test_explain_takes_the_units_own_name(result):
    assert "dram_read 868, array 128" in explain("units.core0.array0.stream.stalls", result)
    assert "2403 - 512 - 996 - 254 = 641" in explain("units.core0.array0.stream.idle", result)


def test_explain_shows_the_largest_of_many(result):
    text = explain("units.*.tail", result)
    assert text.endswith("254  (units.core0.array0.stream.tail: the largest of 6)")


def test_explain_a_part_that_this_run_has_not(result):
    assert "0 (not in this run)" in explain("near_memory", result)


def test_explain_every_metric(result):
    for metric in list_metrics():
        assert "this run" in explain(metric.name, result)


@pytest.mark.parametrize(("name", "nearest"), [("utilisation", "total.utilization"), ("cycels", "total.cycles")])
def test_unknown_metric_names_the_nearest(name, nearest):
    with pytest.raises(InputError, match=rf"unknown metric.*{name}.*{nearest}"):
        find_metrics(name)


@pytest.mark.parametrize("name", ["", ".", "[]", "qqqqq"])
def test_no_metric_at_all(name):
    with pytest.raises(InputError, match="unknown metric"):
        find_metrics(name)
