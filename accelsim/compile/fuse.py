"""Fusion: which trace operators run as one group of tasks, so that what lies between them never leaves the chip.

Fusion saves traffic, not arithmetic: a folded operator's elementary functions join the passes of its group's head.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

from accelsim.trace import shapes
from accelsim.trace.model import Op, Operand, Trace

_ACTIVATIONS = frozenset({"gelu", "tanh", "relu"})
_TAKES_PROLOGUE = frozenset({"softmax", "layernorm"})
_JOINS_PROLOGUE = frozenset({"elementwise", "dropout"})


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
    rows: Group | None = field(default=None, compare=False)  # a softmax or LayerNorm group that is its epilogue
    before: tuple[Group, ...] = field(default=(), compare=False)  # groups whose results it takes block by block
    is_region: bool = False  # its prologue is no chain: all of it is one pass over the elements (regions.py)

    @property
    def ops(self) -> tuple[Op, ...]:
        """All operators of the group, in trace order."""
        before = (op for group in self.before for op in group.ops)
        return tuple(sorted((*before, *self.prologue, self.head, *self.epilogue), key=lambda op: op.id))

    @property
    def parts(self) -> tuple[int, ...]:
        """Ids of the operators that its tasks belong to."""
        return (*(part for group in self.before for part in (*group.parts, *group.row_parts)), self.head.id)

    @property
    def row_parts(self) -> tuple[int, ...]:
        """Id of the softmax or LayerNorm in its epilogue."""
        return () if self.rows is None else (self.rows.head.id,)

    @property
    def folded(self) -> dict[int, int]:
        """The operators without tasks of their own, and whose tasks do their work."""
        found = {op: into for group in self.before for op, into in group.folded.items()}
        return found | {op.id: self.head.id for op in (*self.prologue, *self.epilogue)}

    def signature(self, trace: Trace) -> Hashable:
        """Equal for groups that differ in nothing but ids and names: kinds, attributes, views, dtypes, wiring."""
        local: dict[int, int] = {}  # tensor -> number by first appearance

        def view(operand: Operand) -> Hashable:
            tensor = trace.tensors[operand.tensor]
            number = local.setdefault(operand.tensor, len(local))
            return number, tensor.dtype, tensor.elements, operand.shape, operand.strides, operand.offset

        def op(op: Op) -> Hashable:
            return op.kind, repr(sorted(op.attributes.items())), *map(view, op.inputs), "->", *map(view, op.outputs)

        parts = (
            *(group.signature(trace) for group in self.before),
            *map(op, self.prologue), "head", op(self.head), *map(op, self.epilogue),
        )  # fmt: skip
        return parts, tuple(map(view, self.inputs)), tuple(map(view, self.outputs))


def fuse(
    trace: Trace,
    on: Collection[str],
    fusable: Callable[[Op], bool],
    folds: Callable[[Op, Op], bool] = lambda op, after: True,
    made: Sequence[Group] = (),
) -> tuple[Group, ...]:
    """Groups in the order of their heads, by those of the rules below that are `on`.

    `fusable` tells whether an operator's recipe can join another's passes, `folds` whether an activation after another
    operator is computed where a matmul's results leave. `made` are groups that stand already.
    """
    return _Fuser(trace, on, fusable, folds, made).groups()


class _Fuser:
    """Rewrites by four rules. softmax, layernorm: the chain of elementwise operators and dropout before it joins its
    first pass, dropout after a softmax its last. activation, cast: they join the operator that produced their input.
    A tensor that is written in place elsewhere is left alone."""

    def __init__(
        self,
        trace: Trace,
        on: Collection[str],
        fusable: Callable[[Op], bool],
        folds: Callable[[Op, Op], bool],
        made: Sequence[Group],
    ) -> None:
        self.trace = trace
        self.on = frozenset(on)
        self.fusable = fusable
        self.folds = folds
        self.made = {group.head.id: group for group in made}
        self.taken: set[int] = {op.id for group in made for op in group.ops}
        versions: dict[int, int] = {}
        for tensor in trace.tensors:
            versions[tensor.storage] = versions.get(tensor.storage, 0) + 1
        self.in_place = {tensor.id for tensor in trace.tensors if versions[tensor.storage] > 1}

    def groups(self) -> tuple[Group, ...]:
        prologues = {op.id: self._prologue(op) for op in self.trace.ops if op.kind in _TAKES_PROLOGUE & self.on}
        result = []
        for op in self.trace.ops:
            if op.id in self.made:
                result.append(self.made[op.id])
            elif op.id not in self.taken:
                result.append(_group(self.trace, op, prologues.get(op.id, ()), self._epilogue(op)))
        return tuple(result)

    def _prologue(self, head: Op) -> tuple[Op, ...]:
        """The chain of elementwise operators and dropout before `head`, earliest first."""
        chain: list[Op] = []
        reader = head
        while (producer := self._producer(reader, main_operand(reader, self.trace), head)) is not None:
            chain.insert(0, producer)
            self.taken.add(producer.id)
            reader = producer
        return tuple(chain)

    def _producer(self, reader: Op, operand: Operand, head: Op) -> Op | None:
        writer = self.trace.writers[operand.tensor]
        if writer is None:
            return None
        producer = self.trace.ops[writer]
        fits = producer.kind in _JOINS_PROLOGUE and producer.id not in self.taken and self.fusable(producer)
        return producer if fits and self._feeds(producer, reader, operand, head) else None

    def _epilogue(self, head: Op) -> tuple[Op, ...]:
        """Activations that only they read, dropout, then a cast, of the head's main result."""
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
            if whole and self._joins(head, last, reader):
                return reader
        return None

    def _joins(self, head: Op, last: Op, reader: Op) -> bool:
        """True for an operator that a rule folds behind `last`, whose whole result it reads."""
        if reader.kind == "cast":
            return "cast" in self.on and self.fusable(reader)
        if reader.kind == "dropout":
            return "softmax" in self.on and head.kind == "softmax" and self.fusable(reader)
        folds = reader.kind in _ACTIVATIONS and head.kind == "matmul" and "activation" in self.on
        return folds and self.folds(reader, last) and self._only_reader(last, reader)

    def _only_reader(self, producer: Op, reader: Op) -> bool:
        """True when the producer's one result is dead after `reader`, which reads it once."""
        tensor = self.trace.tensors[producer.outputs[0].tensor]
        return (
            len(producer.outputs) == 1
            and self.trace.readers[tensor.id] == (reader.id,)
            and tensor.final is None
            and tensor.id not in self.in_place
            and sum(view.tensor == tensor.id for view in reader.inputs) == 1
        )

    def _feeds(self, producer: Op, reader: Op, operand: Operand, head: Op) -> bool:
        """True when `reader` reads the producer's result once, whole, as it lies, and nobody else does before `head`:
        what is read later, by the backward pass say, leaves the group beside its result."""
        tensor = self.trace.tensors[operand.tensor]
        written = (*producer.inputs, *producer.outputs)
        return (
            operand.tensor == producer.outputs[0].tensor
            and all(other in (reader.id, head.id) or other > head.id for other in self.trace.readers[tensor.id])
            and not any(view.tensor in self.in_place for view in written)
            and contiguous(operand)
            and elements(operand) == tensor.elements
            and sum(view.tensor == tensor.id for view in reader.inputs) == 1
        )


