"""Cut some layers out of a trace, so that one encoder layer can be studied alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from accelsim.errors import InputError
from accelsim.trace.format import validated
from accelsim.trace.model import Op, Operand, Tensor, Trace


def parse_layers(text: str) -> tuple[int, int]:
    """First and last layer (half-open) of "first:last", as in "0:2". Raises InputError for any other text."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text.strip(), re.ASCII)
    if match is None or int(match[1]) >= int(match[2]):
        remedy = "write first:last with first < last, as in 0:2 for the layers 0 and 1"
        raise InputError("is no range of layers", where="layers", value=text, remedy=remedy)
    return int(match[1]), int(match[2])


def slice_layers(trace: Trace, first: int, last: int) -> Trace:
    """The operators with first <= layer < last, as a trace of its own; operators without a layer are dropped.

    What they read from dropped operators becomes an input in DRAM; what dropped operators read of theirs becomes a
    result that ends in DRAM. Ids are given anew; layers keep their numbers. `run.layer_slice` notes the range.

    Raises:
        InputError: the range is empty or reaches beyond the layers that the trace has.
    """
    _check_range(trace, first, last)
    kept = [op for op in trace.ops if op.layer is not None and first <= op.layer < last]
    tensors = _kept_tensors(trace, kept)
    new_tensor = {tensor.id: position for position, tensor in enumerate(tensors)}
    new_op = {op.id: position for position, op in enumerate(kept)}
    text = f"{first}:{last}"
    return validated(
        replace(
            trace,
            run={**trace.run, "layer_slice": text},
            tensors=tuple(replace(tensor, id=new_tensor[tensor.id]) for tensor in tensors),
            ops=tuple(_renumbered(op, new_tensor, new_op) for op in kept),
            name=f"{trace.name}[{text}]",
        )
    )


def _check_range(trace: Trace, first: int, last: int) -> None:
    layers = sorted({op.layer for op in trace.ops if op.layer is not None})
    if first < last and set(range(first, last)) <= set(layers):
        return
    there_are = f"the trace {trace.name!r} has the layers {_ranges(layers)}" if layers else "the trace has no layers"
    remedy = f"{there_are}; give first:last, half-open, within them"
    raise InputError("no such layers", where="layers", value=f"{first}:{last}", remedy=remedy)


def _ranges(layers: Sequence[int]) -> str:
    """Ascending numbers as half-open ranges: "0:12", or "0:2, 5:7"."""
    starts = [layer for layer in layers if layer - 1 not in layers]
    ends = [layer + 1 for layer in layers if layer + 1 not in layers]
    return ", ".join(f"{start}:{end}" for start, end in zip(starts, ends, strict=True))


def _kept_tensors(trace: Trace, kept: Sequence[Op]) -> list[Tensor]:
    """The tensors that the kept operators touch, in their old order, with roles, places and storages put right."""
    touched = sorted({operand.tensor for op in kept for operand in (*op.inputs, *op.outputs)})
    kept_ids = {op.id for op in kept}
    tensors = [_resettled(trace, trace.tensors[tensor_id], kept_ids) for tensor_id in touched]
    return _with_own_storages(tensors, {operand.tensor for op in kept for operand in op.outputs})


def _resettled(trace: Trace, tensor: Tensor, kept_ids: set[int]) -> Tensor:
    """An orphan becomes an input in DRAM; a tensor that a dropped operator reads is a result."""
    writer = trace.writers[tensor.id]
    if writer is not None and writer not in kept_ids:
        return replace(tensor, role="input", initial="dram", final=None)
    if writer is not None and not kept_ids.issuperset(trace.readers[tensor.id]):
        return replace(tensor, final="dram")
    return tensor


def _with_own_storages(tensors: Sequence[Tensor], written: set[int]) -> list[Tensor]:
    """A storage goes on from one version to the next; an orphan or a version left out in between begins a new one."""
    ordered = sorted(tensors, key=lambda tensor: (tensor.storage, tensor.version))
    storages = {ordered[0].id: ordered[0].storage}
    next_storage = 1 + ordered[-1].storage
    for before, tensor in pairwise(ordered):
        storages[tensor.id] = storages[before.id] if tensor.storage == before.storage else tensor.storage
        continues = tensor.id in written and tensor.version == before.version + 1
        if tensor.storage == before.storage and not continues:
            storages[tensor.id] = next_storage
            next_storage += 1
    return [replace(tensor, storage=storages[tensor.id]) for tensor in tensors]


def _renumbered(op: Op, new_tensor: dict[int, int], new_op: dict[int, int]) -> Op:
    def moved(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(operand, tensor=new_tensor[operand.tensor]) for operand in operands)

    return replace(
        op,
        id=new_op[op.id],
        inputs=moved(op.inputs),
        outputs=moved(op.outputs),
        deps=tuple(new_op[dep] for dep in op.deps if dep in new_op),
        forward_op=None if op.forward_op is None else new_op.get(op.forward_op),
    )
