"""A slow, independent walk of a matmul's reads through the scratchpad's banks, vector after vector, byte after byte.

Of the Program only tile numbers, sizes and shares are used; where elements lie follows from the trace's views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from accelsim.arch.spec import Arch
from accelsim.compile.program import Program
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace
from tests.compile.views import view_elements

Int64 = NDArray[np.int64]
Reads = Iterator[tuple[str, str, list[int]]]  # which reads, of which operand, byte addresses of a vector's elements


def padded(row_bytes: int, banks: int, width: int) -> int:
    """Pitch of rows of so many bytes: whole words, so that `banks` rows start in different banks."""
    if row_bytes <= width:
        return row_bytes
    pitch = -(-row_bytes // width) * width
    while len({row * pitch // width % banks for row in range(banks)}) < banks:
        pitch += width
    assert gcd(pitch // width, banks) == 1
    return pitch


def reads_across(dataflow: str, operand: str, view: Operand) -> bool:
    """Whether the array's vectors of a matmul's operand run across the rows in which it lies."""
    vector_is_row = {"wsa": True, "wsb": True, "isa": False, "isb": False, "osa": False, "osb": True}
    return vector_is_row[dataflow + operand] != (view.strides[-1] == 1)


def slot_bytes(arch: Arch, operand: str, view: Operand, rows: int, columns: int, width: int) -> int:
    """Bytes of a slot for tiles of so many rows and columns of the operand."""
    pad = arch.scratchpad
    if pad.transpose != "padding" or not reads_across(arch.array.dataflow, operand, view):
        return rows * columns * width
    count, length = (columns, rows) if view.strides[-1] != 1 else (rows, columns)
    return count * padded(length * width, pad.banks, pad.bank_width_bytes)


@dataclass
class MatmulWalk:
    """The reads of one tile of a trace of one matmul. `tile` is m, n, k; `label` batch and tile numbers."""

    arch: Arch
    trace: Trace
    program: Program
    label: tuple[int, int, int, int]

    def __post_init__(self) -> None:
        (plan,) = self.program.plans
        assert plan.tile is not None
        batch, *index = self.label
        part = {name: slice(i * t, (i + 1) * t) for name, i, t in zip("mnk", index, plan.tile, strict=True)}
        a, b = self.trace.ops[0].inputs[:2]
        self.width = DTYPE_BYTES[self.trace.tensors[a.tensor].dtype]
        self.a = self.addresses(a, batch, (part["m"], part["k"]))
        self.b = self.addresses(b, batch, (part["k"], part["n"]))

    def addresses(self, view: Operand, batch: int, block: tuple[slice, slice]) -> Int64:
        """Byte addresses of the tile's elements from its first row on: as the tensor lies, or packed in a slot."""
        pad = self.arch.scratchpad
        whole = view_elements(view)
        tile = (whole if whole.ndim == 2 else whole[batch])[block]
        turned = view.strides[-1] != 1
        rows = (tile.T if turned else tile) * self.width
        if self.trace.tensors[view.tensor].initial == "on_chip":
            pitch = view.strides[-1 if turned else -2] * self.width
        else:
            pitch = rows.shape[1] * self.width
        if pad.transpose == "padding":
            pitch = padded(pitch, pad.banks, pad.bank_width_bytes)
        lie = pitch * np.arange(rows.shape[0])[:, None] + self.width * np.arange(rows.shape[1])
        return lie.T if turned else lie

    def vectors(self) -> Reads:
        """What the array takes, in the order of its folds: the first fold's weights, the later ones', what moves."""
        rows, cols, flow = self.arch.array.rows, self.arch.array.cols, self.arch.array.dataflow
        a, b = (self.a, self.b) if flow != "is" else (self.b.T, self.a.T)  # `is` is `ws` of the transposed product
        names = "ab" if flow != "is" else "ba"
        across, down = range(0, b.shape[1], cols), range(0, b.shape[0], rows)
        if flow == "os":
            for top in range(0, a.shape[0], rows):
                for left in across:
                    for step in range(a.shape[1]):
                        yield "moving", "a", a[top : top + rows, step].tolist()
                        yield "moving", "b", b[step, left : left + cols].tolist()
            return
        for left in across:
            for top in down:
                for step in range(top, min(top + rows, b.shape[0])):
                    which = "first" if (left, top) == (0, 0) else "later"
                    yield which, names[1], b[step, left : left + cols].tolist()
                for step in range(a.shape[0]):
                    yield "moving", names[0], a[step, top : top + rows].tolist()

    def cycles(self, vector: list[int]) -> int:
        """The busiest bank's words over its ports."""
        pad = self.arch.scratchpad
        words = {(byte + offset) // pad.bank_width_bytes for byte in vector for offset in range(self.width)}
        return -(-max(Counter(word % pad.banks for word in words).values()) // pad.ports)

    def moved_and_conflict(self) -> tuple[Counter[str], Counter[str]]:
        """Bytes of each of the three kinds of reads, and cycles of those across rows, of the slower operand."""
        moved: Counter[str] = Counter()
        spent: Counter[tuple[str, str]] = Counter()
        for which, operand, vector in self.vectors():
            moved[which] += len(vector) * self.width
            view = self.trace.ops[0].inputs["ab".index(operand)]
            across = reads_across(self.arch.array.dataflow, operand, view)
            if across and self.arch.scratchpad.transpose != "buffer":
                spent[which, operand] += self.cycles(vector)
        conflict = Counter({which: max(spent[which, "a"], spent[which, "b"]) for which in ("first", "later", "moving")})
        return moved, conflict

    def longer(self, kind: str, occupy: int) -> int:
        """By how much the scratchpad outlasts a `weights` or `stream` task that takes `occupy` without it."""
        moved, conflict = self.moved_and_conflict()
        parts = {"weights": ["first"], "stream": ["moving", "later"]}[kind]
        client = {"first": "weights", "later": "weights", "moving": "stream"}
        needed = 0
        for part in parts:
            share = self.program.bandwidth_shares.get(f"core0.array0.{client[part]}", 2**62)
            needed = max(needed, -(-moved[part] // share), conflict[part])
        return max(0, needed - occupy)
