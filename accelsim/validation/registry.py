"""The parts of `accelsim verify`. A new one is a module in parts/ with its `PART`, and a line here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from accelsim.validation.model import Checked, Part, Progress

PARTS = {
    "array": "Systolic array against its PEs and SCALE-Sim.",
    "dram": "DRAM against Ramulator 2.1 and DRAMsim3.",
    "scratchpad": "Bank conflicts against a walk over every byte.",
    "sram": "SRAM figures against CACTI 7 and publications.",
    "pattern": "DRAM by pattern and by bandwidth against DRAM by command.",
    "layout": "Tiles of a tensor in DRAM: row-major against blocked.",
    "energy": "Energy and area tables against published figures.",
    "engines": "Compiled engine against the readable one.",
}
"""Name of each part, in the order of the page, and its title."""


def load_part(name: str) -> Part:
    """The part called `name`, one of PARTS, with what it imports."""
    part: Part = import_module(f"accelsim.validation.parts.{name}").PART
    return part


def check(names: Iterable[str], fast: bool, progress: Progress) -> list[Checked]:
    """Run parts. `fast` takes a subset of each. Raises InternalError when a model breaks a law of its own."""
    checked = []
    for name in names:
        part = load_part(name)
        progress(f"checking {name}")
        checked.append(Checked(part, list(part.rows(fast, progress))))
    return checked
