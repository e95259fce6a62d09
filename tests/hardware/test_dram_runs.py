"""The closed form of runs of bytes, against the commands that they take."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from accelsim.compile.machine import Machine
from accelsim.hardware.dram.pattern import TICKS, Stream, service_ticks
from accelsim.hardware.dram.runs import run_cycles
from accelsim.hardware.dram.system import DramSystem
from tests.compile.machines import shipped_arch


def system_of(name: str) -> DramSystem:
    system = Machine(shipped_arch(name, dram__model="pattern"), {}).memory.system
    assert system is not None
    return system


def simulated(system: DramSystem, run: int, pitch: int, rows: int) -> float:
    """Core cycles of a run in a sweep over tiles of `rows` runs, by command, a single queue reading."""
    tiles = [(row, column) for row in range(0, 512, rows) for column in range(pitch // run)]
    one = np.ones(len(tiles), np.int64)
    address = np.array([row * pitch + column * run for row, column in tiles])
    requests = np.stack([address, rows * one, run * one, pitch * one])
    ticks = service_ticks(system, 2, [Stream(0 * one, np.zeros(one.size, bool), requests)])[0]
    return float(ticks.sum()) / TICKS / (rows * one.size)


@pytest.mark.parametrize("name", ["tpu_like", "gemmini_16", "edge_32", "tpu_v1"])
def test_runs_take_about_what_their_commands_take(name: str) -> None:
    """Half of the shapes drawn are within 20 %; bytes over bandwidth alone are far below for short runs."""
    choose, system = Random(5), system_of(name)
    errors = []
    for _ in range(24):
        run, times = choose.choice((64, 128, 256, 512)), choose.choice((2, 3, 4, 8))
        taken = simulated(system, run, run * times, 128)
        errors.append(abs(float(run_cycles(system, 1, np.array([run]), run * times, write=False)[0]) / taken - 1))
    assert float(np.median(errors)) <= 0.2


@pytest.mark.parametrize("name", ["tpu_like", "gemmini_16", "edge_32", "tpu_v4i"])
def test_no_run_is_faster_than_the_channels(name: str) -> None:
    system = system_of(name)
    runs = np.array([1, 31, 64, 100, 1024, 10**6])
    cycles = run_cycles(system, 1, runs, 4096, write=False)
    assert (cycles * float(system.peak_bytes_per_cycle) >= runs).all()


def test_rows_of_one_bank_wait_for_its_activates() -> None:
    """A pitch after which the same bank opens another row: a run each tRC at best."""
    system = system_of("gemmini_16")
    t, bank = system.device.timing, 1 << 20
    cycles = float(run_cycles(system, 1, np.array([64]), bank, write=False)[0])
    assert cycles * float(system.clocks_per_cycle) >= 0.5 * t.rc
    assert cycles >= 5 * float(run_cycles(system, 1, np.array([64]), 64, write=False)[0])


def test_few_reads_in_flight_bound_the_bandwidth() -> None:
    from dataclasses import replace

    system = replace(system_of("tpu_like"), outstanding=1)
    t = system.device.timing
    trip = (t.rcd_rd + t.read_latency + system.path_clocks) / float(system.clocks_per_cycle)
    assert float(run_cycles(system, 1, np.array([64]), 64, write=False)[0]) >= trip
    assert float(run_cycles(system, 1, np.array([64]), 64, write=True)[0]) < trip
