"""A slow, independent check of an executed Program: no task reads a byte before it is there, or after it is gone.

Everything is worked out element by element from the trace's views and the tile numbers in the Program; of the compiler
only the choices are used: groups, placement, tile sizes and places.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.spec import Arch
from accelsim.compile.fuse import Group
from accelsim.compile.program import (
    DRAIN,
    HOST,
    LEVEL2_LOAD,
    LEVEL2_STORE,
    LOAD,
    SPECIAL,
    STORE,
    STREAM,
    VECTOR,
    WEIGHTS,
    OperatorPlan,
    Program,
)
from accelsim.compile.work import ROW_KINDS
from accelsim.engine.timeline import Timeline
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace
from tests.compile.bank_walk import slot_bytes
from tests.compile.machines import Rules, groups_of, placement_of
from tests.compile.views import in_even_steps, request_bytes, view_elements

Int64 = NDArray[np.int64]
COMPUTED = (VECTOR, SPECIAL)
LOADS, STORES = (LOAD, LEVEL2_LOAD), (STORE, LEVEL2_STORE)


@dataclass
class Checker:
    """`check` raises AssertionError for the first read that is too early or too late."""

    arch: Arch
    trace: Trace
    program: Program
    timeline: Timeline
    rules: Rules = None

    def __post_init__(self) -> None:
        fusion, residency = self.program.notes["fusion"], self.program.notes["residency"]
        self.groups = groups_of(self.trace, self.arch, fusion, residency, self.rules)
        self.placement = placement_of(self.trace, self.arch, fusion, residency, self.rules)
        self.ready: dict[int, Int64] = {}  # tensor -> cycle at which each element is where readers look for it
        self.reads = 0  # reads checked: a check of nothing is no check

    @cached_property
    def plans(self) -> dict[int, OperatorPlan]:
        return {plan.op: plan for plan in self.program.plans}

    def check(self) -> int:
        """Check every group; the number of reads that were compared."""
        for group in self.groups:
            if self.plans[group.head.id].unit == "host":
                self.check_kernel(group)
                continue
            work = _MatmulTiles(self, group) if group.head.kind == "matmul" else _VectorTiles(self, group)
            work.check_reads()
            work.note_results()
        return self.reads

    def check_kernel(self, group: Group) -> None:
        """A kernel of the host finds all of its operands in DRAM."""
        (task,) = self.tasks(group, HOST)
        for view in group.inputs:
            assert self.placement.place_of(view.tensor) == "dram"
            self.expect_ready(view.tensor, view_elements(view).ravel(), task)
        for view in group.outputs:
            tensor = self.trace.tensors[view.tensor]
            self.ready[view.tensor] = np.full(tensor.elements, self.timeline.done[task], np.int64)

    def tasks(self, group: Group, *kinds: int) -> list[int]:
        return np.flatnonzero((self.program.op == group.head.id) & np.isin(self.program.kind, kinds)).tolist()

    def address(self, tensor: int) -> int:
        if tensor in self.placement.level2:
            return self.placement.level2[tensor].address
        return self.placement.dram_address[self.trace.tensors[tensor].storage]

    def transfers(self, group: Group, tensor: int, kinds: tuple[int, int]) -> list[int]:
        """Loads or stores of a tensor, told by their address."""
        low, size = self.address(tensor), self.trace.tensors[tensor].bytes
        kind = kinds[tensor in self.placement.level2]
        return [t for t in self.tasks(group, kind) if low <= self.program.address[t] < low + max(size, 1)]

    def expect_ready(self, tensor: int, elements: Int64, task: int) -> None:
        """The task starts no earlier than the elements it reads are complete."""
        if tensor in self.ready:
            needed = int(self.ready[tensor][elements].max())
            start = int(self.timeline.start[task])
            assert start >= needed, f"task {task} {self.program.tile[task]} reads tensor {tensor} at {start} < {needed}"
            self.reads += 1


class _Tiles:
    def __init__(self, checker: Checker, group: Group) -> None:
        self.checker = checker
        self.group = group
        self.program = checker.program
        self.start, self.released, self.done = (getattr(checker.timeline, n) for n in ("start", "released", "done"))

    def elements_of(self, position: int, task: int) -> Int64:
        """Elements of input `position` that the task's tile needs."""
        raise NotImplementedError

    def result_of(self, task: int) -> Int64:
        """Positions in the result, as one long row, of the task's tile."""
        raise NotImplementedError

    def label(self, task: int) -> tuple[int, ...]:
        return tuple(self.program.tile[task].tolist())

    def check_loads(self, position: int) -> list[int]:
        """Loads of an input fetch elements that are complete, the bytes of one tile and no others."""
        view = self.group.inputs[position]
        loads = self.checker.transfers(self.group, view.tensor, LOADS)
        for task in loads:
            elements = self.elements_of(position, task)
            self.checker.expect_ready(view.tensor, elements, task)
            fetched, tile = request_bytes(self.program, task), self.bytes_of(view.tensor, elements)
            assert np.array_equal(fetched, tile), f"load {task} {self.label(task)} does not fetch its tile's bytes"
        return loads

    def bytes_of(self, tensor: int, elements: Int64) -> Int64:
        width, base = DTYPE_BYTES[self.checker.trace.tensors[tensor].dtype], self.checker.address(tensor)
        return np.sort((base + np.unique(elements)[:, None] * width + np.arange(width)).ravel())

    def check_held(self, readers: list[tuple[int, int]], loads: list[int], position: int, slots: int) -> None:
        """Each reader (first task, last task) finds its elements in a slot that is not loaded anew before it ends."""
        fetches: dict[bytes, list[int]] = {}
        for number, load in enumerate(loads):
            fetches.setdefault(self.elements_of(position, load).tobytes(), []).append(number)
        for first, last in readers:
            same_tile = fetches.get(self.elements_of(position, first).tobytes(), [])
            there = [number for number in same_tile if self.done[loads[number]] <= self.start[first]]
            assert there, f"task {first} {self.label(first)} reads input {position} before any load of it is done"
            assert any(
                number + slots >= len(loads) or self.start[loads[number + slots]] >= self.released[last]
                for number in there
            ), f"task {first} {self.label(first)}: its slot of input {position} is loaded anew before it ends"
            self.checker.reads += 1

    def check_fetched(self, position: int, tiles: list[tuple[int, int]]) -> None:
        """Each tile finds its elements in a slot that was filled in time and is not loaded anew before it ends."""
        tensor = self.group.inputs[position].tensor
        width, base = DTYPE_BYTES[self.checker.trace.tensors[tensor].dtype], self.checker.address(tensor)
        loads = self.checker.transfers(self.group, tensor, LOADS)
        fetched = [np.unique((request_bytes(self.program, load) - base) // width) for load in loads]
        for load, elements in zip(loads, fetched, strict=True):
            self.checker.expect_ready(tensor, elements, load)
        for first, last in tiles:
            wanted = np.unique(self.elements_of(position, first))
            there = [n for n, load in enumerate(loads) if self.done[load] <= self.start[first]]
            assert any(
                np.isin(wanted, fetched[n]).all()
                and (n + 2 >= len(loads) or self.start[loads[n + 2]] >= self.released[last])
                for n in there
            ), f"task {first} {self.label(first)} reads input {position}, which is not there or no longer"
            self.checker.reads += 1

    def note_results(self) -> None:
        finishers = self.finishers()
        self.check_passes(finishers)
        for position, view in enumerate(self.group.outputs):
            place = self.checker.placement.place_of(view.tensor)
            tensor = self.checker.trace.tensors[view.tensor]
            ready = np.full(tensor.elements, -1, np.int64)
            where = view_elements(view).ravel()
            stores = self.checker.transfers(self.group, view.tensor, STORES) if place != "scratchpad" else finishers
            if place != "scratchpad":
                self.check_staging(stores)
            for task in stores:
                if place != "scratchpad":
                    self.check_store(task, view, finishers)
                ready[where[self.result_of(task)]] = self.done[task]
            assert (ready[where] >= 0).all(), f"group {self.group.head.name}: output {position} is not complete"
            self.checker.ready[view.tensor] = ready

    def check_passes(self, finishers: list[int]) -> None:
        """A pass over a tile begins when the one before on the same tile is done."""
        before: dict[tuple[int, ...], int] = {}
        for task in self.checker.tasks(self.group, *COMPUTED):
            tile = self.label(task)
            if tile in before:
                assert self.start[task] >= self.done[before[tile]], f"pass {task} {tile} begins too early"
            before[tile] = task

    def check_staging(self, stores: list[int]) -> None:
        """A tile takes a staging slot when the store of the tile that had it has read it."""
        writers = {self.label(task)[:3]: task for task in self.writers()}
        slots = 2 * self.checker.arch.array.count if self.group.head.kind == "matmul" else 2
        for store, later in zip(stores, stores[slots:], strict=False):
            writer = writers[self.label(later)[:3]]
            assert self.start[writer] >= self.released[store], f"task {writer} overwrites what store {store} reads"

    def writers(self) -> list[int]:
        """The task of each result tile that first writes its destination."""
        raise NotImplementedError

    def check_store(self, task: int, view: Operand, finishers: list[int]) -> None:
        elements = view_elements(view).ravel()[self.result_of(task)]
        written, tile = request_bytes(self.program, task), self.bytes_of(view.tensor, elements)
        assert np.array_equal(written, tile), f"store {task} {self.label(task)} does not write its tile's bytes"
        finished = [f for f in finishers if self.label(f)[:3] == self.label(task)[:3]]
        assert finished, f"store {task} has no finisher"
        assert all(self.start[task] >= self.done[f] for f in finished), f"store {task} before its tile is complete"

    def finishers(self) -> list[int]:
        raise NotImplementedError

    def check_reads(self) -> None:
        raise NotImplementedError


class _MatmulTiles(_Tiles):
    def __init__(self, checker: Checker, group: Group) -> None:
        super().__init__(checker, group)
        self.plan = checker.plans[group.head.id]
        a, b = group.head.inputs[:2]
        n, k = b.shape[-1], a.shape[-1]
        batch = 1 if len(b.shape) == 2 else int(np.prod(b.shape[:-2]))
        self.a = view_elements(a).reshape(batch, -1, k)
        self.b = view_elements(b).reshape(batch, k, n)
        self.out = np.arange(batch * self.a.shape[1] * n).reshape(batch, -1, n)
        self.sizes = {"m": self.a.shape[1], "n": n, "k": k}
        assert self.plan.tile is not None
        self.tile = dict(zip("mnk", self.plan.tile, strict=True))

    def part(self, name: str, index: int) -> slice:
        return slice(index * self.tile[name], (index + 1) * self.tile[name])

    def elements_of(self, position: int, task: int) -> Int64:
        batch, m, n, k = self.label(task)
        if position == 0:
            return self.a[batch, self.part("m", m), self.part("k", k)]
        if position == 1:
            return self.b[batch, self.part("k", k), self.part("n", n)]
        if position < len(self.group.head.inputs):
            bias = view_elements(self.group.inputs[2])
            return bias[self.part("n", n)] if self.bias_by_column else bias
        view = self.group.inputs[position]
        head = next(op for op in self.group.epilogue if op.kind in ROW_KINDS)
        whole = np.broadcast_to(view_elements(view), head.outputs[0].shape)
        return np.unique(whole.reshape(self.out.shape)[batch, self.part("m", m)])

    @property
    def bias_by_column(self) -> bool:
        """True for a bias of more than a quarter of the scratchpad."""
        view = self.group.inputs[2]
        width = DTYPE_BYTES[self.checker.trace.tensors[view.tensor].dtype]
        return 4 * width * view_elements(view).size > self.checker.arch.scratchpad.capacity_bytes

    def result_of(self, task: int) -> Int64:
        batch, m, n, _ = self.label(task)
        return self.out[batch, self.part("m", m), self.part("n", n)].ravel()

    def finish(self, *kinds: int) -> list[int]:
        """Tasks of some kinds at the last K tile."""
        last = -(-self.sizes["k"] // self.tile["k"]) - 1
        return [task for task in self.checker.tasks(self.group, *kinds) if self.label(task)[3] == last]

    def writers(self) -> list[int]:
        if self.plan.passes:
            return list({self.label(task): task for task in reversed(self.finish(*COMPUTED))}.values())
        return self.finish(STREAM if self.plan.dataflow == "os" else DRAIN)

    def check_passes(self, finishers: list[int]) -> None:
        """Also: the first pass, or the end of a drain, comes after the last sum."""
        super().check_passes(finishers)
        kind = DRAIN if self.plan.dataflow == "os" and self.plan.passes else STREAM
        sums = {self.label(task)[:3]: task for task in self.finish(kind)}
        if self.plan.unit in self.checker.arch.special_units:
            self.check_rows(sums)
            return
        for task in self.writers() if self.plan.passes else self.finish(DRAIN):
            ready = self.done[sums[self.label(task)[:3]]]
            begin = self.start[task] if self.plan.passes else self.done[task]
            assert begin >= ready, f"task {task} {self.label(task)} reads sums before they are complete"

    def check_rows(self, sums: dict[tuple[int, ...], int]) -> None:
        """A unit at the output takes no row before its last sum is there: rows leave the array a PE step apart."""
        unit = self.checker.arch.special_units[str(self.plan.unit)]
        dtypes = (self.checker.trace.tensors[view.tensor].dtype for view in self.group.head.inputs[:2])
        step = 1 / float(self.checker.arch.array.rate_of(*dtypes) or 1)
        limit = min(unit.elements_per_cycle, self.checker.arch.accumulator.drain_elements_per_cycle)
        for task in self.finish(SPECIAL):
            batch, m, n, _ = self.label(task)
            rows, cols = self.out[batch, self.part("m", m), self.part("n", n)].shape
            done = self.done[sums[self.label(task)[:3]]]
            for row in range(rows):
                taken = self.start[task] + row * -(-cols // limit) * unit.passes
                complete = done - (rows - 1 - row) * step
                by_rows = self.plan.unit in ROW_KINDS
                assert not by_rows or taken >= complete, f"task {task} takes row {row} at {taken} < {complete}"
            assert self.done[task] > done, f"task {task} ends before the last sum is there"
            self.checker.reads += 1

    def finishers(self) -> list[int]:
        """The last pass, or the drain, of each finished output."""
        tasks = self.finish(*(COMPUTED if self.plan.passes else (DRAIN,)))
        return list({self.label(task): task for task in tasks}.values())

    def slots(self, position: int) -> int:
        """Tiles of an operand held at once, by the bytes that its loads fill."""
        first, second = ("m", "k") if position == 0 else ("k", "n")
        width = DTYPE_BYTES[self.checker.trace.tensors[self.group.inputs[position].tensor].dtype]
        held, view = self.held("ab"[position]), self.group.inputs[position]
        size = slot_bytes(self.checker.arch, "ab"[position], view, self.tile[first], self.tile[second], width)
        slots, rest = divmod(held, size)
        assert slots, f"no slots of input {position}"
        assert not rest, f"slots of input {position} are no multiple of its tiles"
        return slots

    def held(self, name: str) -> int:
        """Bytes of an operand's slots."""
        return sum(
            allocation.bytes
            for allocation in self.program.allocations
            if allocation.name.rstrip("0123456789") == name
            and allocation.first_writer in self.checker.tasks(self.group, *LOADS)
        )

    def bias_slots(self) -> int:
        width = DTYPE_BYTES[self.checker.trace.tensors[self.group.inputs[2].tensor].dtype]
        return self.held("bias") // (self.tile["n"] * width) if self.bias_by_column else 1

    def check_reads(self) -> None:
        streams = self.checker.tasks(self.group, STREAM)
        seen = [self.label(task) for task in streams]
        trips = [-(-self.sizes[name] // self.tile[name]) for name in "mnk"]
        assert sorted(seen) == [(b, *i) for b in range(len(self.a)) for i in np.ndindex(*trips)], "a tile is missing"
        stationary = {"ws": 1, "is": 0, "os": None}[self.checker.arch.array.dataflow]
        weights = self.weights_of(streams, stationary)
        for position in (0, 1):
            readers = [(t, t) for t in streams]
            if position == stationary:  # a stream on weights that the array held already needs no slot
                readers = [(weights[t], t) for t in streams if self.label(weights[t]) == self.label(t)]
            self.check_input(position, readers)
        for position in range(2, len(self.group.inputs)):
            self.check_input(position, [(task, task) for task in self.finishers()])

    def check_input(self, position: int, readers: list[tuple[int, int]]) -> None:
        tensor = self.group.inputs[position].tensor
        if self.checker.placement.place_of(tensor) == "scratchpad":
            for first, _ in readers:
                self.checker.expect_ready(tensor, self.elements_of(position, first), first)
        elif position >= len(self.group.head.inputs):
            self.check_fetched(position, readers)
        else:
            loads = self.check_loads(position)
            slots = self.slots(position) if position < 2 else self.bias_slots()
            self.check_held(readers, loads, position, slots)

    def weights_of(self, streams: list[int], stationary: int | None) -> dict[int, int]:
        """For each stream the `weights` task whose weights it finds in its array: the latest before it."""
        if stationary is None:
            return {}
        result = {}
        names = [unit.name.rsplit(".", 1)[0] for unit in self.program.units]
        weights = self.checker.tasks(self.group, WEIGHTS)
        for stream in streams:
            array = names[self.program.unit[stream]]
            before = [w for w in weights if w < stream and names[self.program.unit[w]] == array]
            assert before, f"stream {stream} has no weights"
            result[stream] = before[-1]
            elements = self.elements_of(stationary, before[-1])
            assert np.array_equal(elements, self.elements_of(stationary, stream)), f"stream {stream}: wrong weights"
            assert self.done[before[-1]] <= self.start[stream], f"stream {stream} before its weights"
        return result


class _VectorTiles(_Tiles):
    def __init__(self, checker: Checker, group: Group) -> None:
        super().__init__(checker, group)
        plan = checker.plans[group.head.id]
        head = group.head
        self.shape = head.inputs[0].shape if head.kind == "reduce" else head.outputs[0].shape
        total = int(np.prod(self.shape))
        self.cols = total // int(np.prod(head.outputs[0].shape)) if head.kind == "reduce" else self.shape[-1]
        passes = checker.tasks(group, *COMPUTED)
        tiles = 1 + max(self.label(task)[1] for task in passes)
        assert plan.tile_rows is not None
        self.tile = plan.tile_rows * self.cols
        assert -(-total // self.tile) == tiles, "tiles of whole rows only"
        self.passes = passes
        self.per_tile = len(plan.passes)

    def part(self, task: int) -> slice:
        index = self.label(task)[1]
        return slice(index * self.tile, (index + 1) * self.tile)

    def elements_of(self, position: int, task: int) -> Int64:
        view = self.group.inputs[position]
        elements = view_elements(view)
        if self.group.head.kind == "gather":
            if position == 0:
                return elements.ravel()  # nobody knows which rows are read
            rows = self.part(task)
            return elements.ravel()[rows.start // self.cols : rows.stop // self.cols]
        if self.group.head.kind == "reduce":
            axes = [axis % elements.ndim for axis in self.group.head.attributes["axes"]]
            elements = np.moveaxis(elements, axes, range(-len(axes), 0))
        if elements.size == int(np.prod(self.shape)):
            return elements.ravel()[self.part(task)]
        return np.broadcast_to(elements, self.shape).ravel()[self.part(task)]

    def result_of(self, task: int) -> Int64:
        count = int(np.prod(self.group.outputs[0].shape))
        part = self.part(task)
        if count != int(np.prod(self.shape)):  # a reduction: one element a row
            part = slice(part.start // self.cols, part.stop // self.cols)
        return np.arange(count)[part]

    def finishers(self) -> list[int]:
        return self.passes[self.per_tile - 1 :: self.per_tile]

    def writers(self) -> list[int]:
        mixed = len(set(self.program.kind[self.passes].tolist())) > 1  # then the last pass alone writes the result
        return self.finishers() if mixed else self.passes[:: self.per_tile]

    def check_reads(self) -> None:
        tiles = list(zip(self.passes[:: self.per_tile], self.finishers(), strict=True))
        for position, view in enumerate(self.group.inputs):
            if self.checker.placement.place_of(view.tensor) == "scratchpad":
                for first, _ in tiles:
                    self.checker.expect_ready(view.tensor, self.elements_of(position, first), first)
            elif in_even_steps(view) and not (self.group.head.kind == "gather" and position == 0):
                self.check_fetched(position, tiles)
            else:  # what is fetched is known, but not where it lies
                for load in self.checker.transfers(self.group, view.tensor, LOADS):
                    self.checker.expect_ready(view.tensor, self.elements_of(position, load), load)


def check(arch: Arch, trace: Trace, program: Program, timeline: Timeline, rules: Rules = None) -> int:
    """Check a whole run; the number of reads that were compared."""
    return Checker(arch, trace, program, timeline, rules).check()
