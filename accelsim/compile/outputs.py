"""How a group's results leave it: into the resident tensor's bytes, or through a staging slot to DRAM or level 2."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.loads import PHASES
from accelsim.compile.machine import Machine
from accelsim.compile.produced import Finishers, Produced, produced_by
from accelsim.compile.program import DONE, LEVEL2_STORE, RELEASED, STORE
from accelsim.compile.requests import Tiles, tile_requests
from accelsim.compile.template import Block, Claim, Ports, first_by_unit, last_by_unit, merge_last
from accelsim.trace.matmul import Layout

Int64 = NDArray[np.int64]

_STORE_PHASE = PHASES - 16


@dataclass(frozen=True)
class Grid:
    """How the output tiles cut the tensor's [rows, cols]: block starts, and the block of each output tile."""

    cols: int
    row_starts: Int64
    col_starts: Int64
    row_block: Int64
    col_block: Int64


@dataclass(frozen=True)
class Target:
    """One output tensor: bytes of an element, elements of a full tile, and where each tile [outputs] lies in it."""

    element_bytes: int
    tile_elements: int
    layout: Layout
    tiles: Tiles
    grid: Grid


@dataclass(frozen=True)
class _Store:
    output: int
    place: str
    positions: Int64
    units: Int64


@dataclass
class Outputs:
    """The result tiles of a group, `outputs` many, each with a part of every output tensor of the group.

    `writer` is the position of the task that first writes a tile's destination, `finisher` of the one after which it
    is complete; both come with their units, the finisher with its occupy and latency. `point` is the finishing point.
    """

    ports: Ports
    targets: tuple[Target, ...]
    labels: NDArray[np.int32]
    point: Int64
    writer: Int64
    writer_unit: Int64
    finisher: Int64
    finisher_unit: Int64
    finisher_occupy: Int64
    finisher_latency: Int64
    writers: int = 1
    part: int = 0
    stores: list[_Store] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """Staging slots: two for each unit that writes results side by side."""
        return min(2 * self.writers, self.writer.size)

    @property
    def slot_bytes(self) -> int:
        """Bytes of one staging slot: a tile of each tensor that does not stay in the scratchpad."""
        staged = [target for index, target in enumerate(self.targets) if not self.ports.resident(index)]
        return sum(target.element_bytes * target.tile_elements for target in staged)

    @property
    def buffer_bytes(self) -> int:
        return self.slots * self.slot_bytes

    def emit_stores(self, machine: Machine, block: Block) -> int:
        """A store for each tile and destination; a staging slot is free once its stores have released it.

        Returns the number of DRAM stores.
        """
        phase = self.ports.store_phase
        for output, places in enumerate(self.ports.stored):
            for place in places:
                self._emit(machine, block, output, place, phase)
                phase += self.writer.size if place == "dram" else 0
        return phase - self.ports.store_phase

    def _emit(self, machine: Machine, block: Block, output: int, place: str, phase: int) -> None:
        target = self.targets[output]
        requests = tile_requests(target.tiles, target.layout, target.element_bytes)
        kind, name = (STORE, "store") if place == "dram" else (LEVEL2_STORE, "level2.store")
        units = machine.queues(name, self.writer.size, phase)
        fixed = {} if kind == STORE else machine.level2_columns(requests.bytes, write=True)
        positions = block.add(
            kind, units, self.point * PHASES + _STORE_PHASE + len(self.stores), tile=self.labels, part=self.part,
            address=requests.address, rows=requests.rows, row_bytes=requests.row_bytes, pitch=requests.pitch,
            operand=self.ports.operand(len(self.ports.inputs) + output, place), scratchpad_read_bytes=requests.bytes,
            **fixed,
        )  # fmt: skip
        block.edge(positions, self.finisher, DONE)
        if not self.ports.resident(output) and positions.size > self.slots:
            block.edge(self.writer[self.slots :], positions[: -self.slots], RELEASED)
        self.stores.append(_Store(output, place, positions, units))

    def produced(self, ids: Int64) -> tuple[Produced, ...]:
        """Who finishes each output tensor in the place where later groups read it."""
        found = []
        for output, place in enumerate(self.ports.outputs):
            tasks = Finishers(self.finisher_unit, ids[self.finisher], self.finisher_occupy, self.finisher_latency)
            for store in self.stores:
                if store.output == output and store.place == place:
                    none = np.zeros(store.positions.size, np.int64)
                    tasks = Finishers(store.units, ids[store.positions], none, none)
            grid = self.targets[output].grid
            found.append(
                produced_by(grid.cols, grid.row_starts, grid.col_starts, grid.row_block, grid.col_block, tasks)
            )
        return tuple(found)

    def claims(self, ids: Int64, offset: int) -> list[Claim]:
        """The staging slots, from `offset` on, and the bytes of outputs that stay on chip."""
        slots = self.slots if self.slot_bytes else 0
        result = [self._staging(ids, offset + slot * self.slot_bytes, slot) for slot in range(slots)]
        for output in range(len(self.targets)):
            if self.ports.resident(output):
                result.append(self._resident(ids, output))
        return result + [self._in_level2(ids, store) for store in self.stores if store.place == "level2"]

    def dram_stores(self, ids: Int64) -> list[tuple[int, dict[int, int], dict[int, int]]]:
        """(output, first store, last store on each unit) of each output that is stored to DRAM."""
        found = []
        for store in self.stores:
            if store.place == "dram":
                own = ids[store.positions]
                found.append((store.output, first_by_unit(store.units, own), last_by_unit(store.units, own)))
        return found

    def _staging(self, ids: Int64, offset: int, slot: int) -> Claim:
        own = np.flatnonzero(np.arange(self.writer.size) % self.slots == slot)
        waits = first_by_unit(self.writer_unit[own], ids[self.writer[own]])
        last: dict[int, int] = {}
        for store in self.stores:
            if not self.ports.resident(store.output):
                merge_last(last, last_by_unit(store.units[own], ids[store.positions[own]]))
        first = int(ids[self.writer[own]].min())
        return Claim("scratchpad", f"out{slot}", self.slot_bytes, offset, -1, list(waits.values()), first, last)

    def _resident(self, ids: Int64, output: int) -> Claim:
        waits = first_by_unit(self.writer_unit, ids[self.writer])
        last = last_by_unit(self.finisher_unit, ids[self.finisher])
        for store in self.stores:
            if store.output == output:
                merge_last(last, last_by_unit(store.units, ids[store.positions]))
        first = int(ids[self.writer].min())
        return Claim("scratchpad", "", 0, 0, output, list(waits.values()), first, last)

    def _in_level2(self, ids: Int64, store: _Store) -> Claim:
        own = ids[store.positions]
        waits = list(first_by_unit(store.units, own).values())
        return Claim("level2", "", 0, 0, store.output, waits, int(own.min()), last_by_unit(store.units, own))
