"""Runs a Program forward in time. Two engines, one answer: `compiled` (Numba) and `reference` (SimPy)."""

from __future__ import annotations

from accelsim.compile.program import Program
from accelsim.engine.timeline import Progress, Timeline
from accelsim.errors import InputError

ENGINES = ("compiled", "reference")


def run(
    program: Program, engine: str = "compiled", progress: Progress | None = None, name: str = "program"
) -> Timeline:
    """Start every task of `program` as early as its unit and its edges allow.

    `engine` is "compiled" or "reference"; both give the same Timeline for every Program. `progress` is called with a
    line of text when there is something to wait for. `name` is what a message calls the Program.

    Raises InputError for an unknown engine and for a Program whose times could overflow 64-bit integers; InternalError
    for one that breaks the contract or runs into a deadlock.
    """
    if engine == "compiled":
        from accelsim.engine import compiled

        return compiled.run(program, progress, name)
    if engine == "reference":
        from accelsim.engine import reference

        return reference.run(program, name)
    raise InputError("unknown engine", where="engine", value=engine, remedy=f"use one of {', '.join(ENGINES)}")
