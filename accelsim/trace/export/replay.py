"""Execute a trace with PyTorch, operator by operator, in any order that its dependencies allow.

One flat buffer stands for each storage, shared by all versions of it as in the recorded program; an operand is a view
of its buffer. So a wrong stride, attribute or operand gives other numbers, and so does a missing write-after-read or
write-after-write dependency when operators run in another order. Meant for traces in the precision of the recording;
kinds of training are not executed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from accelsim.errors import InputError
from accelsim.trace.export import recorder
from accelsim.trace.model import Op, Operand, Trace

DTYPES: Mapping[str, torch.dtype] = {name: dtype for dtype, name in recorder.DTYPES.items()}

Results = Sequence[torch.Tensor]


def replay(trace: Trace, values: Mapping[int, torch.Tensor], order: Iterable[int] | None = None) -> Memory:
    """Run the operators in `order` (ids; by default as they stand) and return the memory after the last.

    values: tensor id -> contents, flat, of each tensor that exists before the run. Other storages start as garbage.
    Raises InputError for an operator kind that is not executed here.
    """
    memory = Memory(trace, values)
    for op_id in range(len(trace.ops)) if order is None else order:
        memory.run(trace.ops[op_id])
    return memory


def random_order(trace: Trace, seed: int) -> list[int]:
    """A random order of the operator ids that the trace's dependencies allow."""
    priorities = list(range(len(trace.ops)))
    random.Random(seed).shuffle(priorities)
    return _order(trace, priorities)


def latest_first_order(trace: Trace) -> list[int]:
    """The allowed order that always runs the latest operator that is ready: far from the recorded one."""
    return _order(trace, [-op.id for op in trace.ops])


def _order(trace: Trace, priorities: Sequence[int]) -> list[int]:
    waiting = {op.id: len(op.deps) for op in trace.ops}
    followers: dict[int, list[int]] = {op.id: [] for op in trace.ops}
    for op in trace.ops:
        for dep in op.deps:
            followers[dep].append(op.id)
    ready = [(priorities[op], op) for op, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, op_id = heapq.heappop(ready)
        order.append(op_id)
        for follower in followers[op_id]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, (priorities[follower], follower))
    return order


class Memory:
    """A buffer for each storage of a trace, and the operators that act on them."""

    def __init__(self, trace: Trace, values: Mapping[int, torch.Tensor]):
        self._trace = trace
        self._buffers: dict[int, torch.Tensor] = {}
        for tensor in trace.tensors:
            garbage = torch.full((tensor.elements,), 77, dtype=DTYPES[tensor.dtype])
            self._buffers.setdefault(tensor.storage, garbage)
        for tensor_id, contents in values.items():
            self._buffers[trace.tensors[tensor_id].storage].copy_(contents)

    def read(self, operand: Operand) -> torch.Tensor:
        """The view of a buffer that the operand describes."""
        buffer = self._buffers[self._trace.tensors[operand.tensor].storage]
        return torch.as_strided(buffer, operand.shape, operand.strides, operand.offset)

    def run(self, op: Op) -> None:
        """Execute one operator and write its results where its outputs lie."""
        execute = EXECUTORS.get(op.kind)
        if execute is None:
            raise InputError(f"operators of kind {op.kind} cannot be replayed", where=op.name)
        inputs = [self.read(operand) for operand in op.inputs]
        for operand, result in zip(op.outputs, execute(op.attributes, inputs), strict=True):
            self.read(operand).copy_(result.reshape(operand.shape))


def _matmul(attributes: Mapping[str, Any], inputs: Results) -> Results:
    a, b, *bias = inputs
    if bias:
        return [torch.addmm(bias[0], a, b)]
    return [torch.mm(a, b) if a.ndim == 2 else torch.bmm(a, b)]


def _layernorm(attributes: Mapping[str, Any], inputs: Results) -> Results:
    x, gamma, beta = inputs
    return list(torch.native_layer_norm(x, [x.shape[-1]], gamma, beta, attributes["eps"]))


def _gather(attributes: Mapping[str, Any], inputs: Results) -> Results:
    table, indices = inputs
    axis = attributes["axis"]
    rows = table.index_select(axis, indices.flatten())
    return [rows.reshape(*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])]


def _elementwise(attributes: Mapping[str, Any], inputs: Results) -> Results:
    function = ELEMENTWISE.get(attributes["function"])
    if function is None:
        raise InputError(f"elementwise {attributes['function']} cannot be replayed")
    scalars = [attributes["scalar"]] if "scalar" in attributes else []
    return [function(*inputs, *scalars)]


def _reduce(attributes: Mapping[str, Any], inputs: Results) -> Results:
    function = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[attributes["function"]]
    return [function(inputs[0], attributes["axes"])]


ELEMENTWISE: Mapping[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "scale": torch.mul,
    "add_scalar": torch.add,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "neg": torch.neg,
    "sigmoid": torch.sigmoid,
}

EXECUTORS: Mapping[str, Callable[[Mapping[str, Any], Results], Results]] = {
    "matmul": _matmul,
    "layernorm": _layernorm,
    "elementwise": _elementwise,
    "reduce": _reduce,
    "softmax": lambda attributes, inputs: [torch.softmax(inputs[0], attributes["axis"])],
    "gelu": lambda attributes, inputs: [torch.nn.functional.gelu(inputs[0], approximate=attributes["approximate"])],
    "tanh": lambda attributes, inputs: [torch.tanh(inputs[0])],
    "relu": lambda attributes, inputs: [torch.relu(inputs[0])],
    "gather": _gather,
    "transpose": lambda attributes, inputs: [inputs[0].clone()],
    "cast": lambda attributes, inputs: [inputs[0].to(DTYPES[attributes["to"]])],
}
