"""Elementwise operators that update one parameter, as one pass: every state is read once and written once.

A region is a set of connected elementwise operators of the optimizer's phase over equally many elements. It is run at
the place of its last operator, so nothing outside may read, write or depend on what it makes before that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from accelsim.compile.fuse import Group, contiguous, elements
from accelsim.trace.model import Op, Operand, Trace

_KINDS = frozenset({"elementwise", "cast"})


@dataclass
class _Region:
    """Operators, the regions that they depend on by way of operators outside, and elements of each result."""

    size: int
    ops: list[int] = field(default_factory=list)
    behind: set[int] = field(default_factory=set)


def optimizer_groups(trace: Trace, fusable: Callable[[Op], bool]) -> list[Group]:
    """A group for each region of two operators or more. `fusable`: the operator's recipe is one pass over elements."""
    return [_group(trace, ops) for ops in _Regions(trace, fusable).find()]


class _Regions:
    """Finds the regions of a trace."""

    def __init__(self, trace: Trace, fusable: Callable[[Op], bool]) -> None:
        self.trace = trace
        self.fusable = fusable
        self._of: dict[int, int] = {}  # operator -> the region that it was put in
        self._into: dict[int, int] = {}  # region -> the one that took it in
        self._regions: dict[int, _Region] = {}
        self._above: list[set[int]] = []  # of each operator: the regions that it or what it depends on was put in
        self._storage = [tensor.storage for tensor in trace.tensors]

    def find(self) -> list[tuple[Op, ...]]:
        """The operators of each region of two or more, in trace order."""
        for op in self.trace.ops:
            self._place(op)
        found = (tuple(self.trace.ops[index] for index in sorted(region.ops)) for region in self._regions.values())
        return [ops for ops in found if len(ops) > 1 and self._is_alone(ops)]

    def _place(self, op: Op) -> None:
        above: set[int] = set().union(*(self._above[index] for index in op.deps))
        if self._is_eligible(op):
            above.add(self._join(op))
        self._above.append(above)

    def _is_eligible(self, op: Op) -> bool:
        size = elements(op.outputs[0])
        return (
            op.phase == "optimizer"
            and op.kind in _KINDS
            and self.fusable(op)
            and all(elements(view) in (1, size) and contiguous(view) for view in (*op.inputs, *op.outputs))
        )

    def _join(self, op: Op) -> int:
        """Put the operator in a region of its producers, which it may join together."""
        producers = [index for view in op.inputs if (index := self.trace.writers[view.tensor]) in self._of]
        size, joined = elements(op.outputs[0]), -1
        for number in dict.fromkeys(self._root(self._of[index]) for index in producers if index is not None):
            if self._regions[number].size != size or number in self._outside(op, number):
                continue
            if joined < 0:
                joined = number
            elif joined not in self._behind(number) and number not in self._behind(joined):
                self._merge(joined, number)
        if joined < 0:
            joined = op.id
            self._regions[joined] = _Region(size)
        self._regions[joined].ops.append(op.id)
        self._regions[joined].behind |= self._outside(op, joined)
        self._of[op.id] = joined
        return joined

    def _root(self, number: int) -> int:
        while number in self._into:
            number = self._into[number]
        return number

    def _behind(self, number: int) -> set[int]:
        return {self._root(each) for each in self._regions[number].behind}

    def _outside(self, op: Op, number: int) -> set[int]:
        """Regions that the operator depends on by way of operators outside region `number`."""
        outside = (index for index in op.deps if index not in self._of or self._root(self._of[index]) != number)
        return {self._root(each) for index in outside for each in self._above[index]}

    def _merge(self, into: int, number: int) -> None:
        other = self._regions.pop(number)
        self._regions[into].ops += other.ops
        self._regions[into].behind |= other.behind
        self._into[number] = into

    def _is_alone(self, ops: tuple[Op, ...]) -> bool:
        """True where nobody between its first and its last operator touches what it writes, or overwrites what it
        reads."""
        own, read = {op.id for op in ops}, {view.tensor for op in ops for view in op.inputs}
        written = {self._storage[view.tensor] for op in ops for view in op.outputs}
        between = (op for op in self.trace.ops[ops[0].id : ops[-1].id] if op.id not in own)
        for op in between:
            if written & {self._storage[view.tensor] for view in (*op.inputs, *op.outputs)}:
                return False
            made = {view.tensor for view in op.outputs}
            if {self._storage[tensor] for tensor in made} & {self._storage[tensor] for tensor in read - made}:
                return False
        return True


def _group(trace: Trace, ops: tuple[Op, ...]) -> Group:
    """Inputs are what it reads from outside, each operand once; outputs what is read outside or lasts, the result of
    its last operator first."""
    own, made = {op.id for op in ops}, {view.tensor for op in ops for view in op.outputs}
    inputs = dict.fromkeys(view for op in ops for view in op.inputs if view.tensor not in made)
    first, *others = [view for op in reversed(ops) for view in op.outputs]
    lasting = (view for view in others if _lasts(trace, view, own))
    fired = tuple(f"optimizer: {op.name}" for op in ops)
    return Group(ops[-1], ops[:-1], inputs=tuple(inputs), outputs=(first, *lasting), fired=fired, is_region=True)


def _lasts(trace: Trace, view: Operand, own: Collection[int]) -> bool:
    readers = trace.readers[view.tensor]
    return trace.tensors[view.tensor].final is not None or not readers or any(reader not in own for reader in readers)
