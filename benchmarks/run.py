"""Time whole simulations of BERT-Base and BERT-Large, stage by stage, against the speed budget of docs/design.md.

    python benchmarks/run.py [--quick]

Each row is measured in a fresh process whose kernels are compiled already, as they are from the second run on. `first`
is that process's first call of simulate(), which loads the kernels; `again` is the median of the next calls. Lowering
and engine are timed apart, on the same work. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from measured import print_markdown, run_measured

REPEATS = 5
LOWERING_TASKS_PER_SECOND = 0.5e6
ENGINE_TASKS_PER_SECOND = {"ideal": 20e6, "bandwidth": 5e6, "pattern": 5e6}  # `command` counts transactions: dram.py
PEAK_MB = 500
BERT_BASE_SECONDS = {"command": 1.5, "pattern": 0.3, "bandwidth": 0.15}  # whole forward pass at sequence length 128


@dataclass(frozen=True)
class Case:
    """One row: a trace on a machine with a DRAM model."""

    trace: str
    arch: str = "tpu_like"
    memory: str = "bandwidth"
    budget_seconds: float | None = None


CASES = (
    *(Case("bert_base_fwd_b1_s128", memory=memory, budget_seconds=most) for memory, most in BERT_BASE_SECONDS.items()),
    Case("bert_base_fwd_b1_s128", memory="ideal"),
    Case("bert_base_fwd_b1_s512"),
    Case("bert_large_fwd_b1_s128"),
    Case("bert_large_fwd_b1_s512"),
    Case("bert_large_fwd_b1_s512", memory="command"),
    Case("bert_base_fwd_b1_s128", arch="gemmini_16"),
    Case("bert_large_fwd_b1_s512", arch="gemmini_16"),
)
HEADER = ("case", "tasks", "lowering M tasks/s", "engine M tasks/s", "first s", "again s", "peak MB", "over budget")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time whole simulations against the budget.")
    parser.add_argument("--quick", action="store_true", help="only the first three rows")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(Case(**json.loads(arguments.case)))))
        return
    cases = CASES[:3] if arguments.quick else CASES
    print_markdown(HEADER, map(row, cases))


def row(case: Case) -> tuple[str, ...]:
    """The case run twice in processes of its own, the first time to compile the kernels."""
    command = [sys.executable, __file__, "--case", json.dumps(asdict(case))]
    run_measured(command)
    cost, output = run_measured(command)
    times = json.loads(output)
    lowering, engine = (times["tasks"] / times[stage] for stage in ("compile", "engine"))
    broken = {
        "lowering": lowering < LOWERING_TASKS_PER_SECOND,
        "engine": engine < ENGINE_TASKS_PER_SECOND.get(case.memory, 0),
        "time": case.budget_seconds is not None and times["again"] > case.budget_seconds,
        "memory": cost.peak_mb > PEAK_MB,
    }
    return (
        f"{case.trace}, {case.arch}, {case.memory}",
        f"{times['tasks']:,}",
        f"{lowering / 1e6:.2f}",
        f"{engine / 1e6:.1f}",
        f"{times['first']:.3f}",
        f"{times['again']:.3f}",
        f"{cost.peak_mb:.0f}",
        ", ".join(name for name, is_over in broken.items() if is_over) or "-",
    )


def measure(case: Case) -> dict[str, float]:
    """Seconds of each stage in this process, and the number of tasks."""
    import accelsim
    from accelsim.compile import compile_program
    from accelsim.engine import run

    arch = accelsim.load_arch(case.arch, {"dram.model": case.memory})
    trace = accelsim.load_trace(case.trace)
    first = seconds(lambda: accelsim.simulate(arch, trace))
    program = compile_program(arch, trace)
    return {
        "tasks": program.size,
        "first": first,
        "again": repeated(lambda: accelsim.simulate(arch, trace)),
        "compile": repeated(lambda: compile_program(arch, trace)),
        "engine": repeated(lambda: run(program)),
    }


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def repeated(work: Callable[[], object]) -> float:
    return statistics.median(seconds(work) for _ in range(REPEATS))


if __name__ == "__main__":
    main()
