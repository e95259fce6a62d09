"""Random Programs on which the two engines must agree: `accelsim verify engines`, and the property tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from accelsim.compile.program import (
    BREAKDOWN,
    COUNTERS,
    DONE,
    LOAD,
    RELEASED,
    START,
    STORE,
    TASK_KINDS,
    UNIT_CAUSES,
    Memory,
    Program,
    Unit,
)
from accelsim.engine import reference
from accelsim.engine.timeline import Progress, Timeline
from accelsim.hardware.dram import Controller, preset
from accelsim.hardware.dram.system import DramSystem

Edge = tuple[int, int, int]  # producer, event, lag in cycles

MAX_UNITS = 8
MAX_EDGES = 4
RATES = (None, *(Fraction(rate) for rate in (1, "1/3", "7/3", "3/7", 64, "2705/94", 10**12)))  # bytes per cycle
CYCLES = (0, 0, 1, 1, 2, 3, 7, 40)  # durations, lags and latencies; zero often, for everything at once
BYTES = (1, 2, 3, 7, 64, 100, 4096)
ROWS = (1, 1, 1, 2, 3, 17)
DEVICES = (
    preset("ddr4_2400"),
    preset("hbm2_2000", channels=4),
    preset("lpddr5_6400", channels=2, mapping="RoBaRaCoBgCh", channel_xor=False),
    preset("ddr3_2133", controller=Controller(front_end="per_bank")),
)


@dataclass
class ProgramBuilder:
    """Collects tasks one by one, for Programs written by hand; `program()` gives the arrays."""

    memory: Memory
    units: list[Unit] = field(default_factory=list)
    # unit, kind, occupy, latency, address, rows, row_bytes, pitch
    tasks: list[tuple[int, ...]] = field(default_factory=list)
    edges: list[list[Edge]] = field(default_factory=list)

    def unit(self, name: str, kind: str) -> int:
        """Add a unit; returns its index."""
        self.units.append(Unit(name, kind))
        return len(self.units) - 1

    def task(self, unit: int, occupy: int, latency: int | None = None, edges: Sequence[Edge] = ()) -> int:
        """Add a task of fixed duration (`latency` is `occupy` unless given); returns its id."""
        kind = TASK_KINDS.index(self.units[unit].kind.replace(".", "_"))
        return self._add((unit, kind, occupy, occupy if latency is None else latency, 0, 0, 0, 0), edges)

    def request(
        self, unit: int, size: int, edges: Sequence[Edge] = (), *, address: int = 0, rows: int = 1, gap: int = 0
    ) -> int:
        """Add a load or store by the unit's kind, of `rows` runs of `size` bytes with `gap` between; returns its id."""
        kind = STORE if self.units[unit].kind == "store" else LOAD
        return self._add((unit, kind, 0, 0, address, rows, size, size + gap), edges)

    def _add(self, task: tuple[int, ...], edges: Sequence[Edge]) -> int:
        self.tasks.append(task)
        self.edges.append(list(edges))
        return len(self.tasks) - 1

    def program(self) -> Program:
        """The Program so far; all of a task's `occupy` counts as useful."""
        size = len(self.tasks)
        columns = np.array(self.tasks, dtype=np.int64).reshape(size, 8)
        edges = np.array([edge for each in self.edges for edge in each], dtype=np.int64).reshape(-1, 3)
        breakdown = np.zeros((size, len(BREAKDOWN)), np.int64)
        breakdown[:, 0] = columns[:, 2]
        return Program(
            units=tuple(self.units),
            memory=self.memory,
            unit=columns[:, 0].astype(np.int32),
            op=np.zeros(size, np.int32),
            kind=columns[:, 1].astype(np.int8),
            occupy=columns[:, 2].copy(),
            latency=columns[:, 3].copy(),
            breakdown=breakdown,
            macs=np.zeros(size, np.int64),
            counters=np.zeros((size, len(COUNTERS)), np.int64),
            tile=np.full((size, 4), -1, np.int32),
            address=columns[:, 4].copy(),
            rows=columns[:, 5].copy(),
            row_bytes=columns[:, 6].copy(),
            pitch=columns[:, 7].copy(),
            edge_begin=np.cumsum([0, *map(len, self.edges)], dtype=np.int64),
            edge_producer=edges[:, 0].astype(np.int32),
            edge_event=edges[:, 1].astype(np.int8),
            edge_lag=edges[:, 2].copy(),
        )


