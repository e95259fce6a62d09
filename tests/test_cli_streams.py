"""The command line on streams that are closed, full or of another encoding, and names that are not plain text."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accelsim import cli
from accelsim.cli_table import print_table

BUFFERED = "from accelsim import cli\ncli.run = lambda arguments: print('not flushed') or 0\ncli.main()"


@pytest.mark.parametrize("arguments", [["-m", "accelsim", "list", "metrics"], ["-c", BUFFERED]], ids=["click", "print"])
def test_a_reader_that_stops_early_sees_no_error(arguments: list[str]) -> None:
    command, environment = [sys.executable, *arguments], {**os.environ, "PYTHONUNBUFFERED": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["-m", "accelsim", "list", "metrics"], ["-c", BUFFERED]], ids=["click", "print"])
def test_a_full_disk_is_told_in_one_line(arguments: list[str]) -> None:
    command, environment = [sys.executable, *arguments], {**os.environ, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "accelsim: the system refuses: No space left on device\n"


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `accelsim` with the rest of a shell's command line, in `folder`, where `machine.yaml` has an odd name."""
    name = '"Größe 漢 \\e[31m\\ud800"'
    (folder / "machine.yaml").write_text(f"base: tpu_like.yaml\nname: {name}\ndescription: {name}\n", encoding="utf-8")
    line = f"{shlex.quote(sys.executable)} -m accelsim {command}"
    root = str(Path(cli.__file__).parents[1])
    everything = {**os.environ, "PYTHONPATH": root, "PYTHONUNBUFFERED": "", **environment}
    return subprocess.run(line, shell=True, cwd=folder, env=everything, capture_output=True, text=True, check=False)


def complaints(stderr: str) -> list[str]:
    """Lines that are no progress, which a run tells when it takes over a second."""
    return [line for line in stderr.splitlines() if not re.match("compiling|running|measuring", line)]


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("command", ["list metrics 1>&-", "gemm 8 8 8 1>&-", "explain utilization 1>&- 2>&-"])
def test_closed_output_is_no_error(command: str, tmp_path: Path) -> None:
    done = shell(command, tmp_path)
    assert (done.returncode, complaints(done.stderr)) == (0, [])


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("command", ["show arch ./machine.yaml", "gemm 8 8 8 --arch ./machine.yaml"])
def test_name_that_stdout_cannot_write_is_escaped(command: str, encoding: str, tmp_path: Path) -> None:
    done = shell(f"{command} | cat -v", tmp_path, PYTHONIOENCODING=encoding)
    assert complaints(done.stderr) == []
    assert r"\x1b[31m\ud800" in done.stdout
    assert "^[" not in done.stdout
    as_escape = encoding == "latin-1" or (encoding == "ascii" and command.startswith("gemm"))  # click has no ascii
    assert (r" \u6f22 " in done.stdout) == as_escape


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_json_on_stdout_is_utf8_in_any_locale(tmp_path: Path) -> None:
    shell("gemm 8 8 8 --arch ./machine.yaml --json - > out.json", tmp_path, PYTHONIOENCODING="ascii")
    shell("gemm 8 8 8 --arch ./machine.yaml --json file.json", tmp_path)
    assert (tmp_path / "out.json").read_bytes() == (tmp_path / "file.json").read_bytes()
    assert json.loads((tmp_path / "out.json").read_bytes())["provenance"]["arch"]["name"] == "Größe 漢 \x1b[31m\ud800"


def test_table_cells_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "kind"), [("a\x1b[2J\nb", "matmul")])
    assert capsys.readouterr().out.splitlines()[1] == r"a\x1b[2J\nb  matmul"
