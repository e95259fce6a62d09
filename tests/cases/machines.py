"""Machines and matmuls that many cases share, and how a case asks the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

import accelsim
from accelsim.api import Result
from accelsim.arch.spec import Arch
from accelsim.cli import run

DATAFLOWS = ("ws", "os", "is")
IDEAL = {"dram.model": "ideal"}
MEMORY_CAUSES = {"dram_read", "dram_write", "dma_issue"}
TINY = "bert_tiny_fwd_b1_s128"
BASE = "bert_base_fwd_b1_s128"

Capture = pytest.CaptureFixture[str]


def array(rows: int, cols: int, dataflow: str = "ws", *, base: str = "tpu_like", **settings: object) -> Arch:
    """A shipped machine at 1 GHz with another array; `settings` are its keys with `__` for the dot."""
    sizes: dict[str, object] = {"array.rows": rows, "array.cols": cols, "array.dataflow": dataflow}
    return accelsim.load_arch(base, sizes | {key.replace("__", "."): value for key, value in settings.items()})


def gemm_on_ideal(rows: int, cols: int, dataflow: str, m: int, n: int, k: int) -> Result:
    """One matmul on a rows x cols array whose memory takes no time."""
    return accelsim.gemm(array(rows, cols, dataflow, dram__model="ideal"), m, n, k)


def ceiling(amount: int, rate: int) -> int:
    """Whole steps of `rate` that `amount` takes."""
    return -(-amount // rate)


def total_of(unit: dict[str, Any]) -> int:
    """All cycles of one row of `Result.units`."""
    return sum(unit["busy"].values()) + sum(unit["stalls"].values()) + int(unit["tail"]) + int(unit["idle"])


def command(capsys: Capture, *arguments: str) -> str:
    """Run a command that must succeed; what it prints on stdout."""
    code = run(list(arguments))
    stdout, stderr = capsys.readouterr()
    assert code == 0, stderr
    return stdout


def json_of(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """The Result that a command prints as JSON."""
    found: dict[str, Any] = json.loads(command(capsys, *arguments, "--json", "-"))
    return found


def refusal(capsys: Capture, *arguments: str) -> str:
    """Run a command that must be refused: exit code 2, nothing on stdout, one line on stderr; that line."""
    code = run(list(arguments))
    stdout, stderr = capsys.readouterr()
    assert (code, stdout) == (2, ""), stderr
    assert stderr.startswith("accelsim: "), stderr
    assert stderr.count("\n") == 1, stderr
    return stderr
