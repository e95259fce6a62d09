"""Puts a lowered group's parts together: loads, feeds, outputs and stores become one Template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.feed import Feed
from accelsim.compile.loads import emit_loads
from accelsim.compile.machine import Machine
from accelsim.compile.outputs import Outputs
from accelsim.compile.template import Block, Claim, Template

Int64 = NDArray[np.int64]


class Part(Protocol):
    """Something that takes scratchpad bytes while the group runs."""

    @property
    def buffer_bytes(self) -> int: ...

    def claims(self, ids: Int64, offset: int) -> list[Claim]: ...


@dataclass(frozen=True)
class Scratch:
    """Bytes for what passes keep between them, from the first task at `first` to the last at `last` on one unit."""

    buffer_bytes: int
    first: int
    last: int
    unit: int

    def claims(self, ids: Int64, offset: int) -> list[Claim]:
        """One claim, none where nothing is kept."""
        if not self.buffer_bytes:
            return []
        first, last = int(ids[self.first]), {self.unit: int(ids[self.last])}
        return [Claim("scratchpad", "passes", self.buffer_bytes, offset, -1, [first], first, last)]


def assemble(
    machine: Machine,
    block: Block,
    feeds: Sequence[Feed],
    outputs: Outputs,
    compute_at: Int64,
    more: Sequence[Part] = (),
) -> tuple[Template, Int64]:
    """Emit loads and stores around a group's compute tasks, and close its block.

    `compute_at` [points] is the position of the task that reads a point's loads. Returns the Template and the id of
    each position.
    """
    classes = [feed.loads for feed in feeds if feed.loads is not None]
    loads, served = emit_loads(machine, block, classes, compute_at, outputs.ports.load_phase)
    reads = [feed.connect(block) for feed in feeds]
    stores = outputs.emit_stores(machine, block)
    ids, columns, edges = block.close()
    claims: list[Claim] = []
    offset = 0
    parts: list[Part] = [*feeds, outputs, *more]
    for part in parts:
        claims += part.claims(ids, offset)
        offset += part.buffer_bytes
    for read in reads:
        read.consumers = ids[read.consumers]
    touched = [entry for feed in feeds for entry in feed.touched(ids)]
    template = Template(
        size=block.size, columns=columns, edges=edges, reads=reads, claims=claims, chunks={"scratchpad": offset},
        touched_inputs=touched, dram_stores=outputs.dram_stores(ids), loads=ids[loads], served=ids[served],
        produced=outputs.produced(ids), stores=stores,
    )  # fmt: skip
    return template, ids
