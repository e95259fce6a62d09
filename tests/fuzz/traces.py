"""Traces to draw: a graph of operators of every kind over odd shapes, views, in-place writes and places."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from accelsim.trace.builder import TraceBuilder, whole
from accelsim.trace.format import dumps
from accelsim.trace.kinds import COLLECTIVES, LOSSES, OPTIMIZERS, REDUCTIONS
from accelsim.trace.model import Op, Operand, Tensor, Trace
from accelsim.trace.shapes import FUNCTIONS, broadcast_shape, contiguous_strides
from tests.fuzz.values import size

MATMUL_DTYPES = ("int8", "int8", "int8", "int8", "int8", "int8", "bf16", "fp32")
DTYPES = (*MATMUL_DTYPES, "bf16", "bf16", "fp32", "fp16", "int16", "int32", "bool", "uint8", "fp64", "int64")
INDICES = ("int32", "int64", "uint8")

Shape = tuple[int, ...]


def drawn_trace(choose: random.Random, huge: float = 0.0, most: int = 10) -> Trace:
    """A trace of one to `most` operators; not validated, so that it may break a rule of the format."""
    rare = choose.random() < 0.1
    drawer = _Drawer(choose, huge, rare)
    for _ in range(choose.randint(1, most)):
        choose.choice(_RARE if rare and choose.random() < 0.3 else _STEPS)(drawer)
    builder = drawer.builder
    return Trace(
        builder.model, builder.run, builder.exporter, tuple(builder.tensors), tuple(builder.ops), name=builder.name
    )


def drawn_text(choose: random.Random, huge: float = 0.0) -> str:
    """The text of a drawn trace's file, with its sha256 right."""
    return dumps(drawn_trace(choose, huge))


class _Drawer:
    """What has been drawn so far: `live` are the tensors that may be read."""

    def __init__(self, choose: random.Random, huge: float, training: bool):
        self.choose = choose
        self.training = training  # backward operators too, which only a machine with recipes for them takes
        self.huge = huge
        self.builder = TraceBuilder("drawn", run={"batch": choose.choice((1, 2)), "seq": choose.choice((1, 128))})
        self.live: list[Tensor] = []
        self.layers = choose.random() < 0.5

    def odds(self, probability: float) -> bool:
        return self.choose.random() < probability

    def shape(self, least: int = 0, most: int = 4) -> Shape:
        rank = self.choose.randint(least, most)
        return tuple(
            size(self.choose, self.huge) if rank - axis <= 2 else self.choose.choice((1, 2, 3, 5))
            for axis in range(rank)
        )

    def fresh(self, shape: Sequence[int], dtype: str | None = None, role: str | None = None) -> Tensor:
        """A tensor that exists before the run."""
        roles = ("weight", "input", "mask", "constant", "optimizer_state")
        initial = "on_chip" if self.odds(0.2) else "dram"
        tensor = self.builder.tensor(
            f"t{len(self.builder.tensors)}", shape, dtype or self.choose.choice(DTYPES),
            role or self.choose.choice(roles), initial=initial, final=initial if self.odds(0.2) else None,
        )  # fmt: skip
        self.live.append(tensor)
        return tensor

    def any(self, least: int = 0, dtypes: Sequence[str] = DTYPES) -> Tensor:
        """A tensor of at least `least` dimensions: one that an operator made, or a new one."""
        fitting = [tensor for tensor in self.live if len(tensor.shape) >= least and tensor.dtype in dtypes]
        if fitting and self.odds(0.8):
            return self.choose.choice(fitting[-4:])
        return self.fresh(self.shape(least), self.choose.choice(dtypes))

    def result(self, shape: Sequence[int], dtype: str | None = None, over: Tensor | None = None) -> Tensor:
        """A tensor for an operator to write; with `over`, in its place."""
        return self.builder.tensor(
            f"t{len(self.builder.tensors)}", shape, dtype or self.choose.choice(DTYPES[:11]),
            self.choose.choice(("activation", "activation", "gradient")), overwrites=over,
            final=self.choose.choice((None, None, None, None, "dram", "on_chip")),
        )  # fmt: skip

    def op(self, kind: str, inputs: Sequence[Tensor | Operand], outputs: Sequence[Tensor | Operand], **how: Any) -> Op:
        """An operator; what it writes may be read from now on."""
        attributes = how.pop("attributes", None if kind == "matmul" else {})
        layer = len(self.builder.ops) // 3 if self.layers else None
        op = self.builder.op(kind, inputs, outputs, attributes, layer=layer, **how)
        self.live += [self.builder.tensors[operand.tensor] for operand in op.outputs]
        return op

    def view(self, tensor: Tensor) -> Operand:
        """The tensor as it lies, or rows, columns or a transposition of it."""
        operand = whole(tensor)
        if len(operand.shape) < 2 or self.odds(0.6):
            return operand
        shape, strides, offset = list(operand.shape), list(operand.strides), 0
        if self.odds(0.5):
            axis = self.choose.randrange(len(shape))
            first = self.choose.randrange(shape[axis])
            offset, shape[axis] = first * strides[axis], self.choose.randint(1, shape[axis] - first)
        if self.odds(0.5):
            for items in (shape, strides):
                items[-1], items[-2] = items[-2], items[-1]
        return Operand(tensor.id, tuple(shape), tuple(strides), offset)


