"""Lowers a group whose head runs on the vector unit: one task for each pass over each tile of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.spec import Arch
from accelsim.compile.across import strided_pass_cycles
from accelsim.compile.assemble import Scratch, assemble
from accelsim.compile.feed import Feed
from accelsim.compile.fuse import contiguous, elements
from accelsim.compile.loads import PHASES
from accelsim.compile.machine import Machine
from accelsim.compile.outputs import Grid, Outputs, Target
from accelsim.compile.passes import emit_passes
from accelsim.compile.program import RELEASED
from accelsim.compile.requests import Tiles
from accelsim.compile.template import Block, Ports, Template
from accelsim.compile.unit_times import UnitTimes
from accelsim.compile.views import (
    Access,
    block_access,
    block_elements,
    gather_access,
    reduce_access,
    stream_access,
    whole_access,
)
from accelsim.compile.work import VectorInput, VectorWork
from accelsim.errors import InputError
from accelsim.trace.matmul import Layout
from accelsim.trace.model import Operand

Int64 = NDArray[np.int64]

_TILES_WANTED = 8  # tiles an operator is cut in, so that its neighbours can overlap with it
_SHORTEST_TILE_CYCLES = 64  # but none shorter than this many cycles of the simplest pass


@dataclass(frozen=True)
class RowTiling:
    """Elements of one tile: whole rows of a row-structured operator, any number of another's.

    `blocked` are the broadcast inputs that are too large to keep whole: each tile fetches the part that it reads.
    """

    tile_elements: int
    blocked: frozenset[int] = frozenset()


def choose_rows(work: VectorWork, free_bytes: int, arch: Arch, ports: Ports) -> RowTiling:
    """The tile of a vector operator: about eight of them, as far as double-buffered operands and results fit.

    Raises InputError when a single row (or element) does not fit.
    """
    loaded = [index for index, place in enumerate(ports.inputs) if place != "scratchpad"]
    blocked = _blocked(work, loaded, free_bytes // 2)
    items = [(work.inputs[index], index in blocked) for index in loaded]
    whole = sum(elements(item.view) * item.bytes for item, block in items if item.role == "whole" and not block)
    staged = sum(width for index, width in enumerate(work.out_bytes) if not ports.resident(index))
    streamed = sum(item.bytes for item, block in items if item.role == "stream" or block)
    element = 2 * (staged + streamed) + work.scratch_bytes
    row = 2 * sum(item.bytes for item, _ in items if item.role == "row")
    by_rows = work.row_structured or any(item.role == "row" for item in work.inputs)
    unit = work.cols if by_rows or blocked else 1
    total, unit_bytes = work.rows * work.cols, unit * element + row
    fitting = (free_bytes - whole) // unit_bytes if unit_bytes else total // unit
    if free_bytes < whole or fitting < 1:
        raise _too_large(work, unit, whole + unit_bytes, free_bytes, arch.where("scratchpad.capacity_kib"))
    wanted = max(-(-total // _TILES_WANTED), _SHORTEST_TILE_CYCLES * _elements_per_cycle(work, arch), work.cols)
    tile = min(-(-wanted // unit), fitting, total // unit) * unit
    if tile > work.cols:
        tile -= tile % work.cols
    elif any(item.role == "stream" and not contiguous(item.view, ignore_offset=True) for item in work.inputs):
        tile = _largest_divisor(work.cols, tile)  # parts of one row of a strided view
    for index in blocked:  # no tile may cross the end of a block
        tile = work.cols * _largest_divisor(
            block_elements(work.inputs[index].view, work.shape) // work.cols, tile // work.cols
        )
    return RowTiling(tile, blocked)


def _elements_per_cycle(work: VectorWork, arch: Arch) -> int:
    """Elements that the group's unit takes a cycle in the simplest pass."""
    if (unit := arch.special_units.get(work.unit)) is not None:
        return math.ceil(unit.elements_per_cycle)
    return arch.vector.lanes if arch.vector is not None else 1


def _blocked(work: VectorWork, loaded: list[int], limit: int) -> frozenset[int]:
    """The broadcast inputs to fetch tile by tile: the largest ones, until the others fit `limit` bytes."""
    sizes = {i: elements(work.inputs[i].view) * work.inputs[i].bytes for i in loaded if work.inputs[i].role == "whole"}
    found: set[int] = set()
    for index in sorted(sizes, key=lambda i: -sizes[i]):
        rest = sum(size for i, size in sizes.items() if i not in found)
        if rest > limit and block_elements(work.inputs[index].view, work.shape) % work.cols == 0:
            found.add(index)
    return frozenset(found)


def _largest_divisor(total: int, most: int) -> int:
    return next(size for size in range(min(total, most), 0, -1) if total % size == 0)


def lower_vector(machine: Machine, work: VectorWork, tiling: RowTiling, ports: Ports) -> Template:
    """The tasks of a group on the vector unit."""
    return _Lowering(machine, work, tiling, ports).template()


