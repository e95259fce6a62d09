"""What must hold between the records of a trace: references, views, hazards and dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from accelsim.trace.checks import INT64_LIMIT, Problem
from accelsim.trace.kinds import operator_problems
from accelsim.trace.model import DTYPE_BYTES, Op, Operand, Tensor
from accelsim.trace.records import error
from accelsim.trace.shapes import elements

# A tensor of these roles is made by an operator; the others may exist before the run.
COMPUTED_ROLES = frozenset({"activation", "gradient", "weight_gradient"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a trace comes from: a file, whose lines messages name, or Python code."""

    source: str
    has_lines: bool = True

    def line(self, number: int) -> str:
        """How a message names a line of the uncompressed file (the first is 1)."""
        return f"{self.source}:{number}" if self.has_lines else self.source


@dataclass
class _Use:
    """Who writes and reads each tensor so far, and which tensor each one overwrites."""

    before: Mapping[int, int]
    after: Mapping[int, int]
    writer: dict[int, int] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)


def validate(tensors: Sequence[Tensor], ops: Sequence[Op], origin: Origin) -> None:
    """Check all rules that go beyond a single field. Tensors stand on lines 2, 3, ..., operators after them.

    Raises:
        InputError: naming the line, the tensor or operator, the field, its value and what was expected.
    """
    before = _overwritten(tensors)
    for tensor, problem in chain(_tensor_problems(tensors), _storage_problems(tensors, before)):
        raise error(origin.line(2 + tensor.id), tensor_subject(tensor), problem)
    use = _Use(before, {earlier: later for later, earlier in before.items()})
    macs = 0
    for line, op in enumerate(ops, start=2 + len(tensors)):
        for problem in _op_problems(op, line - 2 - len(tensors), tensors, ops, use):
            raise error(origin.line(line), op_subject(op), problem)
        macs += op.macs
        if macs >= INT64_LIMIT:
            problem = Problem("its multiply-accumulates", "must bring the trace's sum to less than 2^63", macs)
            raise error(origin.line(line), op_subject(op), problem)
    for tensor, problem in _unwritten_problems(tensors, use):
        raise error(origin.line(2 + tensor.id), tensor_subject(tensor), problem)


def tensor_subject(tensor: Tensor) -> str:
    """How a message names a tensor."""
    return f"tensor {tensor.id} {tensor.name!r}"


def op_subject(op: Op) -> str:
    """How a message names an operator."""
    return f"operator {op.id} {op.name!r} ({op.kind}" + (f", layer {op.layer})" if op.layer is not None else ")")


def _tensor_problems(tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Problem]]:
    total = 0
    for position, tensor in enumerate(tensors):
        total += tensor.bytes
        if tensor.id != position:
            problem = Problem("id", f"must be {position}, its position among the tensors", tensor.id)
            yield replace(tensor, id=position), problem
        if tensor.bytes >= INT64_LIMIT:
            yield tensor, Problem("shape", f"must give less than 2^63 bytes of {tensor.dtype}", tensor.shape)
        if total >= INT64_LIMIT:
            yield tensor, Problem("shape", "must bring the sum of all tensors to less than 2^63 bytes", tensor.shape)


def _storage_problems(tensors: Sequence[Tensor], before: Mapping[int, int]) -> Iterator[tuple[Tensor, Problem]]:
    """Versions of one storage are distinct and of one size."""
    seen: dict[tuple[int, int], Tensor] = {}
    for tensor in tensors:
        if twin := seen.get((tensor.storage, tensor.version)):
            expected = f"must be new: {tensor_subject(twin)} has it too"
            yield tensor, Problem("(storage, version)", expected, (tensor.storage, tensor.version))
        seen[tensor.storage, tensor.version] = tensor
    for tensor_id, previous_id in before.items():
        tensor, previous = tensors[tensor_id], tensors[previous_id]
        if (tensor.elements, tensor.dtype) != (previous.elements, previous.dtype):
            expected = f"must have the {previous.elements} elements of {previous.dtype} of {tensor_subject(previous)}"
            yield tensor, Problem("shape", f"{expected}, whose storage it overwrites", (tensor.shape, tensor.dtype))


def _unwritten_problems(tensors: Sequence[Tensor], use: _Use) -> Iterator[tuple[Tensor, Problem]]:
    """What no operator writes exists before the run and stays where it is; what one writes does not exist before."""
    for tensor in tensors:
        writer = use.writer.get(tensor.id)
        if writer is None and tensor.id in use.before:
            yield tensor, Problem("version", "must be written by an operator, as it is not the first", tensor.version)
        if writer is None and tensor.role in COMPUTED_ROLES:
            yield tensor, Problem("role", "must not be one that an operator writes: none writes it", tensor.role)
        if writer is None and tensor.final not in (None, tensor.initial):
            expected = f"must be left out or {tensor.initial}, where the tensor starts: no operator writes it"
            yield tensor, Problem("final", expected, tensor.final)
        if writer is not None and tensor.initial != "dram":
            yield tensor, Problem("initial", f"must be left out: operator {writer} writes it", tensor.initial)


def _overwritten(tensors: Sequence[Tensor]) -> dict[int, int]:
    """For each tensor that is not the first version of its storage, the id of the version before it."""
    ordered = sorted(tensors, key=lambda tensor: (tensor.storage, tensor.version))
    return {later.id: earlier.id for earlier, later in pairwise(ordered) if earlier.storage == later.storage}