def _matmul(d: _Drawer) -> None:
    a = d.view(d.any(2, MATMUL_DTYPES))
    *leading, m, k = a.shape
    n = size(d.choose, d.huge)
    b_leading: Shape = tuple(leading) if d.odds(0.5) else ()
    dtype = d.builder.tensors[a.tensor].dtype
    turned = d.odds(0.3)
    b = whole(d.fresh((*b_leading, n, k) if turned else (*b_leading, k, n), dtype if d.odds(0.9) else None))
    if turned:
        b = Operand(b.tensor, (*b_leading, k, n), (*b.strides[:-2], 1, k))
    elif leading and not b_leading and d.odds(0.3):
        b = Operand(b.tensor, (*leading, k, n), (*(0,) * len(leading), *b.strides))
    bias = [d.fresh((n,))] if d.odds(0.3) else []
    d.op("matmul", [a, b, *bias], [d.result((*leading, m, n), d.choose.choice(MATMUL_DTYPES))])


def _softmax(d: _Drawer) -> None:
    x = d.view(d.any(1))
    forward = d.op("softmax", [x], [d.result(x.shape)], attributes={"axis": -1})
    if d.training:
        y, axis = forward.outputs[0], {"axis": len(x.shape) - 1}
        _backward(d, forward, [whole(d.fresh(x.shape)), y], [x.shape], axis)


def _layernorm(d: _Drawer) -> None:
    x = d.view(d.any(1))
    width = x.shape[-1:]
    parameters = [d.fresh(width) for _ in range(d.choose.choice((0, 1, 2, 2)))]
    kept = [d.result(x.shape[:-1]) for _ in range(d.choose.choice((0, 0, 1, 2)))]
    attributes = {"axis": -1, "eps": d.choose.choice((0, 1e-5, 1e-12))}
    forward = d.op("layernorm", [x, *parameters], [d.result(x.shape), *kept], attributes=attributes)
    if d.training:
        inputs = [whole(d.fresh(x.shape)), x, whole(d.fresh(width)), *forward.outputs[1:]]
        _backward(d, forward, inputs, [x.shape, *[width] * d.choose.choice((0, 1, 2))], attributes)


def _unary(d: _Drawer) -> None:
    x = d.view(d.any())
    kind = d.choose.choice(("gelu", "tanh", "relu"))
    attributes = {"approximate": d.choose.choice(("none", "tanh"))} if kind == "gelu" else {}
    forward = d.op(kind, [x], [d.result(x.shape)], attributes=attributes)
    if d.training:
        _backward(d, forward, [whole(d.fresh(x.shape)), x], [x.shape], attributes)


def _dropout(d: _Drawer) -> None:
    x = d.view(d.any())
    mask = [d.result(x.shape, "bool")] if d.odds(0.5) else []
    forward = d.op("dropout", [x], [d.result(x.shape), *mask], attributes={"p": d.choose.choice((0, 0.1, 0.5))})
    if mask and d.training:
        _backward(d, forward, [whole(d.fresh(x.shape)), whole(mask[0])], [x.shape], {"p": 0.1})


