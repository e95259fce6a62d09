"""What a choice of the compiler is judged by: a Program run forward, and what is to be made small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelsim.compile.program import Program
from accelsim.errors import InputError

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
