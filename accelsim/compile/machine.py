"""The machine as lowering sees it: its queues, their rates, and each client's share of the scratchpad's bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.spec import Arch
from accelsim.compile.program import Memory, Unit
from accelsim.hardware.vector import VectorUnit

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Machine:
    """An arch, with `shares` of the scratchpad's bandwidth (bytes a cycle) by client."""

    arch: Arch
    shares: Mapping[str, int]

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All queues, always in the same order."""
        arch = self.arch
        arrays = [
            Unit(f"core0.array{index}.{kind}", kind)
            for index in range(arch.array.count)
            for kind in ("weights", "stream", "drain")
        ]
        loads = [Unit(f"core0.load{index}", "load") for index in range(arch.dma.load_queues)]
        stores = [Unit(f"core0.store{index}", "store") for index in range(arch.dma.store_queues)]
        second = ("load", "store") if arch.second_level else ()
        level2 = [Unit(f"core0.level2.{kind}", f"level2.{kind}") for kind in second]
        return (*arrays, Unit("core0.vector", "vector"), *loads, *stores, *level2)

    @cached_property
    def unit_index(self) -> Mapping[str, int]:
        return {unit.name: index for index, unit in enumerate(self.units)}

    @cached_property
    def scratchpad_bytes(self) -> int:
        return self.arch.scratchpad.capacity_bytes

    @cached_property
    def accumulator_bytes(self) -> int:
        return self.arch.accumulator.capacity_bytes

    @property
    def vector(self) -> int:
        return self.unit_index["core0.vector"]

    def array_units(self, kind: str) -> Int64:
        """[arrays] the units of one kind."""
        names = [f"core0.array{index}.{kind}" for index in range(self.arch.array.count)]
        return np.array([self.unit_index[name] for name in names], np.int64)

    @cached_property
    def vector_unit(self) -> VectorUnit:
        """The vector unit's numbers with its share of the scratchpad's bandwidth."""
        vector = self.arch.vector
        return VectorUnit(vector.lanes, vector.rate, vector.pipeline_depth, self.shares.get("core0.vector"))

    @cached_property
    def memory(self) -> Memory:
        """The DRAM model for the engine; DMA never moves more than its share of the scratchpad's bandwidth."""
        if self.arch.dram.model == "ideal":
            return Memory("ideal")
        rate = _least(self.arch.dram_bytes_per_cycle(), self.shares.get("dma"))
        return Memory("bandwidth", rate, rate, self.arch.dram_latency_cycles(), self.arch.dma.issue_cycles)

    def queues(self, kind: str, count: int, phase: int) -> Int64:
        """Units [count] of consecutive transfers of a kind ("load", "level2.store", ...), queues taken in turn.

        `phase` is the queue of the first one. The second level has one queue a direction.
        """
        if kind.startswith("level2"):
            return np.full(count, self.unit_index[f"core0.{kind}"], np.int64)
        return self.unit_index[f"core0.{kind}0"] + (phase + np.arange(count, dtype=np.int64)) % self.queue_count(kind)

    def queue_count(self, kind: str) -> int:
        return self.arch.dma.load_queues if kind == "load" else self.arch.dma.store_queues

    def level2_columns(self, size: Int64, *, write: bool = False) -> dict[str, Int64]:
        """Task columns of [n] transfers of `size` bytes between the second level and the scratchpad: a fixed time each,
        within the client's share of the scratchpad."""
        client = "level2.store" if write else "level2.load"
        rate = _least(self.arch.second_level_bytes_per_cycle(write=write), self.shares.get(client))
        cycles = np.zeros_like(size) if rate is None else -(-(size * rate.denominator) // rate.numerator)
        counter = "level2_write_bytes" if write else "level2_read_bytes"
        return {"occupy": cycles, "latency": cycles, "useful": cycles, counter: size}


def _least(rate: Fraction | None, share: int | None) -> Fraction | None:
    limits = [Fraction(limit) for limit in (rate, share) if limit is not None]
    return min(limits) if limits else None
