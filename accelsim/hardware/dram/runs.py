"""What a DRAM needs for runs of bytes at a pitch, in closed form: the estimate of who has no time to run the commands.

A tile is fetched as runs of contiguous bytes. The transactions of some such runs are located under the device's
mapping; each window of as many as its queues hold takes the longest of what bounds it: bursts on the data bus of the
busiest channel, activates of its busiest rank (tRRD, tFAW) and of its busiest bank (tRC). Reads are bound too by the
transactions in flight over the way there and back. Refresh takes its part of everybody's time. Left out: turnarounds,
and what else is in the queues.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware.dram.device import Device
from accelsim.hardware.dram.mapping import locate
from accelsim.hardware.dram.system import DramSystem

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

SAMPLE = 1024  # transactions that are located of each run length


def run_cycles(system: DramSystem, queues: int, run_bytes: Int64, pitch: int, *, write: bool) -> Float64:
    """[n] core cycles that a run of each length takes on average, `pitch` bytes from one to the next.

    queues: DMA queues that read (or write) at once. Computed once for each run length and pitch.
    """
    each, least = _table(system, pitch), _least(system, queues, write=write)
    size = system.device.geometry.transaction_bytes
    lengths, place = np.unique(run_bytes, return_inverse=True)
    located = np.minimum(lengths, SAMPLE * size).tolist()
    if fresh := sorted(set(located) - each.keys()):
        each.update(zip(fresh, _clocks_of_transaction(system.device, np.array(fresh), pitch).tolist(), strict=True))
    clocks = np.array([each[length] for length in located])
    whole = np.ceil(lengths / size) if pitch % size == 0 else (lengths + size - 1) / size  # on average over offsets
    cycles: Float64 = whole * np.maximum(clocks / float(system.clocks_per_cycle), least) * _refresh(system)
    return cycles[place.reshape(run_bytes.shape)]


@lru_cache(maxsize=4096)
def _table(system: DramSystem, pitch: int) -> dict[int, float]:
    """DRAM clocks of a transaction by run length; filled by `run_cycles`."""
    return {}


@lru_cache(maxsize=256)
def _least(system: DramSystem, queues: int, *, write: bool) -> float:
    """Least core cycles of a transaction whatever its place: the pace of the way, and of reads those in flight."""
    size, clocks = system.device.geometry.transaction_bytes, float(system.clocks_per_cycle)
    pace = 0.0 if system.bytes_per_clock is None else size / float(system.bytes_per_clock)
    t = system.device.timing
    round_trip = 0 if write else t.rcd_rd + t.read_latency + system.path_clocks
    return max(pace, round_trip / (system.outstanding * queues)) / clocks


@lru_cache(maxsize=256)
def _refresh(system: DramSystem) -> float:
    t = system.device.timing
    taken = t.rfc + (t.rp if t.rp_all is None else t.rp_all) + t.rcd_rd
    return t.refi / (t.refi - taken) if t.refi > taken else 1.0


def _clocks_of_transaction(device: Device, runs: Int64, pitch: int) -> Float64:
    """[n] DRAM clocks that a transaction of runs of each length takes."""
    size, geometry = device.geometry.transaction_bytes, device.geometry
    window = min(SAMPLE, 2 * geometry.channels * device.controller.read_queue)  # twice: queues that are full catch up
    number = np.arange(SAMPLE // window * window)
    of_run = -(-runs // size)[:, None]
    row, column = number // of_run, number % of_run
    addresses = row * np.maximum(pitch, runs[:, None]) + column * size
    channel, bank, line = locate(device, addresses.ravel())
    windows = number.size // window
    group = np.repeat(np.arange(runs.size), number.size) * windows + np.tile(number // window, runs.size)
    total = _window_clocks(device, group, runs.size * windows, channel, bank, line)
    clocks: Float64 = total.reshape(runs.size, windows).sum(axis=1) / number.size
    return clocks


def _window_clocks(device: Device, group: Int64, groups: int, channel: Int64, bank: Int64, line: Int64) -> Float64:
    """[groups] clocks of each window of transactions, the longest of its bounds."""
    t, geometry = device.timing, device.geometry
    ranks, banks = geometry.channels * geometry.ranks, geometry.channels * geometry.banks_per_channel
    place = channel * geometry.banks_per_channel + bank
    rank = place // (geometry.groups * geometry.banks)
    bus = rank if t.act_clocks > 1 else channel
    buses = ranks if t.act_clocks > 1 else geometry.channels
    opened = np.unique((group * banks + place) * (geometry.rows * 2) + line)
    opened_place = opened // (geometry.rows * 2)
    opened_rank = opened_place // (geometry.groups * geometry.banks)
    return np.maximum(
        np.maximum(
            t.burst * _most(group * buses + bus, groups, buses),
            max(t.rrd_s, t.faw / 4) * _most(opened_rank, groups, ranks),
        ),
        t.rc * (_most(opened_place, groups, banks) - 1),
    )


def _most(key: Int64, groups: int, each: int) -> Float64:
    """[groups] the largest count of one key among the `each` of a group."""
    count: Float64 = np.bincount(key, minlength=groups * each).reshape(groups, each).max(axis=1).astype(np.float64)
    return count
