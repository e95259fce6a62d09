"""Which shapes and attributes fit together, one generator a kind of operator; the table that names them is kinds.py.

Each yields the first `Problem` it finds; what follows may rely on what came before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelsim.trace.checks import Problem
from accelsim.trace.model import Op, Operand, Tensor

Problems = Iterator[Problem]
Shape = tuple[int, ...]

# Elementwise function -> the arities it has, and the arity at which it takes the attribute `scalar` for what it lacks.
FUNCTIONS: dict[str, tuple[tuple[int, ...], int | None]] = {
    "add": ((1, 2), 1),
    "sub": ((1, 2), 1),
    "mul": ((1, 2), 1),
    "div": ((1, 2), 1),
    "maximum": ((1, 2), 1),
    "minimum": ((1, 2), 1),
    "compare": ((1, 2), 1),
    "pow": ((1, 2), 1),
    "scale": ((1,), 1),
    "add_scalar": ((1,), 1),
    "where": ((3,), None),
    "exp": ((1,), None),
    "log": ((1,), None),
    "sqrt": ((1,), None),
    "rsqrt": ((1,), None),
    "neg": ((1,), None),
    "copy": ((1,), None),
    "sigmoid": ((1,), None),
}
INDEX_DTYPES = ("int8", "uint8", "int16", "int32", "int64")


def same_shape(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """Every operand has the shape of the first input."""
    for field, operand in _operands(op):
        yield from _shape(field, operand, op.inputs[0].shape)


def softmax(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """Operands of one shape, normalised along the last axis."""
    yield from same_shape(op, tensors)
    yield from _last_axis(op, op.inputs[0].shape)


def layernorm(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """x, gamma [d], beta [d] -> y, mean and rstd (x without its last axis)."""
    shape = op.inputs[0].shape
    yield from _last_axis(op, shape)
    for position, operand in enumerate(op.inputs[1:], start=1):
        yield from _shape(f"inputs[{position}]", operand, shape[-1:])
    yield from _shape("outputs[0]", op.outputs[0], shape)
    for position, operand in enumerate(op.outputs[1:], start=1):
        yield from _shape(f"outputs[{position}]", operand, shape[:-1], (*shape[:-1], 1))


def layernorm_backward(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """dy, x, gamma [d], mean, rstd -> dx, dgamma [d], dbeta [d]."""
    shape = op.inputs[0].shape
    yield from _last_axis(op, shape)
    yield from _shape("inputs[1]", op.inputs[1], shape)
    yield from _shape("inputs[2]", op.inputs[2], shape[-1:])
    for position, operand in enumerate(op.inputs[3:], start=3):
        yield from _shape(f"inputs[{position}]", operand, shape[:-1], (*shape[:-1], 1))
    yield from _shape("outputs[0]", op.outputs[0], shape)
    for position, operand in enumerate(op.outputs[1:], start=1):
        yield from _shape(f"outputs[{position}]", operand, shape[-1:])


def elementwise(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """As many inputs as the function's arity, broadcast by NumPy's rules to the output's shape."""
    function = op.attributes["function"]
    arities, scalar_arity = FUNCTIONS[function]
    arity = op.attributes["arity"]
    if arity not in arities:
        yield Problem("attributes.arity", f"must be {' or '.join(map(str, arities))} for {function}", arity)
    if len(op.inputs) != arity:
        yield Problem("inputs", f"must be {arity} in number, as attributes.arity says", len(op.inputs))
    if scalar_arity == arity and "scalar" not in op.attributes:
        yield Problem("attributes.scalar", f"must be given for {function} of {arity} operand", "nothing")
    if scalar_arity != arity and "scalar" in op.attributes:
        expected = f"must not be given for {function} of {arity} operands"
        yield Problem("attributes.scalar", expected, op.attributes["scalar"])
    shapes = [operand.shape for operand in op.inputs]
    broadcast = broadcast_shape(shapes)
    if broadcast is None:
        yield Problem("inputs", "must have shapes that broadcast together", shapes)
    else:
        yield from _shape("outputs[0]", op.outputs[0], broadcast)


