"""How fast the DRAM controller runs: transactions a second, and clocks a second where most clocks are dead.

    python benchmarks/dram.py

One core. Each figure is the best of several runs, because other work on the machine only ever slows one down; the
kernels are compiled before the clock starts. Goals: 6 M transactions/s sequential, 2.5 M random, 50 M clocks/s paced.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware.dram import Controller, Device, preset, simulate_requests
from accelsim.hardware.dram.dma import RELEASED, advance, submit
from accelsim.hardware.dram.system import DramSystem, new_memory
from accelsim.jit import kernel

REPEATS = 15
REQUESTS = 100_000
PACE = 64  # clocks between two requests of the paced stream
TILE_ROWS, TILE_ROW_BYTES, TILE_PITCH = 128, 128, 768  # int8 tiles of a [768, 768] weight

DEVICES = {
    "ddr4_2400 x1": preset("ddr4_2400"),
    "ddr4_3200 x1": preset("ddr4_3200"),
    "hbm2_2000 x8": preset("hbm2_2000", channels=8),
    "lpddr5_6400 x1": preset("lpddr5_6400"),
    "lpddr4_2400 x1": preset("lpddr4_2400"),
    "ddr4_2400 per bank": preset("ddr4_2400", controller=Controller(front_end="per_bank")),
    "hbm2_2000 x8 per bank": preset("hbm2_2000", 8, controller=Controller(front_end="per_bank", dual_command=True)),
}


def main() -> None:
    print(f"{'M transactions/s':24}{'read':>9}{'write':>9}{'random':>9}{'2:1 mix':>9}{'tiles':>9}{'DMA':>9}", end="")
    print(f"{'paced, M clocks/s':>20}")
    for name, device in DEVICES.items():
        figures = [_rate(device, *stream) for stream in _streams(device)]
        figures.append(_dma_rate(device))
        print(f"{name:24}" + "".join(f"{figure / 1e6:9.2f}" for figure in figures), end="")
        print(f"{_paced_clocks(device) / 1e6:20.0f}", flush=True)


def _streams(device: Device) -> list[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    size = device.geometry.transaction_bytes
    sequential = np.arange(REQUESTS) * size
    random = np.random.default_rng(1).integers(0, 2**28 // size, REQUESTS) * size
    none, every = np.zeros(REQUESTS, bool), np.ones(REQUESTS, bool)
    thirds = np.arange(REQUESTS) % 3 == 2
    return [(sequential, none), (sequential, every), (random, none), (random, thirds), (_tiles(size), none)]


def _tiles(size: int) -> NDArray[np.int64]:
    """Tiles of a row-major matrix, row by row."""
    per_row = max(1, TILE_ROW_BYTES // size)
    number = np.arange(REQUESTS)
    row, column = number // per_row, number % per_row
    return row * TILE_PITCH + row // TILE_ROWS * TILE_ROW_BYTES + column * size


def _best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs; the first, which may compile, does not count."""
    run()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def _rate(device: Device, addresses: NDArray[np.int64], is_write: NDArray[np.bool_]) -> float:
    return addresses.size / _best(lambda: simulate_requests(device, addresses, is_write))


def _paced_clocks(device: Device) -> float:
    addresses = np.arange(20_000) * device.geometry.transaction_bytes
    seconds = _best(lambda: simulate_requests(device, addresses, False, interval=PACE))
    return addresses.size * PACE / seconds


def _dma_rate(device: Device) -> float:
    count = max(1, REQUESTS * device.geometry.transaction_bytes // (TILE_ROWS * max(TILE_ROW_BYTES, 128)))
    transactions = count * TILE_ROWS * max(1, TILE_ROW_BYTES // device.geometry.transaction_bytes)
    return transactions / _best(lambda: _play(new_memory(DramSystem(device, 1000, 1024), 1), count))


@kernel
def _play(memory, count):  # type: ignore[no-untyped-def]
    """One DMA queue loads tile after tile."""
    dma = memory.dma[0]
    cycle = np.int64(0)
    for task in range(count):
        submit(memory, 0, task, cycle, False, task * TILE_ROW_BYTES, TILE_ROWS, TILE_ROW_BYTES, TILE_PITCH)
        released = False
        while not released:
            for place in range(advance(memory, 2**40)):
                if dma.due[place].what == RELEASED:
                    released, cycle = True, dma.due[place].cycle


if __name__ == "__main__":
    main()