def _op_problems(op: Op, position: int, tensors: Sequence[Tensor], ops: Sequence[Op], use: _Use) -> Iterator[Problem]:
    if op.id != position:
        yield Problem("id", f"must be {position}, its position among the operators", op.id)
    for side, operands in (("inputs", op.inputs), ("outputs", op.outputs)):
        for index, operand in enumerate(operands):
            yield from _view_problems(f"{side}[{index}]", operand, tensors)
    for index, operand in enumerate(op.outputs):
        if any(size > 1 and stride == 0 for size, stride in zip(operand.shape, operand.strides, strict=True)):
            yield Problem(f"outputs[{index}].strides", "must not write one element twice (stride 0)", operand.strides)
    yield from operator_problems(op, tensors)
    yield from _forward_problems(op, ops)
    yield from _dependency_problems(op, tensors, use)


def _view_problems(field_name: str, operand: Operand, tensors: Sequence[Tensor]) -> Iterator[Problem]:
    if operand.tensor >= len(tensors):
        yield Problem(f"{field_name}.tensor", f"must be one of the {len(tensors)} tensors", operand.tensor)
    if len(operand.strides) != len(operand.shape):
        yield Problem(f"{field_name}.strides", f"must be one a dimension of {operand.shape}", operand.strides)
    tensor = tensors[operand.tensor]
    last = operand.offset + sum((n - 1) * stride for n, stride in zip(operand.shape, operand.strides, strict=True))
    if last >= tensor.elements:
        expected = f"must lie inside the {tensor.elements} elements of {tensor_subject(tensor)}, and ends at {last}"
        yield Problem(field_name, expected, (operand.shape, operand.strides, operand.offset))
    if elements(operand.shape) * DTYPE_BYTES[tensor.dtype] >= INT64_LIMIT:
        yield Problem(f"{field_name}.shape", "must give less than 2^63 bytes", operand.shape)


def _forward_problems(op: Op, ops: Sequence[Op]) -> Iterator[Problem]:
    """A backward operator names its forward operator, which is of its kind; a forward operator names none."""
    kind = op.kind.removesuffix("_backward")
    if op.forward_op is None:
        if kind != op.kind:
            yield Problem("forward_op", f"must be the id of its forward {kind}", "nothing")
        return
    if op.phase == "forward":
        yield Problem("forward_op", "must be left out of a forward operator", op.forward_op)
    if op.forward_op >= op.id or ops[op.forward_op].phase != "forward":
        yield Problem("forward_op", f"must be an earlier forward operator of the {len(ops)}", op.forward_op)
    if kind != op.kind and ops[op.forward_op].kind != kind:
        yield Problem("forward_op", f"must be a {kind}, and is a {ops[op.forward_op].kind}", op.forward_op)


def _dependency_problems(op: Op, tensors: Sequence[Tensor], use: _Use) -> Iterator[Problem]:
    """Deps are earlier operators in ascending order and hold every one that this one has to wait for."""
    if list(op.deps) != sorted(set(op.deps)):
        yield Problem("deps", "must be different ids in ascending order", op.deps)
    if op.deps and op.deps[-1] >= op.id:
        yield Problem("deps", f"must be ids of earlier operators (below {op.id})", op.deps)
    for operand in op.inputs:
        yield from _read_problems(op, tensors[operand.tensor], use)
    for operand in op.outputs:
        yield from _write_problems(op, tensors[operand.tensor], tensors, use)
    for operand in op.inputs:
        use.readers.setdefault(operand.tensor, []).append(op.id)
    use.writer.update({operand.tensor: op.id for operand in op.outputs})


def _read_problems(op: Op, tensor: Tensor, use: _Use) -> Iterator[Problem]:
    overwriter = use.writer.get(use.after.get(tensor.id, -1))
    if overwriter is not None:
        expected = f"must not read {tensor_subject(tensor)} after operator {overwriter} has overwritten it"
        yield Problem("inputs", expected, tensor.id)
    if tensor.id in use.writer:
        yield from _missing(op, use.writer[tensor.id], f"writes {tensor_subject(tensor)}, which is read here")
    elif tensor.role in COMPUTED_ROLES or tensor.id in use.before:
        yield Problem("inputs", f"must not read {tensor_subject(tensor)} before it is written", tensor.id)


def _write_problems(op: Op, tensor: Tensor, tensors: Sequence[Tensor], use: _Use) -> Iterator[Problem]:
    if tensor.id in use.writer:
        expected = f"must not write {tensor_subject(tensor)} again: operator {use.writer[tensor.id]} has written it"
        yield Problem("outputs", expected, tensor.id)
    if tensor.id in use.readers:
        yield Problem("outputs", f"must not write {tensor_subject(tensor)} after it was read", tensor.id)
    if (before := use.before.get(tensor.id)) is None:
        return
    for reader in use.readers.get(before, []):
        yield from _missing(op, reader, f"reads {tensor_subject(tensors[before])}, which is overwritten here")
    if before in use.writer:
        writer = use.writer[before]
        yield from _missing(op, writer, f"writes {tensor_subject(tensors[before])}, which is overwritten here")
    elif tensors[before].role in COMPUTED_ROLES or before in use.before:
        expected = f"must not overwrite {tensor_subject(tensors[before])} before it is written"
        yield Problem("outputs", expected, tensor.id)


def _missing(op: Op, producer: int, reason: str) -> Iterator[Problem]:
    if producer != op.id and producer not in op.deps:
        yield Problem("deps", f"must include {producer}, which {reason}", op.deps)