def writers_of(groups: Sequence[Group]) -> dict[int, int]:
    """Tensor -> place of the group whose main result it is."""
    return {group.outputs[0].tensor: place for place, group in enumerate(groups) if group.outputs}


def main_operand(op: Op, trace: Trace) -> Operand:
    """The operand whose elements the result's elements follow: the first one, of an elementwise operator the first
    full-size one. For add(x, residual) of which x came from such a one or from dropout that is x: chains stay together.
    """
    if op.kind != "elementwise":
        return op.inputs[0]
    size = elements(op.outputs[0])
    full = [view for view in op.inputs if elements(view) == size and contiguous(view)]
    for view in full:
        writer = trace.writers[view.tensor]
        if writer is not None and trace.ops[writer].kind in _JOINS_PROLOGUE:
            return view
    return full[0] if full else op.inputs[0]


def _group(trace: Trace, head: Op, prologue: tuple[Op, ...], epilogue: tuple[Op, ...]) -> Group:
    first = main_operand(prologue[0], trace) if prologue else head.inputs[0] if head.inputs else None
    inner = {op.outputs[0].tensor for op in prologue}
    extras = [view for op in prologue for view in op.inputs if view is not first and view.tensor not in inner]
    own = head.inputs[1:] if head.inputs else ()
    inputs = (*((first,) if first else ()), *own, *extras)
    names = [f"{head.kind}: {op.name}" for op in prologue] + [f"{_rule_of(op)}: {op.name}" for op in epilogue]
    return Group(head, prologue, epilogue, inputs, _outputs(trace, head, prologue, epilogue), tuple(names))


def _rule_of(op: Op) -> str:
    """The rule by which an operator joins an epilogue."""
    return "cast" if op.kind == "cast" else "softmax" if op.kind == "dropout" else "activation"


def _outputs(trace: Trace, head: Op, prologue: tuple[Op, ...], epilogue: tuple[Op, ...]) -> tuple[Operand, ...]:
    """What must exist outside the group: its main result, then what else of the head, of the epilogue and of the
    prologue is read elsewhere. Statistics that nobody reads (mean, rstd of a LayerNorm) are not written."""
    chain = [op.outputs[0] for op in (head, *epilogue)]
    inside = {op.id for op in (*prologue, head, *epilogue)}
    more = [view for op in (head, *epilogue) for view in op.outputs[1:]]
    before = [view for op in prologue for view in op.outputs]
    return (chain[-1], *(view for view in (*chain[:-1], *more, *before) if _needed_outside(trace, view, inside)))


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
