"""How one operand of a group reaches the unit that reads it: tiles, slots, loads, and what a read has to wait for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.loads import LoadClass
from accelsim.compile.produced import Span
from accelsim.compile.program import DONE
from accelsim.compile.requests import Requests
from accelsim.compile.template import Block, Claim, Read, first_by_unit, last_by_unit, pieces_of

Int64 = NDArray[np.int64]


@dataclass
class Feed:
    """An operand over T of its group's points, whose numbers are `points` [T].

    `input` is its number among the group's inputs, `operand` that of its address; `requests` [T] fetch its tiles,
    `spans` [T] (from `offset` elements on) hold them, and `tile_id` [T] tells them apart. `reader` [T] is the position
    of the task that reads the operand at the point (-1: what was read before is still there), `last_reader` [T] of the
    one that frees it and `lane` [T] the unit of that one. `slots` tiles of `slot_bytes` are held at once. `part`: which
    of the group's operators its loads belong to.
    """

    role: str
    input: int
    place: str
    operand: int
    requests: Requests
    offset: int
    spans: list[Span]
    tile_id: Int64
    held_whole: bool
    slots: int
    slot_bytes: int
    labels: NDArray[np.int32]
    points: Int64
    reader: Int64
    last_reader: Int64
    lane: Int64
    part: int = 0
    instance: Int64 = field(init=False)
    loads: LoadClass | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Number the fetches: every tile once where it is held, otherwise anew whenever the tile changes."""
        if self.on_chip or self.held_whole:
            _, first, inverse = np.unique(self.tile_id, return_index=True, return_inverse=True)
            rank = np.empty(first.size, np.int64)
            rank[np.argsort(first)] = np.arange(first.size)
            self.instance = rank[inverse.ravel()]
        else:
            self.instance = np.cumsum(np.diff(self.tile_id, prepend=self.tile_id[:1]) != 0)
        if not self.on_chip:
            self.loads = self._loads()

    @property
    def on_chip(self) -> bool:
        """True where the tensor is in the scratchpad already."""
        return self.place == "scratchpad"

    @property
    def buffer_bytes(self) -> int:
        """Scratchpad bytes of the operand's slots; 0 where the tensor is resident."""
        return 0 if self.on_chip else self.slots * self.slot_bytes

    def _loads(self) -> LoadClass:
        first = np.unique(self.instance, return_index=True)[1]
        loads = LoadClass(
            operand=self.operand,
            place=self.place,
            requests=self.requests.take(first),
            first_point=self.points[first],
            after_point=np.full(first.size, -1, np.int64),
            part=self.part,
            tile=self.labels[first],
        )
        if first.size > self.slots:
            self._wait_for_slots(loads)
        return loads

    def _wait_for_slots(self, loads: LoadClass) -> None:
        """Load i waits until the last readers, one a lane, of load i - slots have released its slot."""
        count = loads.first_point.size
        later = np.arange(self.slots, count)
        for lane in np.unique(self.lane):
            last = np.full(count, -1, np.int64)
            own = np.flatnonzero(self.lane == lane)
            last[self.instance[own]] = own
            before = last[: count - self.slots]
            known = before >= 0
            point = np.where(known, self.points[before], -1)
            loads.after_point[later] = np.maximum(loads.after_point[later], point)
            loads.slot_waits.append((later[known], self.last_reader[before[known]]))

    def connect(self, block: Block) -> Read:
        """Edges from the loads to the first read of each tile on each lane.

        Returns what has to wait for the writers of the tensor: the loads, or those first reads of a resident one.
        """
        first = self._first_reads()
        if self.loads is None:
            return Read(self.input, self.offset, [span.take(first) for span in self.spans], self.reader[first])
        block.edge(self.reader[first], self.loads.positions[self.instance[first]], DONE)
        fetched = np.unique(self.instance, return_index=True)[1]
        return Read(self.input, self.offset, [span.take(fetched) for span in self.spans], self.loads.positions)

    def _first_reads(self) -> Int64:
        """Indices of the first point, on each lane, that reads each fetched tile."""
        reads = np.flatnonzero(self.reader >= 0)
        key = self.instance[reads] * (int(self.lane.max()) + 1) + self.lane[reads]
        return reads[np.unique(key, return_index=True)[1]]

    def claims(self, ids: Int64, offset: int) -> list[Claim]:
        """The slots' bytes, from `offset` on: who fills them first and who reads them last."""
        if self.loads is None:
            return []
        each, pieces = pieces_of(self.slots)
        loads, piece_of_load = ids[self.loads.positions], np.arange(self.loads.positions.size) % self.slots // each
        piece_of_read = self.instance % self.slots // each
        result = []
        for piece in range(pieces):
            own, reads = np.flatnonzero(piece_of_load == piece), piece_of_read == piece
            waits = first_by_unit(self.loads.units[own], loads[own])
            last = last_by_unit(self.lane[reads], ids[self.last_reader[reads]])
            begin, end = piece * each, min((piece + 1) * each, self.slots)
            result.append(
                Claim(
                    "scratchpad", f"{self.role}{piece}" if pieces > 1 else self.role, (end - begin) * self.slot_bytes,
                    offset + begin * self.slot_bytes, -1, list(waits.values()), int(loads[own].min()), last,
                )
            )  # fmt: skip
        return result

    def touched(self, ids: Int64) -> list[tuple[int, dict[int, int]]]:
        """The last readers, per unit, of the tensor's bytes where it lies: loads, or who reads the resident tensor."""
        if self.loads is not None:
            return [(self.input, last_by_unit(self.loads.units, ids[self.loads.positions]))]
        return [(self.input, last_by_unit(self.lane, ids[self.last_reader]))]
