"""Rewrite a trace recorded in fp32 to bf16 or int8: dtypes, and for int8 the casts in front of the matmuls.

int8: weights and operands of matmuls int8, their bias int32, everything else floating-point bf16. A matmul's output
that only matmuls read is int8 (requantised as it leaves the accumulator); any other tensor that a matmul reads stays
bf16 and gets one `cast`, right after its producer, that all matmuls share. A transpose in between changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelsim.errors import InputError
from accelsim.trace.builder import whole
from accelsim.trace.export.assemble import with_dependencies
from accelsim.trace.model import Op, Operand, Tensor, Trace

FLOATS = frozenset({"fp16", "bf16", "fp32", "fp64"})


def to_precision(trace: Trace, precision: str) -> Trace:
    """The trace, recorded in fp32, in another precision: "int8", "bf16" or "fp32" (unchanged).

    Raises InputError for another precision.
    """
    if precision == "fp32":
        return trace
    if precision == "bf16":
        return replace(trace, tensors=tuple(_with_dtype(tensor, "bf16") for tensor in trace.tensors))
    if precision == "int8":
        return _quantised(trace)
    raise InputError("unknown precision", where="precision", value=precision, remedy="use int8, bf16 or fp32")


def _with_dtype(tensor: Tensor, dtype: str) -> Tensor:
    return replace(tensor, dtype=dtype) if tensor.dtype in FLOATS else tensor


def _quantised(trace: Trace) -> Trace:
    operands = _MatmulOperands(trace)
    biases = {operand.tensor for op in trace.ops if op.kind == "matmul" for operand in op.inputs[2:]}
    dtypes = dict.fromkeys(biases, "int32") | dict.fromkeys(operands.int8_tensors(), "int8")
    tensors = tuple(_with_dtype(tensor, dtypes.get(tensor.id, "bf16")) for tensor in trace.tensors)
    casts = [tensor for tensor in tensors if tensor.dtype == "bf16" and operands.is_read(tensor.id)]
    return _CastInserter(replace(trace, tensors=tensors), casts, operands).result()


class _MatmulOperands:
    """Which reads of a trace end as the operand A or B of a matmul, directly or through a transpose."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._reads: defaultdict[int, list[tuple[Op, int]]] = defaultdict(list)
        for op in trace.ops:
            for position, operand in enumerate(op.inputs):
                self._reads[operand.tensor].append((op, position))
        self._versions = Counter(tensor.storage for tensor in trace.tensors)
        self._exclusive: set[int] = set()
        for op in reversed(trace.ops):  # readers first
            self._exclusive.update(operand.tensor for operand in op.outputs if self._is_exclusive(operand.tensor))

    def is_operand(self, op: Op, position: int) -> bool:
        """True when the operator reads this input as a matmul operand, or copies it for matmuls alone."""
        if op.kind == "transpose":
            return op.outputs[0].tensor in self._exclusive
        return op.kind == "matmul" and position < 2

    def is_read(self, tensor: int) -> bool:
        """True when some matmul reads the tensor."""
        return any(self.is_operand(*read) for read in self._reads[tensor])

    def int8_tensors(self) -> set[int]:
        """Matmul outputs and copies that only matmuls read, and the weights of matmuls (also where gathered from)."""
        producers = {operand.tensor: op.kind for op in self._trace.ops for operand in op.outputs}
        copied = {tensor for tensor in self._exclusive if producers[tensor] in ("matmul", "transpose")}
        return copied | {tensor.id for tensor in self._trace.tensors if self._is_matmul_weight(tensor)}

    def _is_matmul_weight(self, tensor: Tensor) -> bool:
        others = [op.kind for op, position in self._reads[tensor.id] if not self.is_operand(op, position)]
        return tensor.role == "weight" and self.is_read(tensor.id) and set(others) <= {"gather"}

    def _is_exclusive(self, tensor: int) -> bool:
        """Only matmuls read the tensor, nobody asks for it after the run, and it is never overwritten."""
        found = self._trace.tensors[tensor]
        reads = self._reads[tensor]
        is_private = found.final is None and self._versions[found.storage] == 1
        return is_private and bool(reads) and all(self.is_operand(*read) for read in reads)


class _CastInserter:
    """Adds a cast to int8 after the producer of each given tensor and lets the matmuls read the cast."""

    def __init__(self, trace: Trace, casts: Sequence[Tensor], operands: _MatmulOperands):
        self._trace = trace
        self._operands = operands
        self._tensors = list(trace.tensors)
        self._ops: list[Op] = []
        self._cast_of: dict[int, int] = {}
        next_storage = 1 + max((tensor.storage for tensor in trace.tensors), default=-1)
        for index, tensor in enumerate(casts):
            self._cast_of[tensor.id] = len(self._tensors)
            self._tensors.append(_cast_tensor(tensor, len(self._tensors), next_storage + index))

    def result(self) -> Trace:
        """The trace with casts, its operators numbered and their dependencies found anew."""
        new_ids: dict[int, int] = {}
        for op in self._trace.ops:
            self._cast_unwritten(op)
            new_ids[op.id] = len(self._ops)
            self._append(self._redirected(op, new_ids))
            for operand in op.outputs:
                self._cast(operand.tensor, op, op.name)
        return replace(self._trace, tensors=tuple(self._tensors), ops=with_dependencies(self._tensors, self._ops))

    def _cast_unwritten(self, reader: Op) -> None:
        """An initial tensor has no producer: its cast stands before its first reader."""
        for tensor in dict.fromkeys(operand.tensor for operand in reader.inputs):
            if self._trace.writers[tensor] is None and self._trace.readers[tensor][0] == reader.id:
                self._cast(tensor, reader, self._tensors[tensor].name)

    def _cast(self, tensor: int, near: Op, name: str) -> None:
        if tensor in self._cast_of:
            source, target = self._tensors[tensor], self._tensors[self._cast_of[tensor]]
            self._append(
                replace(
                    near,
                    kind="cast",
                    name=f"{name}.cast",
                    inputs=(whole(source),),
                    outputs=(whole(target),),
                    attributes={"from": source.dtype, "to": target.dtype},
                    forward_op=None,
                )
            )

    def _append(self, op: Op) -> None:
        self._ops.append(replace(op, id=len(self._ops)))

    def _redirected(self, op: Op, new_ids: Mapping[int, int]) -> Op:
        forward = None if op.forward_op is None else new_ids[op.forward_op]
        inputs = tuple(self._read(op, position, operand) for position, operand in enumerate(op.inputs))
        return replace(op, inputs=inputs, forward_op=forward)

    def _read(self, op: Op, position: int, operand: Operand) -> Operand:
        if operand.tensor in self._cast_of and self._operands.is_operand(op, position):
            return replace(operand, tensor=self._cast_of[operand.tensor])
        return operand


def _cast_tensor(source: Tensor, tensor_id: int, storage: int) -> Tensor:
    return Tensor(tensor_id, f"{source.name}.int8", source.shape, "int8", "activation", storage)