def _loss(d: _Drawer) -> None:
    x = d.any(1)
    labels = d.fresh(d.choose.choice((x.shape, x.shape[:-1])), "int64")
    kept = [d.result(x.shape)] if d.odds(0.5) else []
    outputs = [d.result(d.choose.choice(((), (1,), x.shape[:-1]))), *kept]
    function = {"function": d.choose.choice(LOSSES)}
    forward = d.op("loss", [x, labels], outputs, attributes=function)
    if d.training:
        _backward(d, forward, [whole(x), whole(labels)], [x.shape], function)


def _backward(
    d: _Drawer, forward: Op, inputs: Sequence[Operand], shapes: Sequence[Shape], attributes: dict[str, Any]
) -> None:
    outputs = [d.result(shape) for shape in shapes]
    kind = f"{forward.kind}_backward"
    d.op(kind, inputs, outputs, attributes=attributes, phase="backward", forward_op=forward.id)


def _elementwise(d: _Drawer) -> None:
    function = d.choose.choice(sorted(FUNCTIONS))
    arities, scalar_arity = FUNCTIONS[function]
    arity = d.choose.choice(arities)
    x = d.view(d.any())
    inputs = [x, *(_broadcast(d, x.shape) for _ in range(arity - 1))]
    d.choose.shuffle(inputs)
    shape = broadcast_shape([operand.shape for operand in inputs]) or x.shape
    scalar = {"scalar": d.choose.choice((0.5, -1, 0))} if scalar_arity == arity else {}
    source = d.builder.tensors[x.tensor]
    in_place = d.odds(0.2) and source in d.live and source.shape == shape
    out = d.result(shape, source.dtype, source) if in_place else d.result(shape)
    if in_place:
        d.live.remove(source)
    d.op("elementwise", inputs, [out], attributes={"function": function, "arity": arity, **scalar})


def _broadcast(d: _Drawer, shape: Shape) -> Operand:
    """An operand that broadcasts to `shape`: of the same shape, fewer dimensions, ones, or strides of 0."""
    way = d.choose.choice(("same", "same", "fewer", "ones", "zero"))
    if way == "fewer":
        return whole(d.fresh(shape[d.choose.randint(0, len(shape)) :]))
    if way == "ones":
        return whole(d.fresh([d.choose.choice((1, side)) for side in shape]))
    if way == "zero":
        zeros = [d.odds(0.5) for _ in shape]
        kept = [1 if zero else side for side, zero in zip(shape, zeros, strict=True)]
        strides = [0 if zero else step for step, zero in zip(contiguous_strides(kept), zeros, strict=True)]
        return Operand(d.fresh(kept).id, shape, tuple(strides))
    same = [tensor for tensor in d.live if tensor.shape == shape]
    return whole(d.choose.choice(same) if same and d.odds(0.7) else d.fresh(shape))


def _attention(d: _Drawer) -> None:
    """Scores, sometimes scaled and masked, softmax, sometimes cast, and context; sometimes with a reader too many."""
    batch, m, n, width = d.choose.choice((1, 2, 3)), *(size(d.choose, d.huge) for _ in range(3))
    q, k, v = (d.fresh((batch, side, width), "int8") for side in (m, n, n))
    x = d.result((batch, m, n), "bf16")
    d.op("matmul", [q, Operand(k.id, (batch, width, n), (n * width, 1, width))], [x])
    if d.odds(0.5):
        mask, y = _broadcast(d, x.shape), d.result(x.shape, "bf16")
        d.op("elementwise", [x, mask], [y], attributes={"function": "add", "arity": 2})
        x = y
    p = d.result(x.shape, "bf16")
    d.op("softmax", [x], [p], attributes={"axis": -1})
    p8 = d.result(x.shape, "int8")
    d.op("cast", [p], [p8], attributes={"from": "bf16", "to": "int8"})
    d.op("matmul", [p8, v], [d.result((batch, m, width), d.choose.choice(MATMUL_DTYPES))])


