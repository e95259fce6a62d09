"""A lowered group with ids relative to its first task.

Networks repeat: the twelve layers of BERT-Base hold a dozen distinct groups. Each distinct one is lowered once, to a
Template, and stamped into the Program wherever it recurs; a stamp adds a base to the ids and the operands' addresses
to the requests, and connects the group to those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.compile.produced import Produced, Span
from accelsim.compile.program import BREAKDOWN, COUNTERS, DONE
from accelsim.hardware.systolic import ArrayParameters

Int64 = NDArray[np.int64]
_EMPTY = np.zeros(0, np.int64)
_MOST_CLAIMS = 8


@dataclass(frozen=True)
class Ports:
    """Where a group's operands lie: the place of each input; of each output its place and where it is stored to."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stored: tuple[tuple[str, ...], ...]
    load_phase: int = 0  # the DMA queue of the first load, of the first store
    store_phase: int = 0
    packed: tuple[bool, ...] = ()  # of a matmul's a and b: whether it lies in DRAM tile after tile

    def operand(self, number: int, place: str) -> int:
        """Number of an operand's address: inputs, then outputs, first those in DRAM, then those in the second level."""
        return number + (len(self.inputs) + len(self.outputs) if place == "level2" else 0)

    def resident(self, output: int) -> bool:
        return self.outputs[output] == "scratchpad"


@dataclass
class Read:
    """Tasks [n] that must wait for the writers of parts of an input (a position in the group's inputs)."""

    input: int
    offset: int
    spans: list[Span]
    consumers: Int64


@dataclass
class Claim:
    """Bytes that the group takes: `offset` bytes into its chunk of a space, or all those of a resident output.

    `waits` are the first tasks, one a unit, that write them; `last` the last one, per unit, that touches them.
    """

    space: str
    name: str
    size: int
    offset: int = 0
    output: int = -1
    waits: list[int] = field(default_factory=list)
    first_writer: int = -1
    last: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ArrayEnd:
    """What the next group's first task on an array (`weights`, in os `stream`) waits for. `tile` is the last one.

    `last` is the task whose `done` leaves the array empty: the last stream, in os the last drain.
    """

    task: int
    event: int
    lag: int
    last: int
    params: ArrayParameters
    tile: tuple[int, int, int]

    def renumbered(self, ids: Int64) -> ArrayEnd:
        """With the id of each position in its place."""
        return replace(self, task=int(ids[self.task]), last=int(ids[self.last]))


@dataclass(frozen=True)
class ArrayBegin:
    """The first task of the group on an array that has to wait for the one before; in os with its K steps."""

    task: int
    steps: int
    params: ArrayParameters

    def renumbered(self, ids: Int64) -> ArrayBegin:
        """With the id of each position in its place."""
        return replace(self, task=int(ids[self.task]))


@dataclass
class Template:
    """See the module. All task numbers count from 0."""

    size: int
    columns: Mapping[str, NDArray[Any]]  # in id order; `address` relative to operand `operand`, `part` an operator's
    edges: tuple[Int64, Int64, NDArray[np.int8], Int64]  # consumer, producer, event, lag
    reads: list[Read]
    claims: list[Claim]
    chunks: dict[str, int]  # bytes the claims of each space span together
    touched_inputs: list[tuple[int, dict[int, int]]]  # inputs and the last tasks, per unit, that read their bytes
    dram_stores: list[tuple[int, dict[int, int], dict[int, int]]]  # outputs and their first and last stores per unit
    loads: Int64  # in order
    served: Int64  # the compute task that each load serves
    produced: tuple[Produced, ...]  # of each output
    stores: int  # to DRAM
    begins: Mapping[int, ArrayBegin] = field(default_factory=dict)  # by array
    ends: Mapping[int, ArrayEnd] = field(default_factory=dict)


