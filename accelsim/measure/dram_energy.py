"""Energy of the DRAM: an average for each byte, or what the commands of a run took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import LOAD, STORE, Program
from accelsim.energy import Price
from accelsim.engine.timeline import Timeline
from accelsim.hardware.dram.device import Device
from accelsim.hardware.dram.energy import command_energies_pj
from accelsim.hardware.dram.requests import DramStats
from accelsim.hardware.dram.system import transactions
from accelsim.measure.prices import PriceList
from accelsim.measure.sums import sum_by

Counts = Sequence[int] | Sequence[int | Fraction]  # of each operator
Term = tuple[str, Counts, Price]  # component, counts, price of one

# Data sheets state the most that any device draws; a measured one draws less, a hot one on an old process not more.
LOW, HIGH = 0.6, 1.15

# Entry of the energy table: component of command_energies_pj, component of the run's energy.
COMMANDS = {
    "dram_activate_pj": ("activate", "dram_activate"),
    "dram_read_burst_pj": ("read", "dram"),
    "dram_write_burst_pj": ("write", "dram"),
    "dram_refresh_pj": ("refresh", "dram_refresh"),
    "dram_active_standby_pj": ("active_standby", "static_dram"),
    "dram_precharge_standby_pj": ("precharge_standby", "static_dram"),
}


@dataclass(frozen=True)
class DramUse:
    """What the DRAM counted, and the transactions that each operator asked for: int64 [operators]."""

    stats: DramStats
    device: Device
    reads: NDArray[np.int64]
    writes: NDArray[np.int64]


def dram_use(program: Program, timeline: Timeline, operators: int) -> DramUse | None:
    """The DRAM's part of a run, None when it did not run every command."""
    system = program.memory.system
    if timeline.dram is None or system is None:
        return None
    asked = transactions(program.requests, system.device.geometry.transaction_bytes)
    reads, writes = (sum_by(program.op, np.where(program.kind == kind, asked, 0), operators) for kind in (LOAD, STORE))
    return DramUse(timeline.dram, system.device, reads, writes)


def by_bytes(read_bytes: Counts, write_bytes: Counts, prices: PriceList) -> Iterator[Term]:
    """Dynamic energy at an average for each byte."""
    yield "dram", read_bytes, prices.price("dram_read_pj_per_byte")
    yield "dram", write_bytes, prices.price("dram_write_pj_per_byte")


def by_commands(use: DramUse, operator_cycles: Sequence[int], prices: PriceList) -> Iterator[Term]:
    """All energy of a DRAM whose commands were counted.

    An operator pays for commands by the transactions that it asked for, for refresh and standby by its cycles. Devices
    without currents (HBM2, LPDDR5) pay an average for each byte on the bus.
    """
    size, reads, writes = use.device.geometry.transaction_bytes, use.reads.tolist(), use.writes.tolist()
    commands, both = use.stats.commands, (use.reads + use.writes).tolist()
    on_bus = _shared(commands["RD"] * size, reads), _shared(commands["WR"] * size, writes)
    if use.device.power is None:
        yield from by_bytes(*on_bus, prices)
        return
    counts = {
        "dram_activate_pj": _shared(commands["ACT"], both),
        "dram_read_burst_pj": _shared(commands["RD"], reads),
        "dram_write_burst_pj": _shared(commands["WR"], writes),
        "dram_refresh_pj": _shared(commands["REFab"], operator_cycles),
        "dram_active_standby_pj": _shared(use.stats.active_clocks, operator_cycles),
        "dram_precharge_standby_pj": _shared(_idle_clocks(use), operator_cycles),
    }
    each = command_energies_pj(use.device)
    for key, (command, component) in COMMANDS.items():
        yield component, counts[key], prices.made(key, lambda pj=each[command]: _spread(pj))  # type: ignore[misc]
    interface = prices.made("dram_interface_pj_per_byte", lambda: _interface(use.device, prices))
    for counted in on_bus:
        yield "dram", counted, interface


def has_own_standby(use: DramUse | None) -> bool:
    """True when `by_commands` holds the standby power of the devices too."""
    return use is not None and use.device.power is not None


def _shared(total: int, weights: Sequence[int]) -> list[int | Fraction]:
    """A count divided among the operators in proportion to their weights, exactly."""
    whole = sum(weights)
    return [Fraction(total * weight, whole) if total else 0 for weight in weights]


def _idle_clocks(use: DramUse) -> int:
    ranks = use.device.geometry.channels * use.device.geometry.ranks
    return ranks * use.stats.clocks - use.stats.active_clocks


def _spread(pj: float) -> Price:
    return Price(LOW * pj, pj, HIGH * pj, "computed")


def _interface(device: Device, prices: PriceList) -> Price:
    """The published average of a byte less the devices' part of it in a stream that uses whole rows."""
    each, geometry = command_energies_pj(device), device.geometry
    stream = (each["read"] + each["activate"] / geometry.columns) / geometry.transaction_bytes
    average = prices.price("dram_read_pj_per_byte")
    low, nominal, high = (max(0.0, value - stream) for value in average.spread)
    return Price(low, nominal, high, average.kind)