def _matmul_layernorm(d: _Drawer) -> None:
    """A matmul, and a LayerNorm on its result with what it was read from beside it."""
    m, n, k = (size(d.choose, d.huge) for _ in range(3))
    y, z = d.result((m, n), "bf16"), d.result((m, n), "bf16")
    d.op("matmul", [d.fresh((m, k), "int8"), d.fresh((k, n), "int8")], [y])
    d.op("elementwise", [y, _broadcast(d, y.shape)], [z], attributes={"function": "add", "arity": 2})
    parameters = [d.fresh((n,)) for _ in range(d.choose.choice((0, 2)))]
    kept = [d.result((m,)) for _ in range(d.choose.choice((0, 0, 2)))]
    d.op("layernorm", [z, *parameters], [d.result((m, n)), *kept], attributes={"axis": -1, "eps": 1e-5})


def _reduce(d: _Drawer) -> None:
    x = d.view(d.any(1))
    rank = len(x.shape)
    axes = d.choose.sample(range(rank), d.choose.randint(1, rank))
    keep = d.odds(0.5)
    shape = [1 if axis in axes else side for axis, side in enumerate(x.shape) if keep or axis not in axes]
    d.op("reduce", [x], [d.result(shape)], attributes={"function": d.choose.choice(REDUCTIONS), "axes": axes})


def _gather(d: _Drawer) -> None:
    table = d.any(1)
    indices, axis, shape = _rows_of(d, table.shape)
    d.op("gather", [table, indices], [d.result(shape, table.dtype)], attributes={"axis": axis})


def _scatter_add(d: _Drawer) -> None:
    table = d.shape(1)
    indices, axis, shape = _rows_of(d, table)
    before = [d.fresh(table)] if d.odds(0.5) else []
    d.op("scatter_add", [d.fresh(shape), indices, *before], [d.result(table)], attributes={"axis": axis})


def _rows_of(d: _Drawer, table: Shape) -> tuple[Tensor, int, Shape]:
    """Indices into an axis of a table, and the shape of what they name."""
    indices, axis = d.fresh(d.shape(0, 2), d.choose.choice(INDICES)), d.choose.randrange(len(table))
    return indices, axis, table[:axis] + indices.shape + table[axis + 1 :]


def _transpose(d: _Drawer) -> None:
    x = d.view(d.any())
    d.op("transpose", [x], [d.result(x.shape, d.builder.tensors[x.tensor].dtype)])


def _cast(d: _Drawer) -> None:
    x = d.view(d.any())
    before = d.builder.tensors[x.tensor].dtype
    after = d.choose.choice([dtype for dtype in DTYPES if dtype != before])
    d.op("cast", [x], [d.result(x.shape, after)], attributes={"from": before, "to": after})


def _optimizer(d: _Drawer) -> None:
    shape = d.shape(0, 2)
    parameter, gradient = d.fresh(shape, "fp32", "weight"), d.fresh(shape, "fp32")
    states = [d.fresh(shape, "fp32", "optimizer_state") for _ in range(d.choose.choice((0, 1, 2)))]
    outputs = [
        d.builder.tensor(f"{old.name}_next", shape, "fp32", old.role, overwrites=old) for old in (parameter, *states)
    ]
    d.live = [tensor for tensor in d.live if tensor not in (parameter, *states)]
    attributes = {"function": d.choose.choice(OPTIMIZERS), "lr": 0.001}
    d.op("optimizer_update", [parameter, gradient, *states], outputs, attributes=attributes, phase="optimizer")


def _collective(d: _Drawer) -> None:
    x = d.any()
    attributes = {"function": d.choose.choice(COLLECTIVES), "participants": 1}
    d.op("collective", [x], [d.result(x.shape)], attributes=attributes)


def _diamond(d: _Drawer) -> None:
    """One tensor, two ways, and together again."""
    x = d.any()
    left, right = d.result(x.shape), d.result(x.shape)
    d.op("tanh", [x], [left])
    d.op("relu", [x], [right])
    d.op("elementwise", [left, right], [d.result(x.shape)], attributes={"function": "add", "arity": 2})


_STEPS: Sequence[Callable[[_Drawer], None]] = (
    _matmul, _matmul, _matmul, _softmax, _layernorm, _unary, _dropout, _elementwise, _elementwise, _reduce, _gather,
    _transpose, _cast, _cast, _diamond, _attention, _attention, _matmul_layernorm,
)  # fmt: skip
_RARE = (_loss, _scatter_add, _optimizer, _collective)  # what no shipped machine computes
