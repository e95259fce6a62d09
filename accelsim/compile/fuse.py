"""Fusion: which trace operators run as one group of tasks, so that what lies between them never leaves the chip.

Fusion saves traffic, not arithmetic: a folded operator's elementary functions join the passes of its group's head.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from accelsim.errors import InputError
from accelsim.trace import shapes
from accelsim.trace.model import Op, Operand, Trace

LEVELS = ("none", "elementwise")
LATER_LEVELS = ("attention", "all")

_ACTIVATIONS = frozenset({"gelu", "tanh", "relu"})
_TAKES_PROLOGUE = frozenset({"softmax", "layernorm"})


@dataclass(frozen=True)
class Group:
    """Operators that run as one: `prologue` before the head's first pass, `epilogue` on its result, in order.

    `inputs` are the operands read from outside: the head's own, with the first replaced by the prologue's main
    input, then the prologue's other operands. `outputs` are the tensors that exist outside, the head's main result
    (or what the epilogue made of it) first.
    """

    head: Op
    prologue: tuple[Op, ...] = ()
    epilogue: tuple[Op, ...] = ()
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    fired: tuple[str, ...] = field(default=(), compare=False)

    @property
    def ops(self) -> tuple[Op, ...]:
        """All operators of the group, in trace order."""
        return tuple(sorted((*self.prologue, self.head, *self.epilogue), key=lambda op: op.id))

    def signature(self, trace: Trace) -> Hashable:
        """Equal for groups that differ in nothing but ids and names: kinds, attributes, views, dtypes, wiring."""
        local: dict[int, int] = {}  # tensor -> number by first appearance

        def view(operand: Operand) -> Hashable:
            tensor = trace.tensors[operand.tensor]
            number = local.setdefault(operand.tensor, len(local))
            return number, tensor.dtype, tensor.elements, operand.shape, operand.strides, operand.offset

        def op(op: Op) -> Hashable:
            return op.kind, repr(sorted(op.attributes.items())), *map(view, op.inputs), "->", *map(view, op.outputs)

        parts = (*map(op, self.prologue), "head", op(self.head), *map(op, self.epilogue))
        return parts, tuple(map(view, self.inputs)), tuple(map(view, self.outputs))


def fuse(
    trace: Trace, level: str, fusable: Callable[[Op], bool], folds: Callable[[Op, Op], bool] = lambda op, after: True
) -> tuple[Group, ...]:
    """Groups in the order of their heads; `fusable` tells whether an operator's recipe can join another's passes,
    `folds` whether an activation after another operator is computed where a matmul's results leave.

    Raises InputError for an unknown level.
    """
    if level in LATER_LEVELS:
        raise InputError("fusion level not yet supported", where="--fusion", value=level, remedy=f"use {_choices()}")
    if level not in LEVELS:
        raise InputError("unknown fusion level", where="--fusion", value=level, remedy=f"use {_choices()}")
    if level == "none":
        return tuple(_group(trace, op, (), ()) for op in trace.ops)
    return _Fuser(trace, fusable, folds).groups()


def _choices() -> str:
    return " or ".join(LEVELS)


class _Fuser:
    """Rewrites by two rules: elementwise chains go into the row operator that reads them, activations and casts into
    the operator that produced their input. A tensor that is written in place elsewhere is left alone."""

    def __init__(self, trace: Trace, fusable: Callable[[Op], bool], folds: Callable[[Op, Op], bool]) -> None:
        self.trace = trace
        self.fusable = fusable
        self.folds = folds
        self.taken: set[int] = set()
        versions: dict[int, int] = {}
        for tensor in trace.tensors:
            versions[tensor.storage] = versions.get(tensor.storage, 0) + 1
        self.in_place = {tensor.id for tensor in trace.tensors if versions[tensor.storage] > 1}

    def groups(self) -> tuple[Group, ...]:
        prologues = {op.id: self._prologue(op) for op in self.trace.ops if op.kind in _TAKES_PROLOGUE}
        result = []
        for op in self.trace.ops:
            if op.id not in self.taken:
                result.append(_group(self.trace, op, prologues.get(op.id, ()), self._epilogue(op)))
        return tuple(result)

    def _prologue(self, head: Op) -> tuple[Op, ...]:
        """The chain of elementwise operators that only `head` reads, earliest first."""
        chain: list[Op] = []
        reader = head
        while (producer := self._private_producer(reader, main_operand(reader, self.trace))) is not None:
            chain.insert(0, producer)
            self.taken.add(producer.id)
            reader = producer
        return tuple(chain)

    def _private_producer(self, reader: Op, operand: Operand) -> Op | None:
        writer = self.trace.writers[operand.tensor]
        if writer is None:
            return None
        producer = self.trace.ops[writer]
        fits = producer.kind == "elementwise" and producer.id not in self.taken and self.fusable(producer)
        return producer if fits and self._only_reader(producer, reader, operand) else None

    def _epilogue(self, head: Op) -> tuple[Op, ...]:
        """Activations that only they read, then casts, of the head's main result."""
        chain: list[Op] = []
        last = head
        while (consumer := self._foldable_consumer(head, last)) is not None:
            chain.append(consumer)
            self.taken.add(consumer.id)
            if consumer.kind == "cast":
                break
            last = consumer
        return tuple(chain)

    def _foldable_consumer(self, head: Op, last: Op) -> Op | None:
        tensor = last.outputs[0].tensor
        for reader in (self.trace.ops[index] for index in self.trace.readers[tensor]):
            written_in_place = any(view.tensor in self.in_place for view in (*reader.inputs, *reader.outputs))
            if reader.id in self.taken or reader.inputs[0].tensor != tensor or written_in_place:
                continue
            whole = contiguous(reader.inputs[0]) and elements(reader.inputs[0]) == self.trace.tensors[tensor].elements
            if reader.kind == "cast" and whole and self.fusable(reader):
                return reader
            activation = reader.kind in _ACTIVATIONS and head.kind == "matmul" and self.folds(reader, last)
            if activation and whole and self._only_reader(last, reader, reader.inputs[0]):
                return reader
        return None

    def _only_reader(self, producer: Op, reader: Op, operand: Operand) -> bool:
        """True when the producer's one result is dead after `reader`, which reads it whole as it lies."""
        tensor = self.trace.tensors[operand.tensor]
        return (
            len(producer.outputs) == 1
            and self.trace.readers[tensor.id] == (reader.id,)
            and tensor.final is None
            and tensor.id not in self.in_place
            and not any(view.tensor in self.in_place for view in producer.inputs)
            and contiguous(operand)
            and elements(operand) == tensor.elements
            and sum(view.tensor == tensor.id for view in reader.inputs) == 1
        )


