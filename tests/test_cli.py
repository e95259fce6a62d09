"""The command line: exit codes, what goes to stdout and stderr, and each command once."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accelsim import __version__, cli, cli_options
from accelsim.cli import accelsim, run
from accelsim.cli_progress import StderrProgress
from accelsim.errors import InternalError

TINY = "bert_tiny_fwd_b1_s128"
COMMANDS = [[name] for name in accelsim.commands] + [
    [group, name] for group in ("show", "verify", "export") for name in accelsim.commands[group].commands
]
Capture = pytest.CaptureFixture[str]


def output_of(capsys: Capture, *arguments: str, code: int = 0) -> str:
    """Run a command that must end with `code`; its stdout."""
    found = run(list(arguments))
    stdout, stderr = capsys.readouterr()
    assert found == code, stderr
    return stdout


def error_of(capsys: Capture, *arguments: str) -> str:
    """Run a command that must be refused with one message and an empty stdout; the message."""
    assert run(list(arguments)) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert "Traceback" not in stderr
    return stderr


def result_of(capsys: Capture, *arguments: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(output_of(capsys, *arguments, "--json", "-"))
    return result


# Help, usage and exit codes


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_command_has_help(capsys: Capture, command: list[str]) -> None:
    text = output_of(capsys, *command, "--help")
    assert text.startswith("Usage: accelsim")
    assert len(text.splitlines()) > 4


def test_version(capsys: Capture) -> None:
    assert output_of(capsys, "--version") == f"accelsim, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["simulat"], "simulate"),
        (["simulate", "--trac", "x"], "--trace"),
        (["simulate", "--fusion", "whole"], "elementwise"),
        (["simulate", "--residency", "maybe"], "off"),
        (["simulate", "--engine", "fast"], "reference"),
        (["list", "trains"], "traces"),
        (["schema", "program"], "result"),
        (["gemm"], "--csv"),
        (["gemm", "8", "8"], "M N K"),
        (["gemm", "0", "8", "8"], "x>=1"),
        (["gemm", "8", "x", "8"], "integer"),
        (["gemm", "8", "8", "8", "--csv", "x.csv"], "not both"),
        (["gemm", "--csv", "x.csv", "--batch", "2"], "column"),
        (["export", "bert"], "--output"),
    ],
)
def test_wrong_usage_gives_code_2_and_a_hint(capsys: Capture, arguments: list[str], hint: str) -> None:
    assert hint in error_of(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["simulate", "--arch", "tpu_lik"], ["tpu_lik", "did you mean tpu_like"]),
        (["simulate", "--set", "array.rows=-1"], ["array.rows", "-1"]),
        (["simulate", "--set", "array.rows"], ["--set", "array.rows"]),
        (["simulate", "--set", "array.rows=1", "--set", "array.rows=2"], ["twice"]),
        (["simulate", "--set", "array.row=8"], ["array.row", "array.rows"]),
        (["simulate", "--trace", "bert_tiny_fwd_b1_s12"], ["bert_tiny_fwd_b1_s12", TINY]),
        (["simulate", "--trace", TINY, "--layers", "0:99"], ["0:99", "0:2"]),
        (["simulate", "--trace", TINY, "--layers", "1"], ["'1'"]),
        (["simulate", "--trace", TINY, "--mapping", "missing.yaml"], ["missing.yaml"]),
        (["simulate", "--json", "no/such/folder/out.json"], ["no/such/folder/out.json"]),
        (["simulate", "--timeline", "."], ["is a folder"]),
        (["gemm", "8", "8", "8", "--dtype", "int9"], ["int9"]),
        (["gemm", "--csv", "missing.csv"], ["missing.csv"]),
        (["simulate", "--arch", "-"], ["--arch", "'-'", "name of a file"]),
        (["simulate", "--trace", "-"], ["--trace", "'-'", "name of a file"]),
        (["simulate", "--mapping", "-"], ["--mapping", "'-'", "name of a file"]),
        (["gemm", "--csv", "-"], ["--csv", "'-'", "name of a file"]),
        (["explain", "total.cycles", "--json", "-"], ["--json", "'-'", "name of a file"]),
        (["export", "bert", "-o", "-"], ["--output", "'-'", "name of a file"]),
        (["verify", "engines", "--arch", "tpu_like", "--arch", "-"], ["--arch", "'-'", "name of a file"]),
        (["show", "arch", "-"], ["'-'", "name of a file"]),
        (["show", "arch", "nothing"], ["nothing"]),
        (["show", "arch", "no\x1b[31m\nthing"], [r"no\x1b[31m\nthing"]),
        (["show", "trace", "nothing"], ["nothing"]),
        (["explain", "utilisation"], ["utilization"]),
        (
            ["explain", "utilization", "--json", "missing.json"],
            ["missing.json", "cannot be read (no such file", "wrote"],
        ),
        (["explain", "utilization", "--json", "."], ["cannot be read (is a directory)", "wrote"]),
        (["explain", "utilization", "--json", __file__], ["is not JSON (line 1, column", "wrote"]),
        (["export", "bert", "--model", "bert-bas", "-o", "x.jsonl.gz"], ["bert-bas", "bert-base"]),
        (["verify", "engines", "--count", "0", "--arch", "nothing"], ["nothing"]),
    ],
)
def test_bad_input_gives_code_2_and_one_line(capsys: Capture, arguments: list[str], parts: list[str]) -> None:
    message = error_of(capsys, *arguments)
    assert message.startswith("accelsim: ")
    assert message.count("\n") == 1
    assert all(part in message for part in parts), message


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("accelsim.arch.load_arch", fail)


def test_our_own_fault_gives_code_1_and_asks_for_a_report(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, InternalError("busy + stalls = 7, not 8"))
    assert run(["show", "arch", "tpu_like"]) == 1
    stderr = capsys.readouterr().err
    assert "busy + stalls = 7, not 8" in stderr
    assert "report it" in stderr
    assert "Traceback" not in stderr


def test_an_unexpected_error_is_ours_and_shows_where(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError("by zero"))
    assert run(["show", "arch", "tpu_like"]) == 1
    stderr = capsys.readouterr().err
    assert "Traceback" in stderr
    assert "report it" in stderr


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 1)])
def test_interrupt_and_lack_of_memory_are_told_briefly(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    fail_with(monkeypatch, error)
    assert run(["show", "arch", "tpu_like"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_exit_code_reaches_the_shell() -> None:
    done = subprocess.run([sys.executable, "-m", "accelsim", "show", "arch", "x"], capture_output=True, check=False)
    assert done.returncode == 2


# simulate and gemm


def test_report_of_one_layer_is_short_and_readable_in_a_pipe(capsys: Capture) -> None:
    text = output_of(capsys, "simulate", "--trace", TINY, "--layers", "0:1")
    assert 10 <= len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_json_is_pure_on_stdout_and_the_same_in_a_file(capsys: Capture, tmp_path: Path) -> None:
    arguments = ["simulate", "--trace", TINY, "--set", "array.rows=64"]
    stdout = output_of(capsys, *arguments, "--json", "-")
    output_of(capsys, *arguments, "--json", str(tmp_path / "a.json"), "--timeline", str(tmp_path / "b.json"))
    assert (tmp_path / "a.json").read_text() == stdout
    assert json.loads((tmp_path / "b.json").read_text())["traceEvents"]
    assert json.loads(stdout)["provenance"]["arch"]["array"]["rows"] == 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_result_obeys_the_printed_schema(capsys: Capture) -> None:
    schema = json.loads(output_of(capsys, "schema", "result"))
    jsonschema.validate(result_of(capsys, "simulate", "--trace", TINY), schema)


def test_options_reach_the_simulation(capsys: Capture) -> None:
    base = result_of(capsys, "simulate", "--trace", TINY)
    reference = result_of(capsys, "simulate", "--trace", TINY, "--engine", "reference")
    assert (base["provenance"].pop("engine"), reference["provenance"].pop("engine")) == ("compiled", "reference")
    assert base["total"] == reference["total"]
    assert base["operators"] == reference["operators"]
    for change in (["--fusion", "none"], ["--residency", "off"], ["--layers", "0:1"], ["--arch", "gemmini_16"]):
        assert result_of(capsys, "simulate", "--trace", TINY, *change)["total"]["cycles"] != base["total"]["cycles"]


def test_unwritable_output_is_found_before_the_simulation(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(*arguments: object, **options: object) -> None:
        pytest.fail("the simulation began")

    monkeypatch.setattr("accelsim.api.simulate", simulate)
    for option in ("--json", "--timeline"):
        assert "no/folder/x" in error_of(capsys, "simulate", "--trace", TINY, option, "no/folder/x")


def test_two_outputs_may_not_be_one_file(capsys: Capture, tmp_path: Path) -> None:
    path, same = str(tmp_path / "x.json"), f"{tmp_path}/./x.json"
    assert "--json and --timeline" in error_of(capsys, "simulate", "--json", path, "--timeline", same)


def test_gemm_takes_shape_batch_dtypes_and_residency(capsys: Capture) -> None:
    plain = result_of(capsys, "gemm", "128", "128", "64")
    assert plain["total"]["macs"] == 128 * 128 * 64
    assert plain["dram"]["read_bytes"] == 2 * 128 * 64
    assert plain["dram"]["write_bytes"] == 128 * 128
    assert result_of(capsys, "gemm", "128", "128", "64", "--batch", "12")["total"]["macs"] == 12_582_912
    assert result_of(capsys, "gemm", "128", "128", "64", "--resident", "b")["dram"]["read_bytes"] == 128 * 64
    assert result_of(capsys, "gemm", "128", "128", "64", "--out-dtype", "int32")["dram"]["write_bytes"] == 4 * 128 * 128
    assert result_of(capsys, "gemm", "128", "128", "64", "--dtype", "bf16")["dram"]["read_bytes"] == 4 * 128 * 64


def test_gemm_list_is_the_same_in_every_form(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_bytes(b"fc1,128,256,64\nfc2,64,128,256\n")
    first = result_of(capsys, "gemm", "--csv", str(tmp_path / "list.csv"))
    (tmp_path / "list.csv").write_bytes(
        b"\xef\xbb\xbfname, M, N, K,\r\n# two\r\n\r\nfc1, 128, 256, 64,\r\nfc2,64,128,256,\r\n"
    )
    assert result_of(capsys, "gemm", "--csv", str(tmp_path / "list.csv")) == first
    assert [row["name"] for row in first["operators"]] == ["fc1", "fc2"]
    assert [row["macs"] for row in first["operators"]] == [128 * 256 * 64, 64 * 128 * 256]


# list, show, explain, schema


def test_lists_name_what_there_is(capsys: Capture) -> None:
    assert "tpu_like " in output_of(capsys, "list", "arch")
    assert output_of(capsys, "list", "archs") == output_of(capsys, "list", "arch")
    assert re.search(rf"^{TINY} +bert\S* +1 +128 +int8 +inference +\d+$", output_of(capsys, "list", "traces"), re.M)
    assert re.search(r"^total\.cycles +cycles +\S", output_of(capsys, "list", "metrics"), re.M)


def test_show_arch_gives_values_units_and_what_is_unused(capsys: Capture) -> None:
    text = output_of(capsys, "show", "arch", "tpu_like", "--set", "array.rows=64", "--set", "dram.model=bandwidth")
    assert re.search(r"^array\.rows +64 +PEs", text, re.M)
    assert re.search(r"^dma\.outstanding .*\(unused: dram\.model bandwidth", text, re.M)
    assert re.search(r"^dram\.scheduler .*\(unused: dram\.model bandwidth", text, re.M)
    assert "unused: dram.model" not in output_of(capsys, "show", "arch", "tpu_like")


def test_show_trace_sums_up_or_lists_operators(capsys: Capture) -> None:
    macs = 2 * (128 * (4 * 128**2 + 2 * 128 * 512) + 2 * 128 * 128 * 128)
    text = output_of(capsys, "show", "trace", TINY, "--layers", "0:2")
    assert re.search(rf"^operators .*{macs:,} MACs$", text, re.M)
    assert re.search(rf"^matmul +16 +{macs:,} ", text, re.M)
    listed = output_of(capsys, "show", "trace", TINY, "--layers", "0:2", "--operators")
    assert len(re.findall(r"^ *\d+ +[01] +matmul ", listed, re.M)) == 16


def test_show_program_writes_a_mapping_that_gives_the_same_run(capsys: Capture, tmp_path: Path) -> None:
    path = str(tmp_path / "mapping.yaml")
    text = output_of(capsys, "show", "program", "--trace", TINY, "--mapping-out", path)
    assert re.search(r"computed with \d+", text)
    assert re.search(r"^ *id +layer +kind +tile +loops +dataflow +depth +bound +estimate +alone +of bound ", text, re.M)
    cycles = r"[\d,]+ +[\d,]+ +([\d,]+|-) +\d+\.\d\d +[\d,]+ "
    assert re.search(rf"matmul +\d+x\d+x\d+ +[mnk] [mnk] [mnk] {{2,}}ws +\d \d +{cycles}", text)
    free, given = (result_of(capsys, "simulate", "--trace", TINY, *more) for more in ([], ["--mapping", path]))
    assert given["total"] == free["total"]


@pytest.mark.parametrize(("mode", "told"), [("always", True), ("auto", False), ("off", False)])
def test_a_rule_that_finds_no_place_is_told(capsys: Capture, mode: str, told: bool) -> None:
    assert run(["simulate", "--trace", TINY, "--layers", "0:1", "--rule", f"optimizer={mode}"]) == 0
    warned = f"--rule optimizer={mode} found no place" in capsys.readouterr().err
    assert warned == told


def test_gemm_takes_a_mapping(capsys: Capture, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("- {operator: 0, tile: [16, 32, 64], order: [m, n, k]}\n")
    (row,) = result_of(capsys, "gemm", "32", "64", "128", "--mapping", str(mine))["program"]["tiles"]
    assert row["tile"] == [16, 32, 64]


def test_objective_and_number_of_candidates_are_taken_and_kept(capsys: Capture) -> None:
    how = ("--set=dram.model=bandwidth", "--optimize", "edp", "--refine", "0")
    arguments = result_of(capsys, "gemm", "30", "40", "50", *how)["provenance"]["arguments"]
    assert (arguments["optimize"], arguments["refine"]) == ("edp", 0)
    assert "ws" in output_of(capsys, "show", "program", "--trace", TINY, "--optimize", "energy", "--refine", "0")


def test_options_of_the_mapper_are_those_of_the_compiler() -> None:
    from accelsim import cli_options
    from accelsim.compile import score

    for name in ("OBJECTIVES", "REFINED", "MOST_REFINED"):
        assert getattr(cli_options, name) == getattr(score, name)


def test_explain_puts_the_runs_numbers_in(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    output_of(capsys, "simulate", "--trace", TINY, "--json", str(path))
    cycles = json.loads(path.read_text())["total"]["cycles"]
    assert str(cycles) in output_of(capsys, "explain", "total.cycles", "--json", str(path))
    assert str(cycles) not in output_of(capsys, "explain", "total.cycles")


@pytest.mark.parametrize("what", ["arch", "trace", "result", "compare"])
def test_schemas_are_valid(capsys: Capture, what: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(output_of(capsys, "schema", what)))


# verify, export


def test_verify_engines_agrees_and_says_on_what(capsys: Capture) -> None:
    arguments = ["verify", "engines", "--count", "5", "--arch", "tpu_like", "--layers", "0:1"]
    text = output_of(capsys, *arguments)
    assert re.search(rf"^{TINY} on tpu_like: [\d,]+ tasks, .* equal$", text, re.M)
    assert text.endswith("The engines agree on all 6 Programs.\n")


def test_verify_engines_fails_when_they_differ(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelsim.engine import random_programs

    monkeypatch.setattr(random_programs, "first_difference", lambda fast, slow: "task 3: start is 1, not 2")
    assert run(["verify", "engines", "--count", "1", "--arch", "tpu_like", "--layers", "0:1"]) == 1
    assert "task 3: start is 1, not 2" in capsys.readouterr().err


def test_export_without_the_extra_says_how_to_get_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "[export]" in error_of(capsys, "export", "bert", "-o", str(tmp_path / "x.jsonl.gz"))
    assert list(tmp_path.iterdir()) == []


def test_export_writes_the_shipped_trace_again(capsys: Capture, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="exporting needs the `export` extra")
    pytest.importorskip("transformers", reason="exporting needs the `export` extra")
    from accelsim.shipped import shipped

    path = tmp_path / "mine.jsonl.gz"
    assert "operators" in output_of(capsys, "export", "bert", "--model", "bert-tiny", "-o", str(path))
    with gzip.open(path) as mine, gzip.open(shipped("traces") / f"{TINY}.jsonl.gz") as theirs:
        assert mine.read().splitlines()[1:] == theirs.read().splitlines()[1:]


# Small parts


def test_choices_of_the_command_line_are_those_of_the_rooms() -> None:
    from accelsim.compile.rules import LEVELS
    from accelsim.engine import ENGINES

    assert tuple(LEVELS) == cli_options.FUSIONS
    assert ENGINES == cli_options.ENGINES


class Stream:
    """A stand-in for stderr that is, or is not, a terminal."""

    def __init__(self, is_terminal: bool):
        self.is_terminal = is_terminal
        self.text = ""

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_short_work_shows_no_progress() -> None:
    stream = Stream(is_terminal=False)
    with StderrProgress(stream, delay_seconds=60) as progress:
        progress("lowering")
    assert stream.text == ""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_work_shows_what_it_does(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Stream(is_terminal)
    with StderrProgress(stream, delay_seconds=0) as progress:
        progress._timer.join()
        progress("lowering")
        progress("running", 1, 2)
    assert "running" in stream.text  # the bar is drawn ten times a second and may miss a shorter stage
    assert is_terminal == ("\x1b" in stream.text) != ("lowering\nrunning\n" in stream.text)


def test_main_exits_with_the_code(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["show", "arch", "nothing"])
    assert caught.value.code == 2
    assert "nothing" in capsys.readouterr().err
