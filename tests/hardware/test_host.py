"""A kernel on the host: arithmetic by function, or its bytes, whichever takes longer."""

from __future__ import annotations

from fractions import Fraction

import pytest

from accelsim.errors import InputError
from accelsim.hardware.host import HostProcessor, kernel_times
from accelsim.hardware.vector import PassWork

HOST = HostProcessor({"simple": Fraction(2), "exp": Fraction(1, 4)}, latency=100, bytes_per_cycle=Fraction(8))


def test_passes_add_up_by_element_and_by_row() -> None:
    passes = [PassWork({"add": 2, "exp": 1}), PassWork({"mul": 1}, {"max": 3})]
    times = kernel_times(10, 20, passes, 0, HOST)
    assert (times.call, times.work) == (100, 200 * (1 + 4) + 200 // 2 + 10 * 3 // 2)
    assert times.operations == 2 * times.work


def test_bytes_count_where_they_take_longer() -> None:
    assert kernel_times(1, 2, [PassWork({"add": 1})], 81, HOST).work == 11
    assert kernel_times(1, 2, [PassWork({"add": 1})], 81, HostProcessor(HOST.rates, 0, None)).work == 1


def test_a_function_without_a_rate_is_named() -> None:
    with pytest.raises(InputError, match=r"host.rate_gops.erf: the host has no rate for 'erf'"):
        kernel_times(1, 1, [PassWork({"erf": 1})], 0, HOST)