def reduce(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """The reduced axes are left out of the output's shape, or kept with size 1."""
    shape, given = op.inputs[0].shape, op.attributes["axes"]
    axes = {axis % len(shape) for axis in given if -len(shape) <= axis < len(shape)}
    if len(axes) != len(given) or not axes:
        yield Problem("attributes.axes", f"must be different axes of an input of shape {shape}", given)
    without = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    yield from _shape("outputs[0]", op.outputs[0], without, kept)


def gather(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """table, indices -> the table's shape with its gathered axis replaced by the shape of the indices."""
    table, indices = op.inputs
    yield from _indexed(op, tensors, "outputs[0]", op.outputs[0], table.shape, indices)


def scatter_add(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """updates, indices (and the table before) -> table; the updates have the shape that a gather would give."""
    updates, indices = op.inputs[:2]
    yield from _indexed(op, tensors, "inputs[0]", updates, op.outputs[0].shape, indices)
    for operand in op.inputs[2:]:
        yield from _shape("inputs[2]", operand, op.outputs[0].shape)


def transpose(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """A copy of a strided view into a contiguous one of the same shape and dtype."""
    yield from same_shape(op, tensors)
    source, copy = op.inputs[0], op.outputs[0]
    contiguous = contiguous_strides(copy.shape)
    if any(size > 1 and a != b for size, a, b in zip(copy.shape, copy.strides, contiguous, strict=True)):
        yield Problem("outputs[0].strides", f"must be {contiguous}, contiguous", copy.strides)
    if tensors[copy.tensor].dtype != tensors[source.tensor].dtype:
        expected = f"must have the input's dtype {tensors[source.tensor].dtype} (else it is a cast)"
        yield Problem("outputs[0]", expected, tensors[copy.tensor].dtype)


def cast(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """Same shape, `from` and `to` the dtypes of input and output, and not the same."""
    yield from same_shape(op, tensors)
    for field, operand in (("from", op.inputs[0]), ("to", op.outputs[0])):
        dtype = tensors[operand.tensor].dtype
        if op.attributes[field] != dtype:
            yield Problem(f"attributes.{field}", f"must be {dtype}, as its tensor is", op.attributes[field])
    if op.attributes["from"] == op.attributes["to"]:
        yield Problem("attributes.to", "must differ from attributes.from (no-ops are left out)", op.attributes["to"])


def optimizer_update(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """parameter, gradient, states -> parameter, states; the first two inputs and the first output of one shape."""
    yield from _shape("inputs[1]", op.inputs[1], op.inputs[0].shape)
    yield from _shape("outputs[0]", op.outputs[0], op.inputs[0].shape)


def collective(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """all_gather multiplies the elements by the participants, reduce_scatter divides them, the others keep them."""
    participants = op.attributes["participants"]
    grow = participants if op.attributes["function"] == "all_gather" else 1
    shrink = participants if op.attributes["function"] == "reduce_scatter" else 1
    before, after = elements(op.inputs[0].shape), elements(op.outputs[0].shape)
    if before * grow != after * shrink:
        expected = f"must have {before * grow}/{shrink} elements for {participants} participants"
        yield Problem("outputs[0].shape", expected, op.outputs[0].shape)


def loss(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """predictions, labels (one a row, or one an element) -> one loss or one a row; more outputs are kept values."""
    predictions = op.inputs[0].shape
    yield from _shape("inputs[1]", op.inputs[1], predictions[:-1], predictions)
    yield from _shape("outputs[0]", op.outputs[0], (), (1,), predictions[:-1])


def loss_backward(op: Op, tensors: Sequence[Tensor]) -> Problems:
    """The gradient has the shape of the predictions; labels as in `loss`."""
    predictions = op.inputs[0].shape
    yield from _shape("inputs[1]", op.inputs[1], predictions[:-1], predictions)
    yield from _shape("outputs[0]", op.outputs[0], predictions)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides, in elements, of a contiguous tensor of this shape."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_shape(shapes: Sequence[Shape]) -> Shape | None:
    """The shape that these broadcast to by NumPy's rules, None when they do not."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    sizes = [{size for size in column if size != 1} for column in zip(*padded, strict=True)]
    return None if any(len(column) > 1 for column in sizes) else tuple(max(column, default=1) for column in sizes)


def elements(shape: Sequence[int]) -> int:
    """Number of elements, exact."""
    result = 1
    for size in shape:
        result *= size
    return result


def _operands(op: Op) -> Iterator[tuple[str, Operand]]:
    for side, operands in (("inputs", op.inputs), ("outputs", op.outputs)):
        for position, operand in enumerate(operands):
            yield f"{side}[{position}]", operand


def _shape(field: str, operand: Operand, *allowed: Shape) -> Problems:
    if operand.shape not in allowed:
        yield Problem(f"{field}.shape", f"must be {' or '.join(map(str, allowed))}", operand.shape)


def _last_axis(op: Op, shape: Shape) -> Problems:
    axis = op.attributes["axis"]
    if not shape or axis not in (-1, len(shape) - 1):
        yield Problem("attributes.axis", f"must be the last axis (-1) of an input of shape {shape}", axis)


def _indexed(op: Op, tensors: Sequence[Tensor], field: str, rows: Operand, table: Shape, indices: Operand) -> Problems:
    axis = op.attributes["axis"]
    if not -len(table) <= axis < len(table):
        yield Problem("attributes.axis", f"must be an axis of a table of shape {table}", axis)
    dtype = tensors[indices.tensor].dtype
    if dtype not in INDEX_DTYPES:
        yield Problem("inputs[1]", "must be indices of an integer dtype", dtype)
    axis %= len(table)
    yield from _shape(field, rows, table[:axis] + indices.shape + table[axis + 1 :])
