"""`accelsim compare`: its figures are those of `accelsim simulate`, its refusals one message each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from accelsim import cli
from tests.cases.machines import TINY, Capture, command, json_of, refusal

MORE = "vector.lanes=256"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a.json and b.json, two machines on one trace; short.json, the first on one layer."""
    folder = tmp_path_factory.mktemp("results")
    for name, more in (("a", []), ("b", ["--set", MORE]), ("short", ["--layers", "0:1"])):
        arguments = ["simulate", "--trace", TINY, *more, "--json", str(folder / f"{name}.json")]
        assert cli.run(arguments) == 0
    return folder


def compared(capsys: Capture, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command(capsys, "compare", *arguments, "--json", "-"))
    return found


def test_machines_files_and_both_give_the_figures_of_simulate(capsys: Capture, files: Path) -> None:
    runs = [json_of(capsys, "simulate", "--trace", TINY, *more) for more in ([], ["--set", MORE])]
    machines = ("tpu_like", f"tpu_like,{MORE}")
    paths = (str(files / "a.json"), str(files / "b.json"))
    found = compared(capsys, *machines, "--trace", TINY)
    assert found["totals"]["cycles"]["values"] == [run["total"]["cycles"] for run in runs]
    assert found["totals"]["cycles"]["ratios"][1] == runs[1]["total"]["cycles"] / runs[0]["total"]["cycles"]
    assert found["totals"]["area_mm2"]["values"] == pytest.approx([sum(run["area_mm2"].values()) for run in runs])
    assert [(row["key"], row["values"]) for row in found["differences"]] == [("arch.vector.lanes", [1024, 256])]
    assert [subject["name"] for subject in found["subjects"]] == list(machines)
    for pair in (paths, (machines[0], paths[1])):
        trace = [] if pair == paths else ["--trace", TINY]
        again = compared(capsys, *pair, *trace)
        assert {**again, "subjects": []} == {**found, "subjects": []}


def test_options_reach_every_machine(capsys: Capture) -> None:
    options = ("--trace", TINY, "--layers", "0:1", "--fusion", "none", "--residency", "off")
    found = compared(capsys, "tpu_like", "edge_32", *options, "--set", "array.rows=64")
    for position, name in enumerate(("tpu_like", "edge_32")):
        run = json_of(capsys, "simulate", "--arch", name, *options, "--set", "array.rows=64")
        assert found["totals"]["cycles"]["values"][position] == run["total"]["cycles"]


def test_own_keys_win_over_those_for_all_and_may_hold_commas(capsys: Capture) -> None:
    arguments = ("tpu_like", "tpu_like,array.rows=32,vector.rate={exp: 1/2, tanh: 1/3}")
    found = compared(capsys, *arguments, "--set", "array.rows=64", "--trace", TINY, "--layers", "0:1")
    values = {row["key"]: row["values"] for row in found["differences"]}
    assert values["arch.array.rows"] == [64, 32]
    assert (values["arch.vector.rate.exp"][1], values["arch.vector.rate.tanh"][1]) == ("1/2", "1/3")


def test_report_is_short_and_the_file_holds_the_same(capsys: Capture, files: Path, tmp_path: Path) -> None:
    paths = [str(files / "a.json"), str(files / "b.json")]
    out = tmp_path / "out.json"
    lines = command(capsys, "compare", *paths, "--json", str(out)).splitlines()
    assert 20 < len(lines) <= 45
    assert max(map(len, lines)) <= 80
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data == compared(capsys, *paths)
    cycles = next(line for line in lines if line.startswith("cycles "))
    shown = [int(number.replace(",", "")) for number in re.findall(r"[\d,]{4,}", cycles)]
    assert shown == data["totals"]["cycles"]["values"]


def test_different_work_is_compared_with_a_warning(capsys: Capture, files: Path) -> None:
    assert cli.run(["compare", str(files / "a.json"), str(files / "short.json")]) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr.startswith("accelsim: warning: the runs did different work")
    assert "the runs did different work" in stdout
    assert "layers" in stdout


def test_a_machine_without_an_area_shows_none(capsys: Capture) -> None:
    text = command(capsys, "compare", "tpu_like", "scalesim_like", "--trace", TINY)
    area = next(line for line in text.splitlines() if line.startswith("area, mm2"))
    assert area.split()[-2:] == ["-", "-"]
    assert "area of B is not known" in text


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tpu_like"], ["nothing to compare with", "'tpu_like'"]),
        (["tpu_like", "tpu_lik"], ["tpu_lik", "did you mean tpu_like"]),
        (["tpu_like", "missing.json"], ["missing.json", "cannot be read"]),
        (["tpu_like", "old.json"], ["old.json", "a Result of another version", "accelsim-result/0"]),
        (["tpu_like", "text.json"], ["text.json", "is not JSON"]),
        (["tpu_like", "tpu_like,array.rows"], ["tpu_like,array.rows", "expected key=value"]),
        (["tpu_like", "tpu_like,array.row=8"], ["array.row", "array.rows"]),
        (["a.json", "a.json,array.rows=8"], ["a.json", "cannot be changed"]),
        (["a.json", "b.json", "--fusion", "none"], ["--fusion", "nothing is simulated"]),
        (["tpu_like", "tpu_v1", "--json", "no/such/x.json"], ["no/such/x.json"]),
        (["tpu_like", "-"], ["'-'", "name of a file"]),
        (["a.json", "b.json", "--json", "./b.json"], ["--json", "is read by this command"]),
        (["tpu_like", "own.yaml,array.rows=8", "--json", "own.yaml"], ["--json", "is read by this command"]),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(
    capsys: Capture, files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    def simulate(*arguments: object, **options: object) -> None:
        pytest.fail("the simulation began")

    (files / "old.json").write_text('{"format": "accelsim-result/0"}')
    (files / "text.json").write_text("no JSON")
    (files / "own.yaml").write_text("base: tpu_like.yaml")
    monkeypatch.setattr("accelsim.api.simulate", simulate)
    monkeypatch.chdir(files)
    message = refusal(capsys, "compare", *arguments)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "--arch", "own.yaml", "--json", "own.yaml"),
        ("simulate", "--mapping", "map.yaml", "--timeline", "map.yaml"),
        ("gemm", "--csv", "list.csv", "--json", "list.csv"),
        ("show", "program", "--mapping", "map.yaml", "--mapping-out", "map.yaml"),
    ],
)
def test_no_output_takes_the_place_of_what_is_read(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    contents = {"own.yaml": "base: tpu_like.yaml", "map.yaml": "[]", "list.csv": "name,M,N,K\nx,8,8,8\n"}
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    assert "is read by this command" in refusal(capsys, *words)
    assert contents == {name: (tmp_path / name).read_text() for name in contents}
