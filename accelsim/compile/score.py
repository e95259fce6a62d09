"""What a choice of the compiler is judged by: a Program run forward, its energy, and what is to be made small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from accelsim.compile.program import COUNTERS, Program
from accelsim.errors import InputError

_BYTES = [COUNTERS.index(f"scratchpad_{way}_bytes") for way in ("read", "write")]
OBJECTIVES = ("time", "energy", "edp")
REFINED = 2  # candidates of an operator that are simulated unless asked otherwise
MOST_REFINED = 1000


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


@dataclass(frozen=True)
class Prices:
    """Nominal energy of what candidates differ in, pJ.

    mac: of a multiply-accumulate by the dtypes of a and b and the dataflow, with what moves from register to register.
    counters: of one count of each of `program.COUNTERS`. dram_read, dram_write: of a byte. static: of a cycle.
    """

    mac: Callable[[str, str, str], float]
    counters: Mapping[str, float]
    dram_read: float
    dram_write: float
    static: float


Scorer = Callable[[Program], Score]  # runs a Program of some operators


@dataclass(frozen=True)
class Judge:
    """What the compiler's choices are for, and who judges them: given to it by who may run the engine.

    objective: of OBJECTIVES. prices and score: None where nobody knows energies, or may run Programs. refine: how many
    candidates of each operator are simulated at most, 0 for none.
    """

    objective: str = "time"
    prices: Prices | None = None
    score: Scorer | None = None
    refine: int = 0

    def rank(self, program: Program) -> tuple[float, float]:
        """How good a Program is, less is better: by running it, or by its busiest unit where nobody may."""
        return (self.score or busiest)(program).rank(self.objective)


def check_objective(objective: object) -> str:
    """The objective itself. Raises InputError for an unknown one."""
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise InputError(
            "unknown objective", where="--optimize", value=objective, remedy=f"use {', '.join(OBJECTIVES)}"
        )
    return objective


def check_refine(refine: object) -> int:
    """The number itself. Raises InputError for anything but a whole number from 0 on."""
    if not isinstance(refine, int) or isinstance(refine, bool) or not 0 <= refine <= MOST_REFINED:
        raise InputError(
            "not a number of candidates", where="--refine", value=refine, remedy=f"give 0 to {MOST_REFINED}"
        )
    return refine


def busiest(program: Program) -> Score:
    """What a Program takes at least, where nobody can run it: cycles of the busiest unit or of the DRAM, and for the
    energy the bytes that it moves."""
    occupied = np.bincount(program.unit, weights=program.occupy, minlength=len(program.units))
    rate = program.memory.load_bytes_per_cycle
    moved = 0 if rate is None else -(-int((program.request_bytes * program.is_memory).sum()) // rate)
    bytes_moved = program.counters[:, _BYTES].sum() + program.request_bytes.sum()
    return Score(max(int(occupied.max(initial=0)), int(moved)), float(bytes_moved))
