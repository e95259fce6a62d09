"""What the fuzzer has found, each shrunk to the least that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from tests.cases.machines import Capture, refusal


def test_an_unprintable_name_of_a_matmul_is_shown_with_its_line(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(b"fc1,1,2,3\na\x00b,1,2,3\n")
    message = refusal(capsys, "gemm", "--csv", str(path))
    assert f"{path}:2: column name; got 'a\\x00b'" in message


@pytest.mark.parametrize(("initial", "final"), [("dram", "on_chip"), ("on_chip", "dram")])
def test_a_tensor_that_nobody_writes_cannot_move(initial: str, final: str) -> None:
    """It used to lie on chip from the start, read for nothing."""
    builder = TraceBuilder("moved")
    x = builder.tensor("x", (4, 8), "int8", "input", initial=initial, final=final)
    builder.op("relu", [x], [builder.tensor("y", (4, 8), "int8")])
    with pytest.raises(InputError, match=f"tensor 0 'x': final must be left out or {initial}.*got '{final}'"):
        builder.build()


def test_a_trace_of_too_long_a_name_is_no_such_trace(capsys: Capture) -> None:
    assert "--trace: no such trace; got 'xxx" in refusal(capsys, "show", "trace", "x" * 5000)
