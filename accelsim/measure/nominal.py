"""Nominal energies for the compiler's choices: what one count of each thing costs, and a Program of some operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accelsim.compile.program import COUNTERS, LOAD, STORE, Program
from accelsim.compile.score import Prices
from accelsim.measure.energy import ACCESSES, bits_moved, components_of, static_parts
from accelsim.measure.prices import PriceList, price_list
from accelsim.trace.model import Trace

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch


def nominal_prices(arch: Arch) -> Prices:
    """The machine's nominal prices, pJ, of a DRAM that pays for each byte.

    Raises InputError for what `price_list` refuses; `mac` does for dtypes that the table has no entry for.
    """
    prices = price_list(arch)
    nanoseconds = float(10**9 / arch.clock_hz)
    leaking = (prices.price(key).nominal * float(units) for _, key, units in static_parts(arch))

    def mac(a: str, b: str, dataflow: str) -> float:
        register = prices.price("array_register_pj_per_bit").nominal * bits_moved(arch, a, b, dataflow)
        return prices.price(prices.mac_key(a, b)).nominal + register

    return Prices(
        mac=mac,
        counters=_counters(prices),
        dram_read=prices.price("dram_read_pj_per_byte").nominal,
        dram_write=prices.price("dram_write_pj_per_byte").nominal,
        static=nanoseconds * sum(leaking),
    )


def _counters(prices: PriceList) -> dict[str, float]:
    """pJ of one count of each counter that this machine can have."""
    there, width = components_of(prices.arch), prices.arch.accumulator.width_bytes
    return {
        name: prices.price(key).nominal * (width if component == "accumulator" else 1)
        for component, names, key in ACCESSES
        if there.get(component, True)
        for name in names
    }


def energy_alone(program: Program, cycles: int, prices: Prices, trace: Trace) -> float:
    """Nominal pJ of a Program that runs some operators of the trace in so many cycles.

    It equals the sum that a Result of that run has under a memory without commands.
    """
    total = cycles * prices.static
    dataflows = {plan.op: plan.dataflow for plan in program.plans}
    macs = np.bincount(program.op, weights=program.macs)
    for op in map(int, np.flatnonzero(macs)):
        a, b = (trace.tensors[view.tensor].dtype for view in trace.ops[op].inputs[:2])
        total += float(macs[op]) * prices.mac(a, b, str(dataflows[op]))
    counted = program.counters.sum(axis=0)
    total += sum(prices.counters.get(name, 0.0) * int(counted[index]) for index, name in enumerate(COUNTERS))
    moved = [int(np.where(program.kind == kind, program.request_bytes, 0).sum()) for kind in (LOAD, STORE)]
    return total + moved[0] * prices.dram_read + moved[1] * prices.dram_write
