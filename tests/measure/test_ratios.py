"""The range of a ratio of sums: exact over all choices of low, nominal and high."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.measure.ratios import ratio_range

SPREAD = st.tuples(*[st.floats(0.01, 100)] * 3).map(lambda values: tuple(sorted(values)))
PARTS = st.dictionaries(st.sampled_from("abc"), SPREAD, min_size=1)


@given(PARTS, PARTS, st.booleans())
def test_range_is_that_of_every_choice(base, other, shared):
    names = sorted({*base, *other})
    nothing = (0.0, 0.0, 0.0)
    places = list(product(range(3), repeat=len(names)))
    pairs = zip(places, places, strict=True) if shared else product(places, places)

    def total(parts, choice):
        return sum(parts.get(name, nothing)[i] for name, i in zip(names, choice, strict=True))

    ratios = [total(other, second) / total(base, first) for first, second in pairs]
    nominal = total(other, [1] * 3) / total(base, [1] * 3) if len(names) == 3 else None
    nominal = nominal or sum(v[1] for v in other.values()) / sum(v[1] for v in base.values())
    low, high = ratio_range(base, other, shared=shared)
    assert (low * nominal, high * nominal) == pytest.approx((min(ratios), max(ratios)), rel=1e-9)


def test_twice_as_much_of_the_same_is_twice_whatever_it_costs():
    base = {"dram": (1.0, 2.0, 9.0)}
    twice = {"dram": (2.0, 4.0, 18.0)}
    assert ratio_range(base, twice, shared=True) == (1, 1)
    assert ratio_range(base, twice, shared=False) == pytest.approx((1 / 9, 9))


def test_sum_that_may_be_nothing_has_no_ratio():
    assert ratio_range({"a": (0.0, 1.0, 2.0)}, {"a": (1.0, 1.0, 1.0)}, shared=True) is None
    assert ratio_range({"a": (1.0, 1.0, 1.0)}, {}, shared=True) is None
