"""What the fuzzer and the drawn laws have found in the compiler and the readers, each shrunk to the least."""

from __future__ import annotations

import json
from pathlib import Path

from accelsim.compile import compile_program
from accelsim.compile.program import LOAD, VECTOR
from accelsim.engine import run
from accelsim.trace.builder import TraceBuilder, gemm_trace
from tests.cases.machines import Capture, refusal
from tests.compile.checker import check
from tests.compile.machines import entry, small


def test_gamma_of_a_square_layernorm_is_whole_for_each_tile() -> None:
    """As many rows as columns: gamma, one number a column, was taken for one number a row."""
    builder = TraceBuilder("square")
    x, gamma = builder.tensor("x", (16, 16), "bf16", "input"), builder.tensor("gamma", (16,), "fp32", "weight")
    builder.op("layernorm", [x, gamma], [builder.tensor("y", (16, 16), "bf16")], {"axis": -1, "eps": 1e-12})
    trace, arch = builder.build(), small(vector__lanes=2)
    program = compile_program(arch, trace)
    timeline = run(program)
    assert (program.kind == VECTOR).sum() > 3
    assert check(arch, trace, program, timeline) > 0
    fetched = program.request_bytes[(program.kind == LOAD) & (program.row_bytes == 16 * 4)]
    assert fetched.tolist() == [64]


def test_a_drain_without_limit_is_as_fast_as_its_rows_come() -> None:
    """At two steps a cycle two rows come a cycle; the drain's share of the scratchpad was that of one."""
    wide = {"scratchpad__banks": 4096, "scratchpad__bank_width_bytes": 64, "dram__model": "ideal"}
    times = []
    for drain in (300, ".inf"):
        arch = small(array__rate={"int8": 2}, accumulator__drain_elements_per_cycle=drain, **wide)
        program = compile_program(arch, gemm_trace(6, 33, 3), mapping=entry((2, 33, 3)))
        assert not program.breakdown[:, -1].any()  # nothing waits for so wide a scratchpad
        times.append(run(program).total)
    assert times[1] <= times[0]


def test_a_key_that_ends_with_a_bracket_is_an_unknown_key(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("base: tpu_like\nrows]: 8\n")
    assert f"{path}:2: unknown key rows]" in refusal(capsys, "show", "arch", str(path))


def test_a_result_of_another_version_is_named_by_its_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"format": "accelsim-result/9"}))
    assert f"{path}: a Result of another version" in refusal(capsys, "explain", "utilization", "--json", str(path))
