"""Tasks per second of both engines on a synthetic Program: `python benchmarks/engines.py [TASKS]`.

The Program is a long chain of weight-stationary tiles, six tasks each (two loads, weights, stream, drain, store), with
double-buffered slots: the shape of edges that compile makes. The reference engine runs a shorter chain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from accelsim.compile.program import (
    BREAKDOWN,
    COUNTERS,
    DONE,
    DRAIN,
    LOAD,
    RELEASED,
    START,
    STORE,
    STREAM,
    WEIGHTS,
    Memory,
    Program,
    Unit,
)
from accelsim.engine import compiled, reference
from accelsim.engine.timeline import Timeline

UNITS = (
    Unit("core0.load0", "load"),
    Unit("core0.array0.weights", "weights"),
    Unit("core0.array0.stream", "stream"),
    Unit("core0.array0.drain", "drain"),
    Unit("core0.store0", "store"),
)
# One row a task of a tile: unit, kind, occupy, latency, bytes.
TILE = np.array(
    [
        (0, LOAD, 0, 0, 16384),
        (0, LOAD, 0, 0, 32768),
        (1, WEIGHTS, 128, 128, 0),
        (2, STREAM, 256, 510, 0),
        (3, DRAIN, 256, 257, 0),
        (4, STORE, 0, 0, 32768),
    ]
)
PER_TILE = len(TILE)
# Edges of a tile's tasks: consumer, tiles back, producer, event, lag. Slots are double-buffered: two tiles back.
EDGES = (
    (0, 2, 3, RELEASED, 0),
    (1, 2, 3, RELEASED, 0),
    (2, 0, 0, DONE, 0),
    (2, 1, 3, START, 0),
    (3, 0, 2, DONE, 0),
    (3, 0, 1, DONE, 0),
    (3, 2, 4, RELEASED, 0),
    (4, 0, 3, START, 254),
    (4, 2, 5, RELEASED, 0),
    (5, 0, 4, DONE, 0),
)


def synthetic_program(tasks: int, memory: Memory) -> Program:
    """About `tasks` tasks: whole tiles, one after the other."""
    tiles = tasks // PER_TILE
    size = tiles * PER_TILE
    rows = np.tile(TILE, (tiles, 1))
    edges = np.concatenate([_edges_of(tiles, *edge) for edge in EDGES])
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    breakdown = np.zeros((size, len(BREAKDOWN)), np.int64)
    breakdown[:, 0] = rows[:, 2]
    return Program(
        units=UNITS,
        memory=memory,
        unit=rows[:, 0].astype(np.int32),
        op=np.zeros(size, np.int32),
        kind=rows[:, 1].astype(np.int8),
        occupy=rows[:, 2].copy(),
        latency=rows[:, 3].copy(),
        breakdown=breakdown,
        macs=np.zeros(size, np.int64),
        counters=np.zeros((size, len(COUNTERS)), np.int64),
        tile=np.full((size, 4), -1, np.int32),
        address=np.zeros(size, np.int64),
        rows=(rows[:, 4] > 0).astype(np.int64),
        row_bytes=rows[:, 4].copy(),
        pitch=rows[:, 4].copy(),
        edge_begin=np.searchsorted(edges[:, 0], np.arange(size + 1)).astype(np.int64),
        edge_producer=edges[:, 1].astype(np.int32),
        edge_event=edges[:, 2].astype(np.int8),
        edge_lag=edges[:, 3].copy(),
    )


def _edges_of(tiles: int, consumer: int, back: int, producer: int, event: int, lag: int) -> np.ndarray:
    """[e, 4] consumer task, producer task, event, lag: this edge in every tile that has a tile so far back."""
    tile = np.arange(back, tiles)
    columns = (tile * PER_TILE + consumer, (tile - back) * PER_TILE + producer)
    return np.stack([*columns, np.full(tile.size, event), np.full(tile.size, lag)], axis=1)


def seconds(run: Callable[[Program], Timeline], program: Program, repeats: int) -> float:
    """The best of `repeats` runs: the one that other work on the machine disturbed least."""
    best = float("inf")
    for _ in range(repeats):
        before = time.perf_counter()
        run(program)
        best = min(best, time.perf_counter() - before)
    return best


def main(tasks: int) -> None:
    memories = {"ideal": Memory("ideal"), "bandwidth": Memory("bandwidth", Fraction(64), Fraction(64), 100, 2)}
    print(f"{'engine':<12}{'memory':<12}{'tasks':>10}{'seconds':>10}{'M tasks/s':>12}")
    for name, memory in memories.items():
        for engine, size, repeats in ((compiled, tasks, 5), (reference, min(tasks, 20_000), 1)):
            program = synthetic_program(size, memory)
            engine.run(synthetic_program(600, memory))  # compiles the kernels
            taken = seconds(engine.run, program, repeats)
            engine_name = engine.__name__.rpartition(".")[2]
            print(f"{engine_name:<12}{name:<12}{program.size:>10,}{taken:>10.4f}{program.size / taken / 1e6:>12.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