def random_program(choose: random.Random, max_tasks: int = 40) -> Program:
    """A Program that keeps the contract and little else: any units, kinds, edges, lags, rates; zeros everywhere."""
    builder = ProgramBuilder(_random_memory(choose))
    kinds = sorted(UNIT_CAUSES)
    for index in range(choose.randint(1, MAX_UNITS)):
        kind = choose.choice(("load", "store", *kinds))
        builder.unit(f"core0.{kind}{index}", kind)
    for task in range(choose.randint(0, max_tasks)):
        unit = choose.randrange(len(builder.units))
        edges = _random_edges(choose, task)
        if builder.units[unit].kind in ("load", "store"):
            address, rows, gap = choose.randrange(5000), choose.choice(ROWS), choose.choice((0, 1, 60, 700))
            builder.request(unit, choose.choice(BYTES), edges, address=address, rows=rows, gap=gap)
        else:
            occupy = choose.choice(CYCLES)
            builder.task(unit, occupy, occupy + choose.choice(CYCLES), edges)
    return builder.program()


def _random_memory(choose: random.Random) -> Memory:
    model = choose.choice(("ideal", "bandwidth", "bandwidth", "pattern", "command", "command"))
    latency, issue = choose.choice(CYCLES), choose.choice(CYCLES)
    if model == "ideal":
        return Memory(model)
    if model == "bandwidth":
        load = choose.choice(RATES)
        store = load if choose.randrange(2) else choose.choice(RATES)
        return Memory(model, load, store, latency, issue)
    system = _random_system(choose)
    rate = system.peak_bytes_per_cycle
    return Memory(model, rate, rate, latency, issue, system)


def _random_system(choose: random.Random) -> DramSystem:
    return DramSystem(
        choose.choice(DEVICES),
        core_mhz=choose.choice((1000, 700, Fraction("940.1"))),
        outstanding=choose.choice((1, 5, 64)),
        path_clocks=choose.choice((0, 1, 60)),
        bytes_per_clock=choose.choice((None, None, Fraction(8), Fraction(100, 7))),
    )


def _random_edges(choose: random.Random, task: int) -> list[Edge]:
    count = choose.randint(0, min(task, MAX_EDGES))
    events = (START, RELEASED, DONE)
    return [
        (
            choose.randrange(max(0, task - choose.choice((3, 10, task))), task),
            choose.choice(events),
            choose.choice(CYCLES),
        )
        for _ in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both engines on one Program. `difference` is None if they agree, else says where first they do not."""

    name: str
    tasks: int
    edges: int
    memory: str
    total_cycles: int
    difference: str | None


def compare(program: Program, name: str, progress: Progress | None = None) -> Comparison:
    """Run `program` on both engines. Raises InternalError as they do."""
    from accelsim.engine import compiled

    fast, slow = compiled.run(program, progress), reference.run(program)
    difference = first_difference(fast, slow)
    return Comparison(name, program.size, program.edge_producer.size, program.memory.model, fast.total, difference)


def verify(count: int, seed: int = 0, progress: Progress | None = None) -> list[Comparison]:
    """Compare the engines on `count` random Programs, those of the seeds seed .. seed + count - 1."""
    rows = []
    for each in range(seed, seed + count):
        rows.append(compare(random_program(random.Random(each)), f"random {each}", progress))
        if progress is not None and len(rows) % 100 == 0:
            progress(f"{len(rows)} of {count} random Programs compared")
    return rows


def first_difference(fast: Timeline, slow: Timeline) -> str | None:
    """The first task and event in which two Timelines differ, None if they are equal."""
    for name in ("start", "released", "done", "served"):
        ours, theirs = getattr(fast, name), getattr(slow, name)
        unequal = np.flatnonzero(ours != theirs)
        if unequal.size:
            task = unequal[0]
            return f"task {task}: {name} is {ours[task]} compiled, {theirs[task]} reference"
    return None if fast.equals(slow) else f"total is {fast.total} compiled, {slow.total} reference"
