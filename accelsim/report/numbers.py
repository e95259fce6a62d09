"""Numbers as a person reads them: three digits and a unit, percentages, bars. Plain ASCII but for the bars."""

from __future__ import annotations

_PREFIXES = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_MILLIONS = 1e6
_EIGHTHS = " ▏▎▍▌▋▊▉"


def prefix(value: float) -> str:
    """The SI prefix ("", m, u, n or p) that shows `value` with digits before the point."""
    if value == 0 or value >= 1:
        return ""
    return next((name for name, size in _PREFIXES.items() if value >= size), "p")


def scaled(value: float, name: str) -> float:
    """`value` in units of SI prefix `name`."""
    return value / _PREFIXES.get(name, 1.0)


def significant(value: float) -> str:
    """Three significant digits, thousands separated, an exponent from 1e15 on: 0.0123, 1.23, 12.3, 1,230."""
    if value == 0:
        return "0"
    if abs(value) >= 1e15:
        return f"{value:.2e}".replace("e+", "e")
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = next(places for places in range(1, 12) if abs(value) >= 10 ** (2 - places) or places == 11)
    return f"{value:.{digits}f}"


def quantity(value: float, unit: str) -> str:
    """`value` in base units with three digits and an SI prefix: quantity(0.00078, "s") is "780 us"."""
    name = prefix(value)
    return f"{significant(scaled(value, name))} {name}{unit}"


def compact(value: float, unit: str = "") -> str:
    """`value` with three digits, a large SI prefix and its unit: 12.3, 1.23 k, 73.1 T, 29.1 TOPS, 1.23e18."""
    if abs(value) >= 1e15:
        return f"{value:.2e} {unit}".replace("e+", "e").rstrip()
    name, size = next(((name, size) for name, size in _LARGE if abs(value) >= size), ("", 1.0))
    return f"{significant(value / size)} {name}{unit}".rstrip()


def count(value: int, width: int) -> str:
    """A whole number with thousands separated, or compact when that takes more than `width` characters."""
    exact = f"{value:,}"
    return exact if len(exact) <= width else compact(value)


def decimals(largest: float) -> int:
    """Places after the point that give the `largest` number of a column three digits and one more."""
    return next((places for places, limit in ((3, 10.0), (2, 100.0), (1, 1000.0)) if abs(largest) < limit), 0)


def fixed(value: float, places: int) -> str:
    """`value` with `places` after the point, thousands separated, compact from a million on; "" for nothing."""
    if abs(value) >= _MILLIONS:
        return compact(value)
    return f"{value:,.{places}f}" if value else ""


def percent(part: float, whole: float) -> str:
    """`part` of `whole` with one digit; "<0.1" for a little, "" for nothing."""
    if not part or not whole:
        return ""
    share = 100 * part / whole
    return "<0.1" if share < 0.05 else f"{share:.1f}"


def ratio(value: float, reference: float) -> str:
    """How many times `reference` the `value` is: "1.31x"; "-" when there is no reference."""
    if not reference:
        return "-"
    times = value / reference
    if times >= _MILLIONS:
        return f"{compact(times)}x"
    return f"{times:.2f}x" if times < 100 else f"{times:,.0f}x"


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar for `share` (0 to 1) of `width` characters; anything above 0 shows."""
    if ascii_only:
        return "#" * max(round(share * width), 1 if share > 0 else 0)
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def shortened(text: str, width: int) -> str:
    """`text` cut to `width` characters, with dots where it was cut."""
    return text if len(text) <= width else text[: width - 3] + "..."


def printable(text: str) -> str:
    """`text` with control characters, line ends and lone surrogates written as escapes, so that none acts."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
