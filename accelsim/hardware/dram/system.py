"""A DRAM with the way to it from a core, and its state for the engines' DMA queues (module dma)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import InputError
from accelsim.hardware.dram.device import MAX_CLOCKS, Device
from accelsim.hardware.dram.dma import DMA, MAX_IN_FLIGHT, MAX_QUEUES, Memory, to_dram
from accelsim.hardware.dram.requests import DramStats, collect
from accelsim.hardware.dram.state import NEVER, NOBODY, new_state
from accelsim.jit import kernel

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DramSystem:
    """A device and the way to it from a core.

    outstanding: reads in flight of each DMA queue. dram_mhz: the DRAM's clock, that of the device's `clock_ps` unless
    given. path_clocks: DRAM clocks from the device to the core for each datum read. bytes_per_clock: what the queues
    present together in a DRAM clock, on average (None: as much as the channels take).
    issue_cycles: core cycles from a queue's turn to its first request, for `pattern` alone: engines count them.

    Raises InputError if the device merges reads or a number is out of range.
    """

    device: Device
    core_mhz: Fraction | int
    outstanding: int
    dram_mhz: Fraction | None = None
    path_clocks: int = 0
    bytes_per_clock: Fraction | None = None
    issue_cycles: int = 0

    def __post_init__(self) -> None:
        if self.device.controller.merge_reads:
            raise InputError(
                "DMA queues need a controller that sends each read", where=self.device.name, value="merge_reads"
            )
        _in_range("outstanding", self.outstanding, 1, MAX_IN_FLIGHT)
        _in_range("path_clocks", self.path_clocks, 0, MAX_CLOCKS)
        for name in ("core_mhz", "dram_mhz", "bytes_per_clock"):
            rate = getattr(self, name)
            if rate is not None and rate <= 0:
                raise InputError("must be positive", where=name, value=rate)

    @property
    def clocks_per_cycle(self) -> Fraction:
        """DRAM clocks in a core cycle."""
        return (self.dram_mhz or Fraction(10**6, self.device.timing.clock_ps)) / Fraction(self.core_mhz)

    @property
    def peak_bytes_per_cycle(self) -> Fraction:
        """Bytes that the data buses of all channels carry in a core cycle."""
        return Fraction(self.device.peak_bytes_per_clock) * self.clocks_per_cycle


def _in_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"must be from {least} to {most}", where=name, value=value)


def new_memory(system: DramSystem, queues: int) -> Memory:
    """An idle memory at cycle 0 with `queues` DMA queues.

    Raises InputError for more queues, or more reads in flight on all of them, than there is room for.
    """
    _in_range("queues", queues, 1, MAX_QUEUES)
    _in_range("outstanding", system.outstanding, 1, MAX_IN_FLIGHT // queues)
    dma = np.zeros(1, DMA)
    dma["dram"], dma["core"] = system.clocks_per_cycle.numerator, system.clocks_per_cycle.denominator
    dma["queue_count"], dma["outstanding"], dma["path"] = queues, system.outstanding, system.path_clocks
    dma["earliest"] = NEVER
    if system.bytes_per_clock is not None:
        dma["pace"] = system.bytes_per_clock.numerator
        dma["size"] = system.device.geometry.transaction_bytes * system.bytes_per_clock.denominator
    dma["queues"]["task"], dma["paced_at"] = NOBODY, -1
    return Memory(new_state(system.device), dma.view(np.recarray))


def memory_stats(device: Device, memory: Memory, cycles: int) -> DramStats:
    """Counters and energy of a run of `cycles` core cycles. Call `drain` first to have the last writes in."""
    return collect(device, memory.state, int(to_dram(memory.dma[0], cycles)))


def transactions(requests: Int64, size: int) -> Int64:
    """[n] transactions of `size` bytes that n requests ask for: those that hold bytes of a row, for every row.

    requests: [4, n] address, rows, bytes of a row and pitch, in bytes.
    """
    count = np.empty(requests.shape[1], np.int64)
    _count_transactions(np.ascontiguousarray(requests, np.int64), size, count)
    return count


@kernel
def _count_transactions(requests: Int64, size: int, count: Int64) -> None:
    for task in range(count.size):
        address, rows, row_bytes, pitch = requests[:, task]
        if pitch % size == 0:  # each row lies as the first one
            count[task] = rows * ((address % size + row_bytes - 1) // size + 1)
            continue
        count[task] = 0
        for row in range(rows):
            begin = address + row * pitch
            count[task] += (begin + row_bytes - 1) // size - begin // size + 1
