"""Run a command in a fresh process and say what it cost. Shared by the benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What one process used: CPU seconds (user and system, all threads), wall-clock seconds, peak memory in MB."""

    cpu_seconds: float
    seconds: float
    peak_mb: float


def run_measured(
    command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Cost, str]:
    """Run `command`, return its cost and its stdout; leave with its stderr when it fails."""
    began = time.perf_counter()
    variables = {**os.environ, **(environment or {})}
    process = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"benchmark failed with exit code {process.returncode}: {' '.join(command)}")
    cost = Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6)
    return cost, output


def print_markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a markdown table, each row as soon as it is there; columns after the first are right-aligned."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    for row in chain([header, rule], rows):
        print(f"| {' | '.join(row)} |", flush=True)
