"""Stamps Templates into the Program: gives ids and addresses, and connects each group to those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.fuse import Group
from accelsim.compile.machine import Machine
from accelsim.compile.place import Placement
from accelsim.compile.produced import Produced
from accelsim.compile.program import DONE, RELEASED, START, OperatorPlan, Program
from accelsim.compile.spaces import Holder, Space
from accelsim.compile.template import ArrayBegin, ArrayEnd, Claim, Template, merge_last
from accelsim.hardware import systolic
from accelsim.trace.model import Trace

Int64 = NDArray[np.int64]


EdgeArrays = tuple[Int64, Int64, NDArray[np.int8], Int64]  # consumer, producer, event, lag


@dataclass
class _Edges:
    """Edges between groups: whole classes as arrays, and single ones."""

    classes: list[EdgeArrays] = field(default_factory=list)
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, consumer: Int64, producer: Int64, event: NDArray[np.int8], lag: Int64) -> None:
        self.classes.append((consumer, producer, event, lag))

    def one(self, consumer: int, producer: int, event: int, lag: int = 0) -> None:
        self.rows.append((consumer, producer, event, lag))

    def arrays(self) -> list[EdgeArrays]:
        single = np.array(self.rows, np.int64).reshape(-1, 4)
        return [*self.classes, (single[:, 0], single[:, 1], single[:, 2].astype(np.int8), single[:, 3])]


class Stamper:
    """Carries from one group to the next: who wrote what, who holds which bytes, what each array ended with."""

    def __init__(self, machine: Machine, trace: Trace, placement: Placement) -> None:
        arch = machine.arch
        self.machine = machine
        self.trace = trace
        self.placement = placement
        second = arch.second_level.capacity_bytes if arch.second_level else 0
        self.spaces = {
            "scratchpad": Space("scratchpad", arch.scratchpad.capacity_bytes),
            "accumulator": Space("accumulator", arch.accumulator.capacity_bytes),
            "level2": Space("level2", second),
        }
        self.size = 0
        self.transfers = {"load": 0, "store": 0}
        self._stamps: list[tuple[Template, Int64, int, Int64]] = []  # template, operators, base, operand addresses
        self._edges = _Edges()
        self._written: dict[int, tuple[Produced, int]] = {}  # tensor -> its writers, and the base of their ids
        self._held: dict[int, Holder] = {}  # tensor on chip -> its bytes
        self._ends: dict[int, ArrayEnd] = {}
        self._rewritten = {tensor.storage for tensor in trace.tensors if tensor.version > 0}
        self._users: dict[int, dict[int, int]] = {}  # rewritten storage -> the last task on each unit that used it
        self._served: list[int] = []  # the compute task that each of the latest loads serves
        self._writers: dict[tuple[int, int, int], EdgeArrays] = {}

    def phases(self) -> tuple[int, int]:
        """The DMA queues whose turn it is: (load, store)."""
        queues = self.machine.queue_count
        return self.transfers["load"] % queues("load"), self.transfers["store"] % queues("store")

    def stamp(self, template: Template, group: Group, index: int) -> None:
        """Add one group's tasks; `index` is the group's place among all groups."""
        base = self.size
        self._stamps.append((template, np.array(group.parts, np.int64), base, self._addresses(group)))
        self._wait_for_writers(template, group, base)
        self._claim(template, group, index, base)
        self._wait_on_arrays(template, base)
        self._limit_prefetch(template, base)
        for number, view in enumerate(group.outputs):
            self._written[view.tensor] = (template.produced[number], base)
        self._overwrite(template, group, base)
        for number, last in template.touched_inputs:
            self._touch(group.inputs[number].tensor, {unit: task + base for unit, task in last.items()})
        self.transfers["load"] += template.loads.size
        self.transfers["store"] += template.stores
        self.size += template.size

    def _addresses(self, group: Group) -> Int64:
        """Byte address of each operand's storage in DRAM, then of each operand's tensor in the second level."""
        views = (*group.inputs, *group.outputs)
        dram = [self.placement.dram_address[self.trace.tensors[view.tensor].storage] for view in views]
        level2 = self.placement.level2
        second = [level2[view.tensor].address if view.tensor in level2 else 0 for view in views]
        return np.array([*dram, *second, 0], np.int64)

    def _touch(self, tensor: int, last: dict[int, int]) -> None:
        """Note the last readers of a tensor's bytes where it lies."""
        if self.placement.place_of(tensor) != "dram":
            (self._held.get(tensor) or self._initial(tensor)).touch(last)
        elif (storage := self.trace.tensors[tensor].storage) in self._rewritten:
            merge_last(self._users.setdefault(storage, {}), last)

    def _overwrite(self, template: Template, group: Group, base: int) -> None:
        """The first stores of a new version of a storage wait for all who read or wrote the old ones."""
        for number, first, last in template.dram_stores:
            storage = self.trace.tensors[group.outputs[number].tensor].storage
            if storage in self._rewritten:
                users = self._users.setdefault(storage, {})
                for task in first.values():
                    for user in users.values():
                        self._edges.one(task + base, user, DONE)
                merge_last(users, {unit: task + base for unit, task in last.items()})

    def _wait_for_writers(self, template: Template, group: Group, base: int) -> None:
        for number, read in enumerate(template.reads):
            written = self._written.get(group.inputs[read.input].tensor)
            if written is None:
                continue
            produced, producer_base = written
            consumer, producer, event, lag = self._writers_of(template, number, produced)
            self._edges.add(consumer + base, producer + producer_base, event, lag)

    def _writers_of(self, template: Template, number: int, produced: Produced) -> EdgeArrays:
        """Edges, relative on both sides, from the writers of what a read touches; recurring pairs are looked up."""
        key = (id(template), number, id(produced))
        if key not in self._writers:
            read = template.reads[number]
            ids, lags = produced.writers(read.offset, read.spans)
            consumers = np.broadcast_to(read.consumers, ids.shape)
            keep = ids >= 0
            event = np.full(int(keep.sum()), DONE, np.int8)
            self._writers[key] = (consumers[keep], ids[keep], event, lags[keep])
        return self._writers[key]

    def _initial(self, tensor: int) -> Holder:
        """Claim the bytes of a tensor that is on chip from the start."""
        place = self.placement.place_of(tensor)
        region = (self.placement.scratchpad if place == "scratchpad" else self.placement.level2)[tensor]
        name = self.trace.tensors[tensor].name
        self._held[tensor], _ = self.spaces[place].claim(name, region.address, region.bytes)
        return self._held[tensor]

    def _claim(self, template: Template, group: Group, index: int, base: int) -> None:
        """Take the group's bytes; the first tasks that write them wait until the tasks before have released them."""
        low = {"scratchpad": self.placement.resident_top[index]}
        chunk = {
            space: self.spaces[space].take(size, low.get(space, 0)) if size else 0
            for space, size in template.chunks.items()
        }
        for claim in template.claims:
            holder, blockers = self._holder(claim, group, chunk)
            holder.first_writer = claim.first_writer + base
            holder.touch({unit: task + base for unit, task in claim.last.items()})
            for task in claim.waits:
                for blocker in blockers.values():
                    self._edges.one(task + base, blocker, RELEASED)

    def _holder(self, claim: Claim, group: Group, chunk: dict[str, int]) -> tuple[Holder, dict[int, int]]:
        if claim.output < 0:
            return self.spaces[claim.space].claim(claim.name, chunk[claim.space] + claim.offset, claim.size)
        tensor = group.outputs[claim.output].tensor
        regions = self.placement.scratchpad if claim.space == "scratchpad" else self.placement.level2
        region = regions[tensor]
        name = self.trace.tensors[tensor].name
        self._held[tensor], blockers = self.spaces[claim.space].claim(name, region.address, region.bytes)
        return self._held[tensor], blockers

    def _wait_on_arrays(self, template: Template, base: int) -> None:
        for array, begin in template.begins.items():
            end = self._ends.get(array)
            if end is not None:
                producer, event, lag = _array_wait(begin, end)
                self._edges.one(begin.task + base, producer, event, lag)
        for array, end in template.ends.items():
            self._ends[array] = ArrayEnd(end.task + base, end.event, end.lag, end.last + base, end.params, end.tile)

    def _limit_prefetch(self, template: Template, base: int) -> None:
        """The first loads wait for the start of the task that the load `prefetch_window` places before them serves."""
        window = self.machine.arch.dma.prefetch_window
        ahead = window - len(self._served)  # loads until the window reaches back to the first load remembered
        for position in range(max(0, ahead), min(window, template.loads.size)):
            self._edges.one(int(template.loads[position]) + base, self._served[position - ahead], START)
        self._served = [*self._served, *(template.served[-window:] + base).tolist()][-window:]

    def finish(self, plans: Sequence[OperatorPlan], shares: Mapping[str, int], notes: Mapping[str, Any]) -> Program:
        """The finished, checked Program."""
        consumer, producer, event, lag = self._all_edges()
        order = np.lexsort((producer, consumer))
        begin = np.zeros(self.size + 1, np.int64)
        np.cumsum(np.bincount(consumer, minlength=self.size), out=begin[1:])
        columns = {
            name: self._column(name)
            for name in self._stamps[0][0].columns
            if name not in ("address", "operand", "part")
        }
        program = Program(
            units=self.machine.units, memory=self.machine.memory, plans=tuple(sorted(plans, key=lambda p: p.op)),
            op=self._operators(), address=self._addressed(),
            allocations=tuple(a for space in self.spaces.values() for a in space.allocations()),
            edge_begin=begin, edge_producer=producer[order].astype(np.int32), edge_event=event[order],
            edge_lag=lag[order], bandwidth_shares=shares, notes=notes, **columns,
        )  # fmt: skip
        program.check()
        return program

    def _column(self, name: str) -> Any:
        return np.concatenate([template.columns[name] for template, *_ in self._stamps])

    def _operators(self) -> NDArray[np.int32]:
        """The trace operator of each task."""
        return np.concatenate([parts[t.columns["part"]] for t, parts, *_ in self._stamps]).astype(np.int32)

    def _addressed(self) -> Int64:
        """Byte address of each task's request: its operand's tensor plus the offset in it."""
        parts = [t.columns["address"] + found[t.columns["operand"]] for t, _, _, found in self._stamps]
        return np.concatenate(parts)

    def _all_edges(self) -> EdgeArrays:
        inner = [(e[0] + base, e[1] + base, e[2], e[3]) for t, _, base, _ in self._stamps for e in (t.edges,)]
        consumer, producer, event, lag = zip(*inner, *self._edges.arrays(), strict=True)
        return np.concatenate(consumer), np.concatenate(producer), np.concatenate(event), np.concatenate(lag)


def _array_wait(begin: ArrayBegin, end: ArrayEnd) -> tuple[int, int, int]:
    """Producer, event and lag that a group's first task on an array waits for.

    At another rate (other operand types) the array must be empty first: a faster wave would overtake a slower one. So
    must it be in another dataflow: the registers are used in another way.
    """
    if (begin.params.rate, begin.params.dataflow) != (end.params.rate, end.params.dataflow):
        return end.last, DONE, 0
    if end.params.dataflow == "os":
        return end.task, START, int(systolic.next_stream_lag(end.params, *end.tile, begin.steps)) + end.lag
    return end.task, end.event, end.lag
