"""Energy of a DRAM whose commands were counted: who pays for what, and at which price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from accelsim.arch.spec import Arch
from accelsim.energy import Price
from accelsim.hardware.dram import preset
from accelsim.hardware.dram.energy import command_energies_pj
from accelsim.hardware.dram.requests import DramStats
from accelsim.measure.dram_energy import DramUse, by_commands
from accelsim.measure.prices import price_list
from tests.measure.programs import machine

COMMANDS = {"ACT": 100, "RD": 40, "WR": 60, "REFab": 8}
CYCLES = (3, 1)  # of two operators
ACTIVE, CLOCKS, CHANNELS = 700, 1000, 2


def of(name: str) -> Arch:
    return machine(dram={"preset": name, "channels": CHANNELS, "bandwidth_gbps": float("inf")})


def charged(name: str = "ddr4_2400") -> list[tuple[str, tuple[int | Fraction, ...], Price]]:
    """Two operators, the first of which asked for 30 reads, the second for 10 reads and 60 writes."""
    stats = DramStats(
        end_cycle=CLOCKS, commands=Counter(COMMANDS), mean_read_latency=None, forwarded=0, coalesced=0, merged=0,
        unsent_writes=0, bus_bytes=6400, row_hits=0, bus_overlaps=0, active_clocks=ACTIVE, clocks=CLOCKS,
        energy_by_component_pj=None,
    )  # fmt: skip
    device = preset(name, CHANNELS, "RoRaBgBaCoCh", False)
    use = DramUse(stats, device, reads=np.array([30, 10]), writes=np.array([0, 60]))
    terms = by_commands(use, CYCLES, price_list(of(name)))
    return [(component, tuple(counts), price) for component, counts, price in terms]


def test_commands_are_paid_by_who_asked_and_standby_by_cycles() -> None:
    closed = CHANNELS * CLOCKS - ACTIVE
    assert sorted((component, counts) for component, counts, _ in charged()) == sorted(
        [
            ("dram_activate", (30, 70)),
            ("dram", (30, 10)),
            ("dram", (0, 60)),
            ("dram_refresh", (6, 2)),
            ("static_dram", (Fraction(3 * ACTIVE, 4), Fraction(ACTIVE, 4))),
            ("static_dram", (Fraction(3 * closed, 4), Fraction(closed, 4))),
            ("dram", (30 * 64, 10 * 64)),
            ("dram", (0, 60 * 64)),
        ]
    )


def test_a_command_costs_what_the_data_sheet_says_less_at_best_and_more_at_worst() -> None:
    each: Mapping[str, float] = command_energies_pj(preset("ddr4_2400", CHANNELS, "RoRaBgBaCoCh", False))
    spread = {price.spread for _, _, price in charged()}
    assert {(0.6 * pj, pj, 1.15 * pj) for pj in each.values()} < spread


def test_the_interface_costs_what_the_average_leaves_over_the_devices_part() -> None:
    """A stream that uses whole rows: a read burst and its part of an activate, for the bytes of a burst."""
    device = preset("ddr4_2400", CHANNELS, "RoRaBgBaCoCh", False)
    each = command_energies_pj(device)
    stream = (each["read"] + each["activate"] / device.geometry.columns) / 64
    average = price_list(of("ddr4_2400")).price("dram_read_pj_per_byte")
    interface = charged()[-1][2]
    assert 0 < interface.nominal == pytest.approx(average.nominal - stream)
    assert interface.low == pytest.approx(max(0.0, average.low - stream))
    assert interface.high == pytest.approx(average.high - stream)


def test_a_device_without_currents_costs_an_average_for_each_byte_on_the_bus() -> None:
    prices = price_list(of("hbm2_2000"))
    reads, writes = prices.price("dram_read_pj_per_byte"), prices.price("dram_write_pj_per_byte")
    burst = preset("hbm2_2000", CHANNELS, "RoRaBgBaCoCh", False).geometry.transaction_bytes
    assert charged("hbm2_2000") == [
        ("dram", (30 * burst, 10 * burst), reads),
        ("dram", (0, 60 * burst), writes),
    ]
