"""Closed-form time of an operator on a host processor. Numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from accelsim.errors import InputError
from accelsim.hardware.vector import SIMPLE_FUNCTIONS, PassWork

SIMPLE = "simple"


@dataclass(frozen=True, slots=True)
class HostProcessor:
    """Numbers of a host. rates: results a core cycle of each function (`simple` for all simple ones), exact.
    bytes_per_cycle: what it moves to and from DRAM, None for unlimited. latency: core cycles of a call."""

    rates: Mapping[str, Fraction]
    latency: int
    bytes_per_cycle: Fraction | None


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Cycles of one kernel: `call` and then `work`. operations: simple ones that would take the host as long."""

    call: int
    work: int
    operations: int


def kernel_times(
    rows: int, cols: int, passes: Sequence[PassWork], moved_bytes: int, host: HostProcessor
) -> KernelTimes:
    """Time a kernel that runs `passes` over rows x cols elements and moves `moved_bytes` between DRAM and the host.

    work = the larger of arithmetic, the sum of count / rate over functions, and bytes / bandwidth: a cache hides one
    behind the other and keeps what passes hand on. Raises InputError for a function without a rate.
    """
    arithmetic = Fraction(0)
    for step in passes:
        arithmetic += rows * cols * _cycles(step.functions, host.rates) + rows * _cycles(step.row_functions, host.rates)
    moving = Fraction(0) if host.bytes_per_cycle is None else moved_bytes / host.bytes_per_cycle
    return KernelTimes(host.latency, ceil(max(arithmetic, moving)), ceil(arithmetic * host.rates[SIMPLE]))


def _cycles(functions: Mapping[str, int], rates: Mapping[str, Fraction]) -> Fraction:
    return sum((count / _rate(name, rates) for name, count in functions.items()), Fraction(0))


def _rate(function: str, rates: Mapping[str, Fraction]) -> Fraction:
    if function in SIMPLE_FUNCTIONS:
        return rates[SIMPLE]
    if function not in rates:
        raise InputError(
            f"the host has no rate for {function!r}",
            where=f"host.rate_gops.{function}",
            remedy=f"add 1e9 results of {function!r} a second",
        )
    return rates[function]