class Block:
    """Collects tasks class by class. Keys order them; equal keys keep the order of emission."""

    def __init__(self) -> None:
        self.size = 0
        self._keys: list[Int64] = []
        self._columns: list[dict[str, Any]] = []
        self._edges: list[tuple[Int64, Int64, int, Int64]] = []

    def add(self, kind: int, unit: ArrayLike, key: ArrayLike, **columns: ArrayLike) -> Int64:
        """Emit one class of n tasks ordered by `key` [n]; columns are [n, ...] or scalars. Returns their positions."""
        keys = np.asarray(key, np.int64)
        positions = np.arange(self.size, self.size + keys.size, dtype=np.int64)
        self._keys.append(keys)
        self._columns.append({"kind": kind, "unit": unit, **columns})
        self.size += keys.size
        return positions

    def edge(self, consumers: Int64, producers: Int64, event: int = DONE, lag: ArrayLike = 0) -> None:
        """Edges between tasks given by their positions, [n] each."""
        if consumers.size:
            self._edges.append(
                (consumers, producers, event, np.broadcast_to(np.asarray(lag, np.int64), consumers.shape))
            )

    def close(self) -> tuple[Int64, dict[str, NDArray[Any]], tuple[Int64, Int64, NDArray[np.int8], Int64]]:
        """The id of each position, the columns in id order, the edges by ids."""
        order = np.argsort(np.concatenate(self._keys), kind="stable")
        ids = np.empty(self.size, np.int64)
        ids[order] = np.arange(self.size)
        columns = {name: values[order] for name, values in self._gathered().items()}
        edges = self._edges or [(_EMPTY, _EMPTY, DONE, _EMPTY)]
        consumer = ids[np.concatenate([edge[0] for edge in edges])]
        producer = ids[np.concatenate([edge[1] for edge in edges])]
        event = np.repeat(np.array([edge[2] for edge in edges], np.int8), [edge[0].size for edge in edges])
        return ids, columns, (consumer, producer, event, np.concatenate([edge[3] for edge in edges]))

    def _gathered(self) -> dict[str, NDArray[Any]]:
        result: dict[str, NDArray[Any]] = {}
        for name, dtype, default in _VECTORS:
            result[name] = np.empty(self.size, dtype)
            self._fill(result[name], lambda columns, name=name, default=default: columns.get(name, default))
        for name, parts in (("breakdown", BREAKDOWN), ("counters", COUNTERS)):
            result[name] = np.zeros((self.size, len(parts)), np.int64)
            for index, part in enumerate(parts):
                self._fill(result[name][:, index], lambda columns, part=part: columns.get(part, 0))
        result["tile"] = np.empty((self.size, 4), np.int32)
        self._fill(result["tile"], lambda columns: columns.get("tile", -1))
        return result

    def _fill(self, target: NDArray[Any], value: Any) -> None:
        begin = 0
        for keys, columns in zip(self._keys, self._columns, strict=True):
            target[begin : begin + keys.size] = value(columns)
            begin += keys.size


_VECTORS: tuple[tuple[str, type, int], ...] = (
    ("kind", np.int8, 0), ("unit", np.int32, 0), ("occupy", np.int64, 0), ("latency", np.int64, 0),
    ("macs", np.int64, 0), ("address", np.int64, 0), ("rows", np.int64, 0), ("row_bytes", np.int64, 0),
    ("pitch", np.int64, 0), ("operand", np.int16, -1), ("part", np.int8, 0),
)  # fmt: skip


def first_by_unit(units: Int64, ids: Int64) -> dict[int, int]:
    """The lowest id on each unit."""
    return {int(unit): int(ids[units == unit].min()) for unit in np.unique(units)}


def last_by_unit(units: Int64, ids: Int64) -> dict[int, int]:
    """The highest id on each unit."""
    return {int(unit): int(ids[units == unit].max()) for unit in np.unique(units)}


def merge_last(last: dict[int, int], more: Mapping[int, int]) -> None:
    """Take over into `last` the later of the two tasks on each unit."""
    for unit, task in more.items():
        last[unit] = max(last.get(unit, -1), task)


def pieces_of(slots: int) -> tuple[int, int]:
    """Slots that are claimed together, and how many such pieces there are: single slots up to a few, then groups."""
    each = -(-slots // _MOST_CLAIMS)
    return each, -(-slots // each)
