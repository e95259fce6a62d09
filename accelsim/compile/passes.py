"""Passes over tiles as tasks, each after the one before on the same tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.compile.machine import Machine
from accelsim.compile.program import DONE
from accelsim.compile.template import Block
from accelsim.compile.unit_times import UnitTimes, unit_times
from accelsim.compile.work import VectorPass

Int64 = NDArray[np.int64]


def emit_passes(
    machine: Machine,
    block: Block,
    passes: Sequence[VectorPass],
    shape: tuple[ArrayLike, ArrayLike],
    key: Int64,
    *,
    at_least: Int64 | None = None,
    sums: Int64 | None = None,
    **columns: Any,
) -> tuple[list[Int64], UnitTimes]:
    """Positions [T] of each of one pass or more over tiles of `shape` (rows, cols), and the last one's times.

    key: [T] of the first pass. at_least: [T] cycles that the banks need for what the first one reads. sums: [T]
    elements of the accumulator that a pass over rows reads there; None: it reads none there.
    """
    emitted: list[Int64] = []
    for index, step in enumerate(passes):
        times = unit_times(machine, step, *shape)
        times = times.at_least(at_least) if at_least is not None and not emitted else times
        read = {} if sums is None else {"accumulator_drain_reads": sums * step.reads_rows}
        positions = block.add(times.kind, times.unit, key + index, **columns, **read, **times.columns)
        if emitted:
            block.edge(positions, emitted[-1], DONE)
        emitted.append(positions)
    return emitted, times
