"""Loads of one operator group: gathered from all its operands, put in the order of first use, emitted at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.machine import Machine
from accelsim.compile.program import LEVEL2_LOAD, LOAD, RELEASED, START
from accelsim.compile.requests import Requests
from accelsim.compile.template import Block

Int64 = NDArray[np.int64]

PHASES = 64  # ordering keys of one point: point * PHASES + phase; loads come after everything else of a point
_LOAD_PHASE = PHASES - 1
_REQUEST = ("address", "rows", "row_bytes", "pitch")


@dataclass
class LoadClass:
    """Loads of one operand, n of them, in the order of first use.

    `operand` is its number among the group's operands. `first_point` is the point (step of the loop nest) that reads a
    load first, `after_point` the last one that reads what its slot held before (-1: nothing in this group).
    `slot_waits` are (index into the loads, position of the reader that frees the slot) pairs of arrays.
    """

    operand: int
    place: str
    requests: Requests
    first_point: Int64
    after_point: Int64
    tile: NDArray[np.int32]
    part: int = 0
    slot_waits: list[tuple[Int64, Int64]] = field(default_factory=list)
    positions: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    units: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))


def emit_loads(
    machine: Machine, block: Block, classes: list[LoadClass], compute_at: Int64, phase: int
) -> tuple[Int64, Int64]:
    """Emit all loads; sets each class's `positions` and `units`.

    `compute_at` [points] is the position of the task that reads a point's loads. A load waits for the start of the
    task that the load `prefetch_window` places before it serves. Returns, in load order, the positions of the loads
    and of the tasks they serve.
    """
    if not classes:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rank = np.repeat(np.arange(len(classes)), [c.first_point.size for c in classes])
    first = np.concatenate([c.first_point for c in classes])
    after = np.concatenate([c.after_point for c in classes])
    order = np.lexsort((rank, first))
    ahead = _points_ahead(first[order], machine.arch.dma.prefetch_window)
    after_sorted = np.maximum.accumulate(np.maximum(after[order], ahead))
    keys = np.where(after_sorted < 0, -1, after_sorted * PHASES + _LOAD_PHASE)
    positions, units = _emit(machine, block, classes, order, keys, phase)
    limited = ahead >= 0
    block.edge(positions[order][limited], compute_at[ahead[limited]], START)
    begin = 0
    for loads in classes:
        end = begin + loads.first_point.size
        loads.positions, loads.units = positions[begin:end], units[begin:end]
        for index, readers in loads.slot_waits:
            block.edge(loads.positions[index], readers, RELEASED)
        begin = end
    return positions[order], compute_at[first[order]]


def _points_ahead(first: Int64, window: int) -> Int64:
    """For each load, in order, the point whose computation must have started before it is issued, -1 for none.

    That is the point served by the load `window` places before, unless both serve the same point.
    """
    ahead = np.full(first.size, -1, np.int64)
    if window < first.size:
        ahead[window:] = first[:-window]
    return np.where(ahead < first, ahead, -1)


def _emit(
    machine: Machine, block: Block, classes: list[LoadClass], order: Int64, keys: Int64, phase: int
) -> tuple[Int64, Int64]:
    """Emit DRAM loads and second-level loads as two classes of tasks; positions and units in class order."""
    columns = {name: np.concatenate([getattr(c.requests, name) for c in classes])[order] for name in _REQUEST}
    counts = [c.first_point.size for c in classes]
    for name in ("operand", "part"):
        columns[name] = np.repeat([getattr(c, name) for c in classes], counts)[order]
    tiles = np.concatenate([c.tile for c in classes])[order]
    from_dram = np.repeat([c.place == "dram" for c in classes], counts)[order]
    size = columns["rows"] * columns["row_bytes"]
    positions, units = np.empty(order.size, np.int64), np.empty(order.size, np.int64)
    for kind, name, chosen in ((LOAD, "load", from_dram), (LEVEL2_LOAD, "level2.load", ~from_dram)):
        if chosen.any():
            where = order[chosen]
            units[where] = machine.queues(name, where.size, phase)
            request = {key: values[chosen] for key, values in columns.items()}
            fixed = {} if kind == LOAD else machine.level2_columns(size[chosen])
            positions[where] = block.add(
                kind, units[where], keys[chosen], tile=tiles[chosen], scratchpad_write_bytes=size[chosen],
                **request, **fixed,
            )  # fmt: skip
    return positions, units