class _Lowering:
    """One group; tiles are the points. Arrays over tiles are [T]."""

    def __init__(self, machine: Machine, work: VectorWork, tiling: RowTiling, ports: Ports) -> None:
        self.machine = machine
        self.work = work
        self.ports = ports
        self.tile = tiling.tile_elements
        self.blocked = tiling.blocked
        total = work.rows * work.cols
        self.begin = np.arange(0, total, self.tile, dtype=np.int64)
        self.length = np.minimum(self.tile, total - self.begin)
        self.count = self.begin.size
        self.whole_rows = self.tile % work.cols == 0
        self.labels = np.full((self.count, 4), -1, np.int32)
        self.labels[:, 1] = np.arange(self.count)
        self.block = Block()

    def template(self) -> Template:
        passes, self.times = self._emit_passes()
        self.first, self.last, self.unit = passes[0], passes[-1], self.times.unit
        feeds = [self._feed(number, item) for number, item in enumerate(self.work.inputs)]
        scratch = self.work.scratch_bytes * self.tile
        kept = Scratch(scratch, int(self.first[0]), int(self.last[-1]), self.unit)
        return assemble(self.machine, self.block, feeds, self._outputs(), self.first, [kept])[0]

    def _emit_passes(self) -> tuple[list[Int64], UnitTimes]:
        """Positions [T] of each pass, and the last one's times. A pass waits for the one before on the same tile."""
        rows, cols = (self.length // self.work.cols, self.work.cols) if self.whole_rows else (self.length, 1)
        emitted, times = emit_passes(
            self.machine, self.block, self.work.passes, (rows, cols), np.arange(self.count) * PHASES,
            at_least=self._conflict(), tile=self.labels,
        )  # fmt: skip
        if len(self.work.units) > 1:  # what the first unit leaves takes two slots in turn
            self.block.edge(emitted[0][2:], emitted[-1][:-2], RELEASED)
        return emitted, times

    def _conflict(self) -> Int64:
        """[T] cycles that the banks need for a transpose to read its tiles; 0 for any other operator."""
        if self.work.group.head.kind != "transpose":
            return np.zeros(self.count, np.int64)
        item, place = self.work.inputs[0], self.ports.inputs[0]
        return strided_pass_cycles(self.machine.arch, item.view, item.bytes, self._access(0, item).requests, place)

    def _feed(self, number: int, item: VectorInput) -> Feed:
        held = item.role == "whole" and number not in self.blocked
        access, place = self._access(number, item), self.ports.inputs[number]
        size = {"row": -(-self.tile // self.work.cols)}.get(item.role, elements(item.view) if held else self.tile)
        fetches = 1 + int(np.count_nonzero(np.diff(access.tile_id)))
        return Feed(
            role=f"in{number}", input=number, place=place, operand=self.ports.operand(number, place),
            requests=access.requests, offset=item.view.offset, spans=access.spans, tile_id=access.tile_id,
            held_whole=held, slots=min(2, fetches), slot_bytes=size * item.bytes, labels=self.labels,
            points=np.arange(self.count), reader=self.first, last_reader=self.last,
            lane=np.full(self.count, self.unit),
        )  # fmt: skip

    def _access(self, number: int, item: VectorInput) -> Access:
        """The operand's part of each tile."""
        head, view, width = self.work.group.head, item.view, item.bytes
        if number in self.blocked:
            return block_access(view, width, self.work.shape, self.begin, self.length)
        if item.role == "whole":
            return whole_access(view, width, self.count)
        if item.role == "row":
            return stream_access(view, width, self.begin // self.work.cols, self.length // self.work.cols)
        if head.kind == "gather":
            return gather_access(view, width, self.work.cols, self.begin, self.length)
        if head.kind == "reduce" and number == 0:
            axes = tuple(head.attributes["axes"])
            return reduce_access(view, width, axes, self.work.cols, self.begin, self.length)
        return stream_access(view, width, self.begin, self.length)

    def _outputs(self) -> Outputs:
        units = np.full(self.count, self.unit)
        writer = self.first if len(self.work.units) == 1 else self.last
        views = zip(self.work.group.outputs, self.work.out_bytes, strict=True)
        return Outputs(
            ports=self.ports, targets=tuple(self._target(view, width) for view, width in views), labels=self.labels,
            point=np.arange(self.count), writer=writer, writer_unit=units, finisher=self.last, finisher_unit=units,
            finisher_occupy=self.times.occupy, finisher_latency=self.times.latency,
        )  # fmt: skip

    def _target(self, view: Operand, width: int) -> Target:
        """Where each tile's part of a result lies: an element for each of the tile's, or one for each of its rows."""
        first, length, size = self.begin, self.length, self.tile
        if elements(view) != self.work.rows * self.work.cols:
            first, length, size = first // self.work.cols, length // self.work.cols, size // self.work.cols
        zero, one = np.zeros(self.count, np.int64), np.ones(self.count, np.int64)
        layout = Layout(0, 1, 1, view.offset)
        return Target(width, size, layout, Tiles(zero, zero, one, first, length), self._grid(view, first))

    def _grid(self, view: Operand, first: Int64) -> Grid:
        """Whole rows of the result where tiles are that, else ranges of the elements of one long row."""
        none, cols, one = np.zeros(self.count, np.int64), (view.shape or (1,))[-1], np.zeros(1, np.int64)
        if not (first % cols).any():
            return Grid(cols, first // cols, one, np.arange(self.count), none)
        return Grid(elements(view), one, first, none, np.arange(self.count))


def _too_large(work: VectorWork, unit: int, needed: int, free: int, where: str) -> InputError:
    head = work.group.head
    return InputError(
        f"{head.kind} {head.id} '{head.name}' needs {needed} bytes of scratchpad for {unit} elements; {free} are free",
        where=where,
        value=f"{work.rows} x {work.cols}",
        remedy="enlarge scratchpad.capacity_kib",
    )
