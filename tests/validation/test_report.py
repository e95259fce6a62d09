"""The page, the tables and the figures; and the page in the repository."""

from __future__ import annotations

import csv
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from accelsim.api import load_trace
from accelsim.arch import list_archs, load_arch
from accelsim.errors import InputError
from accelsim.trace.find import list_traces
from accelsim.validation import figures
from accelsim.validation.intervals import draw_intervals
from accelsim.validation.model import Checked, Part, ReferenceSet, Row
from accelsim.validation.page import SHOWN_OUTSIDE
from accelsim.validation.registry import PARTS
from accelsim.validation.report import prepare, write_report
from accelsim.validation.strips import draw_strips
from accelsim.validation.words import markdown_table

COMMITTED = Path(__file__).parents[2] / "reports" / "validation"
in_checkout = pytest.mark.skipif(not COMMITTED.exists(), reason="needs a source checkout")

PEER = ReferenceSet("peer: small", "peer", "same settings")


def part(rows: list[Row]) -> Checked:
    made = Part(
        "array", "What with what.", "Nowhere.", "the rest", lambda fast, progress: iter(rows), {"cycles": "time"}
    )
    return Checked(made, rows)


def rows(count: int = 3, off: int = 0) -> list[Row]:
    return [Row(PEER, f"case | {number}", "cycles", number, number + off) for number in range(1, count + 1)]


def test_report_names_every_row_and_file(tmp_path: Path) -> None:
    names = write_report(prepare(tmp_path / "new" / "folder"), [part(rows())], fast=False)
    assert names == ["array.csv", "array.png", "README.md"]
    text = (tmp_path / "new" / "folder" / "README.md").read_text()
    assert re.search(r"^\| peer: small \| 3 \| 3 \| 0 \| 0 \| 0 \|  \| exact \| same settings \|$", text, re.M)
    assert "](array.png)" in text
    assert "What with what." in text
    assert "`accelsim verify array`" in text
    with (tmp_path / "new" / "folder" / "array.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["case"], row["reference"], row["ours"], row["error"]) for row in table][2] == (
        "case | 3",
        "3",
        "3",
        "0",
    )


def test_spread_has_columns_of_its_own_and_a_figure(tmp_path: Path) -> None:
    wide = Row(PEER, "MAC; inside; a paper: page 3", "energy_pj", 0.3, 0.2, None, spread=(0.1, 1.0), agrees=True)
    checked = replace(
        part([wide]), part=replace(part([]).part, plotted={}, draw=draw_intervals, table=lambda rows: "a table")
    )
    assert write_report(prepare(tmp_path), [checked], fast=False) == ["array.csv", "array.png", "README.md"]
    (line,) = csv.DictReader((tmp_path / "array.csv").open(newline=""))
    assert (line["ours_low"], line["ours_high"], line["agrees"], line["allowed_error"]) == ("0.1", "1", "true", "")
    assert "\n\na table\n\n![array, drawn](array.png)" in (tmp_path / "README.md").read_text()


def test_strips_take_lines_that_differ_in_their_kinds() -> None:
    def draw(drawing: Figure, rows: Sequence[Row]) -> None:
        draw_strips(drawing, {"one": {"a": {"x": [1.0, 2.0]}, "b": {"y": [3.0]}}, "two": {"c": {"x": [4.0]}}}, "share")

    picture = figures.figure(replace(part(rows()), part=replace(part([]).part, draw=draw)))
    assert picture.startswith(b"\x89PNG")


def test_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_report(prepare(tmp_path / folder), [part(rows(40, off=1))], fast=False)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_page_shows_what_is_outside_and_how_much_more_there_is(tmp_path: Path) -> None:
    write_report(prepare(tmp_path), [part(rows(SHOWN_OUTSIDE + 5, off=1))], fast=False)
    text = (tmp_path / "README.md").read_text()
    assert f"{SHOWN_OUTSIDE + 5} outside" in text
    assert "- peer: small: case | 1, cycles: reference 1, ours 2 (100 %)" in text
    assert text.count("\n- peer: small") == SHOWN_OUTSIDE
    assert "- and 5 more" in text


def test_fast_page_says_what_it_leaves_out(tmp_path: Path) -> None:
    write_report(prepare(tmp_path), [part(rows())], fast=True)
    assert "**A fast run.** Left out: array: the rest." in (tmp_path / "README.md").read_text()


def test_without_matplotlib_there_are_tables_and_no_broken_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "can_draw", lambda: False)
    assert write_report(prepare(tmp_path), [part(rows())], fast=False) == ["array.csv", "README.md"]
    assert "png" not in (tmp_path / "README.md").read_text()


def test_figure_is_a_picture_and_takes_values_that_have_no_place_on_it() -> None:
    odd = [
        Row(PEER, "none", "cycles", 0, 0),
        Row(PEER, "new", "cycles", 0, 5),
        Row(PEER, "word", "cycles", 5.0, "no reads"),
        Row(PEER, "word", "product", "equal", "equal"),
    ]
    for some in (rows(5) + odd, odd[:1]):
        picture = figures.figure(part(some))
        assert picture.startswith(b"\x89PNG")
        assert struct.unpack(">I", picture[16:20])[0] >= 800


def test_folder_that_cannot_be_made_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        prepare(tmp_path / "file" / "folder")
    with pytest.raises(InputError, match="cannot be made"):
        prepare(tmp_path / "file")
    (tmp_path / "folder" / "README.md").mkdir(parents=True)
    with pytest.raises(InputError, match="is a folder"):
        prepare(tmp_path / "folder")


def test_cell_cannot_break_the_table() -> None:
    assert markdown_table(("a", "b"), "lr", [("x|y", "1")]).splitlines() == [
        "| a | b |",
        "| --- | ---: |",
        r"| x\|y | 1 |",
    ]


@in_checkout
def test_committed_page_has_every_part_with_its_table_and_passes() -> None:
    text = (COMMITTED / "README.md").read_text()
    assert "A fast run" not in text, "accelsim verify without --fast makes this page"
    for name, title in PARTS.items():
        assert f"\n## {name}\n\n{title}\n" in text
        assert (COMMITTED / f"{name}.csv").read_text().startswith("reference_set,case,quantity,reference,ours,error")
    assert "OUTSIDE" not in text.replace("`OUTSIDE`: the model has failed", "")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (COMMITTED / link).is_file(), link
    with (COMMITTED / "pattern.csv").open(newline="") as file:
        cases = [(row["reference_set"], row["case"]) for row in csv.DictReader(file)]
    machines = [arch for arch in map(load_arch, list_archs()) if arch.dram.by_command]
    precisions = [load_trace(name).run["precision"] for name in list_traces()]
    runs = sum(precision in arch.array.rate for arch in machines for precision in precisions)
    assert len({case for case in cases if case[0].endswith(": pattern")}) == runs
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) < 2_000_000
