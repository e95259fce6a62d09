"""What a choice of the compiler is judged by: a Program run forward, and what is to be made small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accelsim.compile.program import COUNTERS, Program
from accelsim.errors import InputError

_BYTES = [COUNTERS.index(f"scratchpad_{way}_bytes") for way in ("read", "write")]
OBJECTIVES = ("time", "energy", "edp")


@dataclass(frozen=True)
class Score:
    """A Program's cycles, and its nominal energy in pJ."""

    cycles: int
    energy_pj: float

    def rank(self, objective: str) -> tuple[float, float]:
        """What is made small first, and what breaks its ties: energy after time, time after the others."""
        if objective == "time":
            return self.cycles, self.energy_pj
        return self.energy_pj * (self.cycles if objective == "edp" else 1), self.cycles


Scorer = Callable[[Program], Score]  # given to the compiler by who may run the engine


def check_objective(objective: str) -> str:
    """The objective itself. Raises InputError for an unknown one."""
    if objective not in OBJECTIVES:
        raise InputError(
            "unknown objective", where="--optimize", value=objective, remedy=f"use {', '.join(OBJECTIVES)}"
        )
    return objective


@dataclass(frozen=True)
class Judge:
    """Tells the better one of two ways to run something."""

    objective: str
    score: Scorer

    def rank(self, program: Program) -> tuple[float, float]:
        """Less is better."""
        return self.score(program).rank(self.objective)


def busiest(program: Program) -> Score:
    """What a Program takes at least, where nobody can run it: cycles of the busiest unit or of the DRAM, and for the
    energy the bytes that it moves."""
    occupied = np.bincount(program.unit, weights=program.occupy, minlength=len(program.units))
    rate = program.memory.load_bytes_per_cycle
    moved = 0 if rate is None else -(-int((program.request_bytes * program.is_memory).sum()) // rate)
    bytes_moved = program.counters[:, _BYTES].sum() + program.request_bytes.sum()
    return Score(max(int(occupied.max(initial=0)), int(moved)), float(bytes_moved))
