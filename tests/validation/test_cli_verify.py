"""`accelsim verify`: what it prints, writes and returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.cli import run
from accelsim.hardware import scratchpad
from accelsim.validation import figures, registry

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scratchpad whose conflicts take a cycle too few."""
    right = scratchpad.conflict_cycles
    monkeypatch.setattr(scratchpad, "conflict_cycles", lambda *sizes: right(*sizes) - 1)


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let `accelsim verify` know these parts alone."""
    for name in set(registry.PARTS) - set(names):
        monkeypatch.delitem(registry.PARTS, name)


def test_part_prints_its_sets_and_writes_nothing(folder: Path, capsys: Capture) -> None:
    assert run(["verify", "scratchpad", "--fast"]) == 0
    text = capsys.readouterr().out
    assert "walk over a strided stream " in text
    assert text.endswith("All 130 values are within their tolerance.\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--fast", "-o", "page", "scratchpad"], ["scratchpad", "--fast", "--output", "page"]], ids=" ".join
)
def test_options_stand_before_or_after_the_part(folder: Path, arguments: list[str]) -> None:
    assert run(["verify", *arguments]) == 0
    assert "A fast run" in (folder / "page" / "README.md").read_text()
    assert {path.name for path in (folder / "page").iterdir()} == {"README.md", "scratchpad.csv", "scratchpad.png"}


def test_all_parts_are_written_to_reports_validation(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "scratchpad", "sram")
    assert run(["verify", "--fast"]) == 0
    assert "reports/validation/README.md is the page" in capsys.readouterr().out
    assert {path.stem for path in (folder / "reports" / "validation").iterdir()} == {"README", "scratchpad", "sram"}


@pytest.mark.usefixtures("broken")
def test_broken_model_fails_with_the_values_and_still_writes_the_page(folder: Path, capsys: Capture) -> None:
    assert run(["verify", "scratchpad", "--fast", "-o", "page"]) == 1
    stdout, stderr = capsys.readouterr()
    assert "OUTSIDE: 65" in stdout
    assert "walk over a strided stream: 128 banks" in (folder / "page" / "scratchpad.csv").read_text().replace(
        ",", ": "
    )
    assert stderr.count("walk over a strided stream: ") == 20
    assert stderr.endswith("and 45 more\n65 of 130 values are outside their tolerance.\n")
    assert "OUTSIDE: 65" in (folder / "page" / "README.md").read_text()


def test_without_matplotlib_it_says_how_to_get_figures(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "can_draw", lambda: False)
    assert run(["verify", "scratchpad", "--fast", "-o", "page"]) == 0
    assert 'pip install "accelsim[plot]"' in capsys.readouterr().err
    assert not list((folder / "page").glob("*.png"))


def test_folder_that_cannot_be_written_is_refused_before_any_work(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setattr(registry, "check", lambda *a: pytest.fail("ran"))
    for arguments in (["verify", "-o", "file"], ["verify", "dram", "-o", "file/page"], ["verify", "--output", "-"]):
        assert run(arguments) == 2
        stdout, stderr = capsys.readouterr()
        assert stdout == ""
        assert stderr.startswith("accelsim: ")
        assert stderr.count("\n") == 1


def test_unknown_part_is_refused(capsys: Capture) -> None:
    assert run(["verify", "dam"]) == 2
    assert "dam" in capsys.readouterr().err


def test_engines_write_their_programs_to_a_page(folder: Path, capsys: Capture) -> None:
    assert run(["verify", "engines", "--fast", "--count", "3", "-o", "page"]) == 0
    assert capsys.readouterr().out.endswith("The engines agree on all 4 Programs.\n")
    assert (folder / "page" / "engines.csv").read_text().count(",equal,equal,0,0\n") == 4
