"""What the fuzzer has found, each shrunk to the least that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import accelsim
from accelsim.arch.spec import Arch
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder, gemm_trace
from tests.cases.machines import Capture, refusal
from tests.compile.machines import entry


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


def unlimited(**keys: object) -> Arch:
    """A machine that takes any matmul as one tile."""
    buffers = {"scratchpad.capacity_kib": 1e12, "accumulator.capacity_kib": 1e12}
    return accelsim.load_arch("scalesim_like", buffers | {key.replace("__", "."): value for key, value in keys.items()})


def test_a_run_of_more_cycles_than_64_bits_count_is_refused() -> None:
    """8 GiB at 1e-9 bytes a cycle."""
    slow = unlimited(dram__model="bandwidth", dram__bandwidth_gbps=1e-6, clock_mhz=1e6)
    with pytest.raises(InputError, match=r"^gemm_65536x131072x8: the run may last 8.59e\+18 cycles, beyond 64-bit"):
        accelsim.gemm(slow, 65536, 131072, 8)


def test_a_tile_of_more_cycles_than_64_bits_count_is_refused() -> None:
    """2^48 MACs, each of which takes a million cycles."""
    slow = unlimited(array__rows=1, array__cols=1, array__rate__int8="1/1000000")
    with pytest.raises(InputError, match=r"^operator 0: a tile of matmul 'gemm' has counts beyond 64-bit integers"):
        accelsim.simulate(slow, gemm_trace(2**20, 2**14, 2**14), mapping=entry((2**20, 2**14, 2**14)))
