"""How far the ratio of two sums is known when each of their parts is only known to lie in a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from accelsim.measure.prices import Spread

Parts = Mapping[str, Spread]  # (low, nominal, high) by component
Range = tuple[float, float]
_Pair = tuple[float, float]  # one component in the first sum and in the second


def ratio_range(base: Parts, other: Parts, *, shared: bool) -> Range | None:
    """Least and largest ratio of `other`'s sum to `base`'s, as multiples of the nominal ratio.

    Each component may be at its low, nominal or high value. With `shared` both sums take their prices from one source,
    so that a component is low, nominal or high in both; else each is on its own. None when a sum can be 0.
    """
    if not sum(low for low, _, _ in base.values()) or not sum(low for low, _, _ in other.values()):
        return None
    nothing = (0.0, 0.0, 0.0)
    both = [(base.get(name, nothing), other.get(name, nothing)) for name in dict.fromkeys([*base, *other])]
    choices = [list(zip(a, b, strict=True)) if shared else list(product(a, b)) for a, b in both]
    nominal = _quotient([(a[1], b[1]) for a, b in both])
    return _extreme(choices, nominal, -1) / nominal, _extreme(choices, nominal, 1) / nominal


def _extreme(choices: Sequence[Sequence[_Pair]], ratio: float, sign: int) -> float:
    """The largest (sign 1) or least (-1) quotient of the sums over one pair of each component.

    Dinkelbach's iteration (Management Science 13(7), 1967): while some choice has a better quotient than `ratio`, the
    choice that maximises b - ratio x a, which is made component by component, has one.
    """
    while True:
        chosen = [max(pairs, key=lambda pair: sign * (pair[1] - ratio * pair[0])) for pairs in choices]
        found = _quotient(chosen)
        if sign * found <= sign * ratio:
            return ratio
        ratio = found


def _quotient(pairs: Sequence[_Pair]) -> float:
    return sum(b for _, b in pairs) / sum(a for a, _ in pairs)
