"""The operator kinds of a trace: what each takes, gives and states. One table, `KIND_RULES`.

Operands are views in logical orientation; sizes in elements. An operator states every attribute in the table, no other,
and null is never allowed. What this table decides beyond the obvious:

- **matmul** {batch, m, n, k, transpose_a, transpose_b, bias}: A [batch..., m, k], B [batch..., k, n] with A's own
  leading dimensions (a broadcast shows as stride 0) or [k, n] for all, then bias [n] if `bias`; out [batch..., m, n].
  With B [k, n] A's leading dimensions count as rows. The leading dimensions of a view must merge into one stride.
  `transpose_x` is true when rows lie closer together than columns (`matmul.is_transposed`).
- **softmax** {axis}, **layernorm** {axis, eps}: over the last axis only. layernorm reads x, then gamma and beta where
  the model has them, and writes y, then mean and rstd where somebody keeps them.
- **elementwise** {function, arity[, scalar]}: `shapes.FUNCTIONS` lists functions, arities and when `scalar` is due: it
  takes the place of the second operand (`mul` of arity 1 with a scalar is `scale`, `add` is `add_scalar`). Operands
  broadcast by NumPy's rules. `where` reads condition, then, else; `copy` is a copy that keeps the layout.
- **reduce** {function, axes}: reduced axes are dropped or kept with size 1.
- **gather** {axis}: table, indices. **scatter_add** {axis}: updates, indices[, table before] -> table.
- **transpose** {}: any copy of a strided view into a contiguous one. **cast** {from, to}: two different dtypes.
- **dropout** {p}: x -> y[, mask]. **loss** {function}: predictions, labels -> loss[, kept values].
- **optimizer_update** {function[, hyperparameters]}: parameter, gradient, states -> parameter, states (new versions of
  the same storages).
- **collective** {function, participants}: one tensor in, one out, as one participant sees it.
- **softmax_backward**, **tanh_backward**, **relu_backward**: dy, y -> dx. **gelu_backward**: dy, x -> dx.
  **layernorm_backward**: dy, x, gamma[, mean, rstd] -> dx[, dgamma, dbeta]. **dropout_backward**: dy, mask -> dx.
  **loss_backward**: predictions or kept values, labels[, dloss] -> dpredictions. Each names its `forward_op`. The
  gradients of a matmul are matmuls, those of a gather a scatter_add; bias gradients are reduces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelsim.trace import shapes
from accelsim.trace.checks import Check, Problem, boolean, integer, integers, number, one_of
from accelsim.trace.matmul import matmul_problems
from accelsim.trace.model import DTYPE_BYTES, Op, Tensor

ShapeRule = Callable[[Op, Sequence[Tensor]], Iterator[Problem]]

REDUCTIONS = ("sum", "mean", "max")
LOSSES = ("cross_entropy", "mse")
OPTIMIZERS = ("adam", "adamw", "lamb", "sgd")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


@dataclass(frozen=True)
class KindRule:
    """What an operator of one kind must be: numbers of operands (least, most), attributes, and how shapes agree."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    shapes: ShapeRule
    attributes: Mapping[str, Check]
    optional: Mapping[str, Check]


def _rule(
    inputs: tuple[int, int],
    outputs: tuple[int, int],
    shape_rule: ShapeRule,
    attributes: Mapping[str, Check] | None = None,
    optional: Mapping[str, Check] | None = None,
) -> KindRule:
    return KindRule(inputs, outputs, shape_rule, attributes or {}, optional or {})


def _matmul(op: Op, tensors: Sequence[Tensor]) -> Iterator[Problem]:
    yield from matmul_problems(op)


_AXIS: Mapping[str, Check] = {"axis": integer()}
_ROW: Mapping[str, Check] = {"axis": integer(), "eps": number(0)}
_GELU: Mapping[str, Check] = {"approximate": one_of(("none", "tanh"))}
_DROPOUT: Mapping[str, Check] = {"p": number(0, 1)}
_LOSS: Mapping[str, Check] = {"function": one_of(LOSSES)}
_DTYPE = one_of(DTYPE_BYTES.keys())
_MATMUL: Mapping[str, Check] = {
    **dict.fromkeys(("batch", "m", "n", "k"), integer(1)),
    **dict.fromkeys(("transpose_a", "transpose_b", "bias"), boolean),
}
_HYPERPARAMETERS: Mapping[str, Check] = {
    name: number() for name in ("lr", "beta1", "beta2", "eps", "weight_decay", "momentum")
}

