"""Build a trace in Python: tensors, operators, and the dependencies that follow from what they read and write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accelsim import __version__
from accelsim.errors import InputError
from accelsim.trace.checks import integer, one_of
from accelsim.trace.format import validated
from accelsim.trace.matmul import matmul_attributes
from accelsim.trace.model import DTYPE_BYTES, Op, Operand, Tensor, Trace
from accelsim.trace.shapes import contiguous_strides


def whole(tensor: Tensor) -> Operand:
    """The operand that reads or writes all of a tensor as it lies."""
    return Operand(tensor.id, tensor.shape, contiguous_strides(tensor.shape))


class TraceBuilder:
    """Collects tensors and operators in a valid order; `build` checks everything and returns the Trace.

    >>> builder = TraceBuilder("one_matmul")
    >>> x = builder.tensor("x", (128, 768), "int8", "input")
    >>> w = builder.tensor("w", (768, 64), "int8", "weight")
    >>> y = builder.tensor("y", (128, 64), "int8")
    >>> builder.op("matmul", [x, w], [y]).macs
    6291456
    >>> len(builder.build().ops)
    1
    """

    def __init__(
        self,
        name: str,
        *,
        config: Mapping[str, Any] | None = None,
        run: Mapping[str, Any] | None = None,
        exporter: Mapping[str, Any] | None = None,
    ):
        self.name = name
        self.model = {"name": name, "config": dict(config or {})}
        self.run = {"mode": "inference", **(run or {})}
        self.exporter = dict(exporter or {"name": "accelsim.trace.builder", "versions": {"accelsim": __version__}})
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self._writer: dict[int, int] = {}
        self._readers: dict[int, list[int]] = {}
        self._newest: dict[int, int] = {}  # storage -> tensor id of its newest version
        self._overwrites: dict[int, int] = {}  # tensor id -> tensor id of the version before it

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        role: str = "activation",
        *,
        initial: str = "dram",
        final: str | None = None,
        overwrites: Tensor | None = None,
    ) -> Tensor:
        """Declare a tensor; `overwrites` makes it the next version of that tensor's storage (an in-place write)."""
        tensor_id = len(self.tensors)
        storage, version = (tensor_id, 0) if overwrites is None else (overwrites.storage, overwrites.version + 1)
        tensor = Tensor(tensor_id, name, tuple(shape), dtype, role, storage, version, initial, final)
        if storage in self._newest:
            self._overwrites[tensor_id] = self._newest[storage]
        self._newest[storage] = tensor_id
        self.tensors.append(tensor)
        return tensor

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | Operand],
        outputs: Sequence[Tensor | Operand],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        phase: str = "forward",
        layer: int | None = None,
        module: str = "",
        forward_op: int | None = None,
    ) -> Op:
        """Append an operator. A Tensor stands for all of it; a matmul's attributes follow from its operands."""
        read = tuple(_operand(item) for item in inputs)
        written = tuple(_operand(item) for item in outputs)
        if kind == "matmul" and attributes is None:
            attributes = _attributes_of_matmul(name, read)
        op_id, deps = len(self.ops), self._record(read, written)
        name = name or f"{kind}_{op_id}"
        op = Op(op_id, kind, name, phase, layer, module, read, written, dict(attributes or {}), deps, forward_op)
        self.ops.append(op)
        return op

    def build(self) -> Trace:
        """The finished trace, checked like one that is read from a file. Raises InputError."""
        ops, tensors = tuple(self.ops), tuple(self.tensors)
        return validated(Trace(self.model, self.run, self.exporter, tensors, ops, name=self.name))

    def _record(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> tuple[int, ...]:
        """Note who reads and writes what; return the operators that the new one has to wait for."""
        op_id = len(self.ops)
        deps = {self._writer[operand.tensor] for operand in inputs if operand.tensor in self._writer}
        for operand in inputs:
            self._readers.setdefault(operand.tensor, []).append(op_id)
        for operand in outputs:
            before = self._overwrites.get(operand.tensor, -1)
            deps.update(self._readers.get(before, []))
            deps.update([self._writer[before]] if before in self._writer else [])
            self._writer[operand.tensor] = op_id
        return tuple(sorted(deps - {op_id}))


def gemm_trace(
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    dtype: str = "int8",
    out_dtype: str | None = None,
    resident: Collection[str] = (),
) -> Trace:
    """A trace of one matmul [batch, m, k] x [batch, k, n]; `resident` names operands ("a", "b") that start on chip.

    The output has `out_dtype`, by default the operands' dtype. Raises InputError for a size below 1, an unknown
    dtype, an unknown resident operand, or more than 2^63 - 1 multiply-accumulates.
    """
    for label, size in {"m": m, "n": n, "k": k, "batch": batch}.items():
        _require(label, size, integer(1)(size))
    for label, value in {"dtype": dtype, "out_dtype": out_dtype or dtype}.items():
        _require(label, value, one_of(DTYPE_BYTES.keys())(value))
    for operand in resident:
        _require("resident", operand, one_of(("a", "b"))(operand))
    leading = (batch,) if batch > 1 else ()
    places = {operand: "on_chip" if operand in resident else "dram" for operand in "ab"}
    name = f"gemm_{m}x{n}x{k}" + (f"_b{batch}" if batch > 1 else "")
    builder = TraceBuilder(name, run={"batch": batch, "precision": dtype})
    a = builder.tensor("a", (*leading, m, k), dtype, "input", initial=places["a"])
    b = builder.tensor("b", (*leading, k, n), dtype, "weight", initial=places["b"])
    out = builder.tensor("out", (*leading, m, n), out_dtype or dtype)
    builder.op("matmul", [a, b], [out], name="gemm")
    return builder.build()


def _require(label: str, value: object, expected: str | None) -> None:
    if expected is not None:
        raise InputError(f"{label} must be {expected}", where="gemm", value=value)


def _operand(item: Tensor | Operand) -> Operand:
    if isinstance(item, Tensor):
        return whole(item)
    return replace(item, shape=tuple(item.shape), strides=tuple(item.strides))


def _attributes_of_matmul(name: str, inputs: Sequence[Operand]) -> dict[str, Any]:
    if len(inputs) < 2 or min(len(operand.shape) for operand in inputs[:2]) < 2:
        shapes = [operand.shape for operand in inputs]
        raise InputError(
            "a matmul reads A [batch..., m, k] and B [batch..., k, n]", where=f"operator {name!r}", value=shapes
        )
    return matmul_attributes(inputs[0], inputs[1], bias=len(inputs) > 2)
