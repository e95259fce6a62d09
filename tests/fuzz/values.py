"""Values to draw: sizes at and beside the powers of two, numbers of every magnitude, and what no key takes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

SMALL_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 64, 65, 97, 127, 128, 129, 300, 768)
HUGE_SIZES = (1_000, 4_099, 65_537, 2**20 + 1, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)

JUNK: Sequence[Any] = (
    None, "", "none", "abc", "weight", True, False, -1, 0, 1, -0.0, 0.5, 1e-7, 1e-300, 1e16, 1e300, 2**31, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), 10**25, math.nan, math.inf, -math.inf, [], [1], [None], {}, {"a": 1}, "1 GHz", "64KiB",
    "1/4", "0/1", "1/0", "-1/2", "1e9", ".inf", "nan", "0x10", "1_000", "\u0661", "é", "\ud800", "a" * 300, "\u202e",
)  # fmt: skip


def size(choose: random.Random, huge: float = 0.0) -> int:
    """A dimension; with probability `huge` one that no small test has."""
    return choose.choice(HUGE_SIZES if choose.random() < huge else SMALL_SIZES)


def magnitude(choose: random.Random, low: float, high: float) -> float:
    """A number of [low, high], each power of ten as likely as another, with few digits."""
    exponent = choose.uniform(math.log10(low), math.log10(high))
    return min(high, max(low, float(f"{10**exponent:.3g}")))


def whole(choose: random.Random, low: int, high: int) -> int:
    """An integer of [low, high], small ones as likely as large ones."""
    return min(high, max(low, round(magnitude(choose, max(low, 1), high)) - choose.choice((0, 0, 1))))


def rate(choose: random.Random) -> int | float | str:
    """A rate as an architect would write one."""
    return choose.choice((1, 1, 2, "1/2", "1/3", "1/4", "2/3", "7/5", 0.1, 0.25, "1/1000", 16, "999983/1000000"))