def main_operand(op: Op, trace: Trace) -> Operand:
    """The operand whose elements the result's elements follow: the first one, of an elementwise operator the first
    full-size one. For add(x, residual) of which x came from an elementwise operator that is x: chains stay together.
    """
    if op.kind != "elementwise":
        return op.inputs[0]
    size = elements(op.outputs[0])
    full = [view for view in op.inputs if elements(view) == size and contiguous(view)]
    for view in full:
        writer = trace.writers[view.tensor]
        if writer is not None and trace.ops[writer].kind == "elementwise":
            return view
    return full[0] if full else op.inputs[0]


def _group(trace: Trace, head: Op, prologue: tuple[Op, ...], epilogue: tuple[Op, ...]) -> Group:
    first = main_operand(prologue[0], trace) if prologue else head.inputs[0] if head.inputs else None
    inner = {op.outputs[0].tensor for op in prologue}
    extras = [view for op in prologue for view in op.inputs if view is not first and view.tensor not in inner]
    own = head.inputs[1:] if head.inputs else ()
    inputs = (*((first,) if first else ()), *own, *extras)
    names = [f"prologue: {op.name}" for op in prologue] + [f"epilogue: {op.name}" for op in epilogue]
    return Group(head, prologue, epilogue, inputs, _outputs(trace, head, epilogue), tuple(names))


def _outputs(trace: Trace, head: Op, epilogue: tuple[Op, ...]) -> tuple[Operand, ...]:
    """What must exist outside the group. Statistics that nobody reads (mean, rstd of a LayerNorm) are not written."""
    chain = [op.outputs[0] for op in (head, *epilogue)]
    inside = {op.id for op in epilogue}
    needed = [view for view in chain[:-1] if _needed_outside(trace, view, inside)]
    statistics = [view for view in head.outputs[1:] if _needed_outside(trace, view, inside)]
    return (chain[-1], *needed, *statistics)


def _needed_outside(trace: Trace, view: Operand, inside: set[int]) -> bool:
    readers = trace.readers[view.tensor]
    return trace.tensors[view.tensor].final is not None or any(reader not in inside for reader in readers)


def elements(view: Operand) -> int:
    """Elements that a view covers."""
    return shapes.elements(view.shape)


def contiguous(view: Operand, *, ignore_offset: bool = False) -> bool:
    """True where the view's elements lie one after another, from the start of its tensor unless `ignore_offset`."""
    expected = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return ignore_offset or view.offset == 0
