"""The machine as lowering sees it: its queues, their rates, and each client's share of the scratchpad's bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.spec import Arch
from accelsim.arch.units import exact
from accelsim.compile.program import Memory, Unit
from accelsim.compile.work import ROW_KINDS
from accelsim.errors import InputError, InternalError
from accelsim.hardware.dram import preset
from accelsim.hardware.dram.device import MAX_CLOCKS
from accelsim.hardware.dram.system import DramSystem
from accelsim.hardware.host import HostProcessor
from accelsim.hardware.special import SpecialUnit
from accelsim.hardware.vector import VectorUnit

Int64 = NDArray[np.int64]

MOST_CLOCKS_PER_CYCLE = 10_000  # a DRAM that runs every command is refreshed every few thousand clocks


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
        vector = [Unit("core0.vector", "vector")] if arch.vector is not None else []
        special = [Unit(f"core0.{kind}", "special") for kind in arch.special_units]
        host = [Unit("core0.host", "host")] if arch.vector is None else []
        return (*arrays, *vector, *loads, *stores, *level2, *special, *host)

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
        if vector is None:
            raise InternalError("work for a vector unit on a machine without one")
        return VectorUnit(vector.lanes, vector.rate, vector.pipeline_depth, self.shares.get("core0.vector"))

    def special(self, kind: str) -> SpecialUnit:
        """A dedicated unit's numbers with its share of the scratchpad's bandwidth."""
        unit = self.arch.special_units[kind]
        rate, share = exact(unit.elements_per_cycle), self.shares.get(f"core0.{kind}")
        return SpecialUnit(rate, unit.passes, unit.latency, kind in ROW_KINDS, share)

    @cached_property
    def host(self) -> HostProcessor:
        """The host's numbers in core cycles."""
        host, hertz = self.arch.host, self.arch.clock_hz
        if host is None:
            raise InternalError("work for a host on a machine without one")
        rates = {name: exact(rate) * 10**9 / hertz for name, rate in host.rate_gops.items()}
        latency = ceil(exact(host.kernel_latency_us) * hertz / 10**6)
        return HostProcessor(rates, latency, self.arch.dram_bytes_per_cycle())

    @cached_property
    def memory(self) -> Memory:
        """The DRAM model for the engine; DMA never moves more than its share of the scratchpad's bandwidth."""
        arch = self.arch
        if arch.dram.model == "ideal":
            return Memory("ideal")
        rate = _least(arch.dram_bytes_per_cycle(), self.shares.get("dma"))
        system = dram_system(arch, rate) if arch.dram.by_command else None
        if system is not None:
            rate = _least(rate, system.peak_bytes_per_cycle)
        memory = Memory(arch.dram.model, rate, rate, arch.dram_latency_cycles(), arch.dma.issue_cycles, system)
        return memory.by_pattern if arch.dram.model == "pattern" else memory

    def queues(self, kind: str, count: int, phase: int) -> Int64:
        """Units [count] of consecutive transfers of a kind ("load", "level2.store", ...), queues taken in turn.

        `phase` is the queue of the first one. The second level has one queue a direction.
        """
        if kind.startswith("level2"):
            return np.full(count, self.unit_index[f"core0.{kind}"], np.int64)
        return self.unit_index[f"core0.{kind}0"] + (phase + np.arange(count, dtype=np.int64)) % self.queue_count(kind)

    def queue_count(self, kind: str) -> int:
        return self.arch.dma.load_queues if kind == "load" else self.arch.dma.store_queues

    def level2_rate(self, *, write: bool) -> Fraction | None:
        """Bytes a cycle between the second level and the scratchpad, None for unlimited."""
        share = self.shares.get("level2.store" if write else "level2.load")
        return _least(self.arch.second_level_bytes_per_cycle(write=write), share)

    def level2_columns(self, size: Int64, *, write: bool = False) -> dict[str, Int64]:
        """Task columns of [n] transfers of `size` bytes between the second level and the scratchpad: a fixed time each,
        within the client's share of the scratchpad."""
        rate = self.level2_rate(write=write)
        cycles = np.zeros_like(size) if rate is None else -(-(size * rate.denominator) // rate.numerator)
        counter = "level2_write_bytes" if write else "level2_read_bytes"
        return {"occupy": cycles, "latency": cycles, "useful": cycles, counter: size}


def dram_system(arch: Arch, bytes_per_cycle: Fraction | None) -> DramSystem:
    """The machine's DRAM by command, and the way to it, which carries `bytes_per_cycle` (None: more than the DRAM).

    The core sees the clock that follows from the data rate; the device's timings are whole clocks of the standard.
    """
    dram = arch.dram
    device = preset(dram.preset, dram.channels, dram.mapping, dram.channel_xor)
    controller = replace(device.controller, front_end=dram.front_end, scheduler=dram.scheduler)
    timing = device.timing if dram.refresh else replace(device.timing, refi=0)
    device = replace(device, controller=controller, timing=timing)
    peak = exact(device.peak_bytes_per_clock)
    dram_mhz = dram.device.channel_gbps * dram.channels * 1000 / peak
    clocks_per_cycle = dram_mhz / exact(arch.clock_mhz)
    path_clocks = max(0, ceil((exact(dram.latency_ns) - exact(dram.device.latency_ns)) * dram_mhz / 1000))
    if clocks_per_cycle > MOST_CLOCKS_PER_CYCLE:
        raise _too_much(
            arch, "clock_mhz", arch.clock_mhz, f"a core cycle is {float(clocks_per_cycle):,.0f} DRAM clocks"
        )
    if path_clocks > MAX_CLOCKS:
        raise _too_much(arch, "dram.latency_ns", dram.latency_ns, f"that is {path_clocks:,} DRAM clocks")
    per_clock = None if bytes_per_cycle is None else bytes_per_cycle / clocks_per_cycle
    return DramSystem(
        device,
        exact(arch.clock_mhz),
        arch.dma.outstanding,
        dram_mhz,
        path_clocks=path_clocks,
        issue_cycles=arch.dma.issue_cycles,
        bytes_per_clock=None if per_clock is None or per_clock >= peak else per_clock,
    )


def _too_much(arch: Arch, key: str, value: float, what: str) -> InputError:
    remedy = f"use another {key}, or dram.model bandwidth"
    return InputError(f"{what}, too many to run every command", where=arch.where(key), value=value, remedy=remedy)


def _least(rate: Fraction | None, share: Fraction | int | None) -> Fraction | None:
    limits = [Fraction(limit) for limit in (rate, share) if limit is not None]
    return min(limits) if limits else None
