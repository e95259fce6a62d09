"""From ATen operators to trace operators: one table, `LOWERINGS`. An operator that is not in it is an InputError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accelsim.errors import InputError
from accelsim.trace.matmul import matmul_attributes
from accelsim.trace.model import Operand

if TYPE_CHECKING:
    from accelsim.trace.export.recorder import Call, View


@dataclass(frozen=True, slots=True)
class Lowered:
    """A trace operator before tensors and ids are given. `label` names it in its module, `parts` name its outputs."""

    kind: str
    label: str
    attributes: Mapping[str, Any]
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    parts: tuple[str, ...] = ("out",)


def lower(call: Call) -> Lowered:
    """Lower one recorded call by the table; an in-place operator as its out-of-place form.

    Raises InputError naming the ATen operator when the table does not hold it or holds only another form of it.
    """
    lowering = LOWERINGS.get(_out_of_place(call.function))
    if lowering is None:
        raise InputError(
            f"no lowering for the ATen operator {call.function}",
            where=call.module or None,
            remedy="add it to LOWERINGS in accelsim/trace/export/lowering.py",
        )
    return lowering(call)


def _out_of_place(function: str) -> str:
    namespace, packet, overload = function.split(".", 2)
    return f"{namespace}.{packet.removesuffix('_')}.{overload}"


def _refuse(call: Call, form: str, value: object) -> InputError:
    return InputError(f"{call.function} is only lowered with {form}", where=call.module or None, value=value)


def _argument(call: Call, position: int, name: str, default: Any) -> Any:
    return call.args[position] if position < len(call.args) else call.kwargs.get(name, default)


def _axis(view: View, axis: int) -> int:
    """The axis counted from the end, so that it does not depend on batch dimensions."""
    return axis if axis < 0 else axis - len(view.shape)


def _matmul(call: Call, a: View, b: View, *bias: View) -> Lowered:
    attributes = matmul_attributes(_operand(a), _operand(b), bias=bool(bias))
    return Lowered("matmul", "matmul", attributes, (a, b, *bias), call.outputs)


def _operand(view: View) -> Operand:
    return Operand(view.storage, view.shape, view.strides, view.offset)


def _plain_matmul(call: Call) -> Lowered:
    return _matmul(call, *call.inputs)


def _matmul_with_bias(call: Call) -> Lowered:
    bias, a, b = call.inputs
    if len(bias.shape) != 1:
        raise _refuse(call, "a bias of shape [n]", bias.shape)
    scales = (call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1))
    if scales != (1, 1):
        raise _refuse(call, "beta = alpha = 1", scales)
    return _matmul(call, a, b, bias)


def _softmax(call: Call) -> Lowered:
    if _argument(call, 2, "half_to_float", False):
        raise _refuse(call, "half_to_float false", True)
    return Lowered("softmax", "softmax", {"axis": _axis(call.inputs[0], call.args[1])}, call.inputs, call.outputs)


def _layernorm(call: Call) -> Lowered:
    normalized, epsilon = call.args[1], call.args[4]
    if len(normalized) != 1 or len(call.inputs) != 3:
        raise _refuse(call, "one normalized axis, a weight and a bias", list(normalized))
    return Lowered(
        "layernorm", "layernorm", {"axis": -1, "eps": float(epsilon)}, call.inputs, call.outputs, ("y", "mean", "rstd")
    )


def _gelu(call: Call) -> Lowered:
    attributes = {"approximate": call.kwargs.get("approximate", "none")}
    return Lowered("gelu", "gelu", attributes, call.inputs, call.outputs)


def _activation(kind: str) -> Callable[[Call], Lowered]:
    return lambda call: Lowered(kind, kind, {}, call.inputs, call.outputs)


def _elementwise(function: str) -> Callable[[Call], Lowered]:
    return lambda call: Lowered(
        "elementwise", function, {"function": function, "arity": len(call.inputs)}, call.inputs, call.outputs
    )


def _arithmetic(function: str, scalar_function: str, scalar: Callable[[float], float]) -> Callable[[Call], Lowered]:
    """A binary operator; with a number as its second argument the unary `scalar_function` of `scalar(number)`."""

    def lowering(call: Call) -> Lowered:
        if _argument(call, 2, "alpha", 1) != 1:
            raise _refuse(call, "alpha = 1", _argument(call, 2, "alpha", 1))
        if len(call.inputs) == 2:
            return _elementwise(function)(call)
        if not isinstance(call.args[1], (int, float)):
            raise _refuse(call, "a number as the second argument", call.args[1])
        attributes = {"function": scalar_function, "arity": 1, "scalar": scalar(float(call.args[1]))}
        return Lowered("elementwise", scalar_function, attributes, call.inputs, call.outputs)

    return lowering


def _reduce(function: str) -> Callable[[Call], Lowered]:
    def lowering(call: Call) -> Lowered:
        shape = call.inputs[0].shape
        axes = tuple(axis % len(shape) for axis in call.args[1] or range(len(shape)))
        attributes = {"function": function, "axes": axes}
        return Lowered("reduce", function, attributes, call.inputs, call.outputs)

    return lowering


def _embedding(call: Call) -> Lowered:
    return Lowered("gather", "gather", {"axis": 0}, call.inputs, call.outputs)


def _copy(call: Call) -> Lowered:
    """A copy changes the dtype (cast) or brings a view into row-major order (transpose)."""
    source, target = call.inputs[-1], call.outputs[0]
    if source.dtype != target.dtype:
        return Lowered("cast", "cast", {"from": source.dtype, "to": target.dtype}, (source,), (target,))
    return Lowered("transpose", "transpose", {}, (source,), (target,))


_ADD = _arithmetic("add", "add_scalar", lambda number: number)
_SUBTRACT = _arithmetic("sub", "add_scalar", lambda number: -number)
_MULTIPLY = _arithmetic("mul", "scale", lambda number: number)
_DIVIDE = _arithmetic("div", "scale", lambda number: 1.0 / number)

LOWERINGS: Mapping[str, Callable[[Call], Lowered]] = {
    "aten.mm.default": _plain_matmul,
    "aten.bmm.default": _plain_matmul,
    "aten.addmm.default": _matmul_with_bias,
    "aten._softmax.default": _softmax,
    "aten.native_layer_norm.default": _layernorm,
    "aten.gelu.default": _gelu,
    "aten.tanh.default": _activation("tanh"),
    "aten.relu.default": _activation("relu"),
    "aten.add.Tensor": _ADD,
    "aten.add.Scalar": _ADD,
    "aten.sub.Tensor": _SUBTRACT,
    "aten.sub.Scalar": _SUBTRACT,
    "aten.mul.Tensor": _MULTIPLY,
    "aten.mul.Scalar": _MULTIPLY,
    "aten.div.Tensor": _DIVIDE,
    "aten.div.Scalar": _DIVIDE,
    "aten.exp.default": _elementwise("exp"),
    "aten.log.default": _elementwise("log"),
    "aten.sqrt.default": _elementwise("sqrt"),
    "aten.rsqrt.default": _elementwise("rsqrt"),
    "aten.neg.default": _elementwise("neg"),
    "aten.sigmoid.default": _elementwise("sigmoid"),
    "aten.sum.dim_IntList": _reduce("sum"),
    "aten.mean.dim": _reduce("mean"),
    "aten.embedding.default": _embedding,
    "aten.clone.default": _copy,
    "aten._to_copy.default": _copy,
    "aten.copy.default": _copy,
}