KIND_RULES: Mapping[str, KindRule] = {
    "matmul": _rule((2, 3), (1, 1), _matmul, _MATMUL),
    "softmax": _rule((1, 1), (1, 1), shapes.softmax, _AXIS),
    "layernorm": _rule((1, 3), (1, 3), shapes.layernorm, _ROW),
    "gelu": _rule((1, 1), (1, 1), shapes.same_shape, _GELU),
    "tanh": _rule((1, 1), (1, 1), shapes.same_shape),
    "relu": _rule((1, 1), (1, 1), shapes.same_shape),
    "elementwise": _rule(
        (1, 3), (1, 1), shapes.elementwise,
        {"function": one_of(shapes.FUNCTIONS.keys()), "arity": integer(1)}, {"scalar": number()},
    ),
    "reduce": _rule((1, 1), (1, 1), shapes.reduce, {"function": one_of(REDUCTIONS), "axes": integers()}),
    "gather": _rule((2, 2), (1, 1), shapes.gather, _AXIS),
    "scatter_add": _rule((2, 3), (1, 1), shapes.scatter_add, _AXIS),
    "transpose": _rule((1, 1), (1, 1), shapes.transpose),
    "cast": _rule((1, 1), (1, 1), shapes.cast, {"from": _DTYPE, "to": _DTYPE}),
    "dropout": _rule((1, 1), (1, 2), shapes.same_shape, _DROPOUT),
    "loss": _rule((2, 2), (1, 3), shapes.loss, _LOSS),
    "optimizer_update": _rule(
        (2, 6), (1, 5), shapes.optimizer_update, {"function": one_of(OPTIMIZERS)}, _HYPERPARAMETERS
    ),
    "collective": _rule(
        (1, 1), (1, 1), shapes.collective, {"function": one_of(COLLECTIVES), "participants": integer(1)}
    ),
    "softmax_backward": _rule((2, 2), (1, 1), shapes.softmax, _AXIS),
    "layernorm_backward": _rule((3, 5), (1, 3), shapes.layernorm_backward, _ROW),
    "gelu_backward": _rule((2, 2), (1, 1), shapes.same_shape, _GELU),
    "tanh_backward": _rule((2, 2), (1, 1), shapes.same_shape),
    "relu_backward": _rule((2, 2), (1, 1), shapes.same_shape),
    "dropout_backward": _rule((2, 2), (1, 1), shapes.same_shape, _DROPOUT),
    "loss_backward": _rule((2, 4), (1, 1), shapes.loss_backward, _LOSS),
}  # fmt: skip


def operator_problems(op: Op, tensors: Sequence[Tensor]) -> Iterator[Problem]:
    """What is wrong with an operator of a known kind: operand counts, attributes, then how shapes agree."""
    rule = KIND_RULES[op.kind]
    for field, given, (least, most) in (("inputs", op.inputs, rule.inputs), ("outputs", op.outputs, rule.outputs)):
        if not least <= len(given) <= most:
            count = f"{least}" if least == most else f"{least} to {most}"
            yield Problem(field, f"must be {count} in number for kind {op.kind}", len(given))
    yield from _attribute_problems(op, rule)
    yield from rule.shapes(op, tensors)


def _attribute_problems(op: Op, rule: KindRule) -> Iterator[Problem]:
    for name, value in op.attributes.items():
        check = rule.attributes.get(name) or rule.optional.get(name)
        if check is None:
            known = one_of((*rule.attributes, *rule.optional))(name) or ""
            yield Problem("attributes", f"must be {known}" if known != "one of " else "must be empty", name)
        elif (expected := check(value)) is not None:
            yield Problem(f"attributes.{name}", f"must be {expected}", value)
    for name in rule.attributes:
        if name not in op.attributes:
            yield Problem(f"attributes.{name}", f"must be given for kind {op.kind}", "nothing")
