"""Small checks of single values, shared by the readers of records and by the table of operator kinds.

A `Check` takes a value and returns None when it is fine, else the phrase that follows "must be" in the message.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection
from typing import NamedTuple

Check = Callable[[object], str | None]

INT64_LIMIT = 1 << 63


class Problem(NamedTuple):
    """One broken rule: the field, what was expected of it (a phrase such as "must be 128") and what was found."""

    field: str
    expected: str
    value: object


def is_integer(value: object) -> bool:
    """True for a whole number that fits 64 bits; a bool is none."""
    return type(value) is int and -INT64_LIMIT <= value < INT64_LIMIT


def integer(minimum: int | None = None) -> Check:
    """An integer, at least `minimum`."""
    phrase = "an integer" + (f" >= {minimum}" if minimum is not None else "") + " below 2^63"
    lowest = -INT64_LIMIT if minimum is None else minimum

    def check(value: object) -> str | None:
        return None if type(value) is int and lowest <= value < INT64_LIMIT else phrase

    return check


def number(minimum: float = -math.inf, below: float = math.inf) -> Check:
    """A finite integer or float in [minimum, below)."""
    bounds = [f">= {minimum:g}"] if minimum > -math.inf else []
    bounds += [f"< {below:g}"] if below < math.inf else []
    phrase = " ".join(["a finite number", " and ".join(bounds)]).strip()

    def check(value: object) -> str | None:
        fits = (is_integer(value) or isinstance(value, float)) and minimum <= value < below  # type: ignore[operator]
        return None if fits and math.isfinite(value) else phrase  # type: ignore[arg-type]

    return check


def integers(minimum: int | None = None) -> Check:
    """A list of integers, each at least `minimum`."""
    single = integer(minimum)
    phrase = "a list of integers" + (f" >= {minimum}" if minimum is not None else "") + " below 2^63"

    def check(value: object) -> str | None:
        fits = isinstance(value, list | tuple) and all(single(item) is None for item in value)
        return None if fits else phrase

    return check


def one_of(names: Collection[str]) -> Check:
    """One of the given names; the phrase adds the nearest one."""
    ordered = list(names) if isinstance(names, tuple) else sorted(names)

    def check(value: object) -> str | None:
        if isinstance(value, str) and value in names:
            return None
        nearest = difflib.get_close_matches(value, ordered, 1) if isinstance(value, str) else []
        return f"one of {', '.join(ordered)}" + (f" (nearest: {nearest[0]})" if nearest else "")

    return check


def text(value: object) -> str | None:
    """A printable string that is not empty."""
    return None if isinstance(value, str) and value and value.isprintable() else "a printable string, not empty"


def any_text(value: object) -> str | None:
    """A printable string, perhaps empty."""
    return None if isinstance(value, str) and value.isprintable() else "a printable string"


def boolean(value: object) -> str | None:
    """True or false."""
    return None if isinstance(value, bool) else "true or false"


def record(value: object) -> str | None:
    """A JSON object."""
    return None if isinstance(value, dict) else "a JSON object"


def records(value: object) -> str | None:
    """A list of JSON objects."""
    return None if isinstance(value, list) and all(isinstance(item, dict) for item in value) else "a list of objects"
