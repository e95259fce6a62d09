"""The two front-ends behind one pair of kernels.

`per_bank` is the mark of State: None for the unified front-end, a number for the other. Numba leaves out the branches
that a None argument rules out, so a device of the unified kind, as nearly all are, does not compile the other one.
"""

from __future__ import annotations

from typing import Any

from accelsim.hardware.dram import per_bank as by_bank
from accelsim.hardware.dram import unified
from accelsim.jit import inlined


@inlined
def accept(
    per_bank: int | None, rules: Any, channel: Any, bank: int, row: int, key: int, is_write: bool, clock: int,
    owner: int,
) -> int:  # fmt: skip
    """Offer a request; returns what became of it: REFUSED, QUEUED, ANSWERED or MERGED."""
    if per_bank is None:
        return unified.accept(rules, channel, bank, row, key, is_write, clock, owner)
    return by_bank.accept(rules, channel, bank, row, key, is_write, clock, owner)


@inlined
def tick(per_bank: int | None, rules: Any, channel: Any, clock: int) -> int:
    """One clock of a channel: issue what is ready and set `next`. Returns the slot whose data moved, if any."""
    if per_bank is None:
        return unified.tick(rules, channel, clock)
    return by_bank.tick(rules, channel, clock)
