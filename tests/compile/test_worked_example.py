"""The engines' worked example, made by the compiler: a 256 x 128 x 256 int8 matmul as two N tiles."""

from __future__ import annotations

import numpy as np

from accelsim.compile.program import TASK_KINDS
from accelsim.engine import ENGINES, run
from accelsim.trace.builder import gemm_trace
from tests.compile.machines import mapped, shipped_arch
from tests.engine.programs import worked_example

ARCH = shipped_arch(
    "tpu_like", dram__model="bandwidth", dram__bandwidth_gbps=64, dram__latency_ns=100, dma__issue_cycles=0
)


def test_compiler_gives_the_worked_example_in_another_numbering() -> None:
    """The same tasks with the same times; the compiler numbers each tile's compute before the next tile's."""
    program, written = mapped(ARCH, gemm_trace(256, 256, 128), (256, 128, 128)), worked_example()
    assert program.size == written.size
    for engine in ENGINES:
        ours, theirs = run(program, engine), run(written, engine)
        assert ours.total == theirs.total == 2403
        for kind in range(len(TASK_KINDS)):
            chosen, same = program.kind == kind, written.kind == kind
            for name in ("start", "released", "done", "served"):
                assert np.array_equal(getattr(ours, name)[chosen], getattr(theirs, name)[same]), TASK_KINDS[kind]
    assert int(program.macs.sum()) == 256 * 256 * 128


def test_k_outermost_keeps_both_outputs_in_the_accumulator() -> None:
    """Both N tiles are unfinished until the last K tile: their drains come one after the other at the end."""
    program = mapped(ARCH, gemm_trace(256, 256, 256), (256, 128, 128), order=("k", "m", "n"))
    timeline = run(program)
    streams, drains = (np.flatnonzero(program.kind == TASK_KINDS.index(kind)) for kind in ("stream", "drain"))
    assert program.tile[streams].tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert program.tile[drains].tolist() == [[0, 0, 0, 1], [0, 0, 1, 1]]
    assert timeline.start[drains[0]] == timeline.start[streams[2]] + 254
    assert sorted(a.bytes for a in program.allocations if a.space == "accumulator") == [256 * 128 * 4] * 2
