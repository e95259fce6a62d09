"""Dedicated units at the array's output: which row operators take the rows of the matmul before them as they come."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from accelsim.compile.attach_cost import why_apart
from accelsim.compile.fuse import Group, contiguous, elements
from accelsim.compile.plan import ARRAY_OUTPUT, ROW_KINDS, MatmulWork, Planner
from accelsim.compile.views import block_elements, is_blocked
from accelsim.errors import InternalError
from accelsim.trace.matmul import MatmulView, matmul_view
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace


@dataclass(frozen=True)
class Attached:
    """Groups with row operators folded into their matmuls, and by head why others stay apart."""

    groups: tuple[Group, ...]
    notes: Mapping[int, str]


def attach(groups: tuple[Group, ...], planner: Planner, level: str) -> Attached:
    """Fold each softmax or LayerNorm group whose unit sits at the array's output into the matmul that it reads.

    The unit takes accumulator rows, so a tile of the matmul holds whole rows of its result. Where that cannot be, the
    group stays as it is: its unit reads the scratchpad, and the plan says why.
    """
    units = planner.arch.special_units
    result: list[Group | None] = list(groups)
    writer_of = {group.outputs[0].tensor: index for index, group in enumerate(groups) if group.outputs}
    notes: dict[int, str] = {}
    judged: dict[Hashable, str] = {}
    for index, group in enumerate(groups):
        unit = units.get(group.head.kind)
        if unit is None or unit.attach != ARRAY_OUTPUT:
            continue
        before = writer_of.get(group.inputs[0].tensor)
        producer = None if before is None else result[before]
        note = why_not(producer, group, planner, level)
        if producer is not None and not note and before is not None:
            merged = _merged(producer, group)
            key = merged.signature(planner.trace)
            if key not in judged:
                judged[key] = _judge(planner, producer, merged)
            note = judged[key]
            if not note:
                result[before], result[index] = None, merged
        notes[group.head.id] = note
    return Attached(tuple(group for group in result if group is not None), notes)


def _judge(planner: Planner, producer: Group, merged: Group) -> str:
    apart, together = planner.work(producer), planner.work(merged)
    if not (isinstance(apart, MatmulWork) and isinstance(together, MatmulWork)):
        raise InternalError("a group whose head is a matmul has a matmul's work")
    return why_apart(planner.arch, apart, together)


def why_not(producer: Group | None, group: Group, planner: Planner, level: str) -> str:
    """Why `group` cannot take the rows of `producer` at the array's output, "" if it can."""
    if level == "none":
        return "fusion none keeps operators apart"
    if group.head.kind not in ROW_KINDS or producer is None or producer.head.kind != "matmul" or producer.epilogue:
        return "its input does not come straight from a matmul"
    if planner.input_ops(group.head, group.prologue) is None:
        return f"the {group.head.kind} unit takes a multiplication and an addition before, not more"
    if len(group.outputs) > 1 + len(group.epilogue) or not _row_by_row(producer, group, planner.trace):
        return "the matmul's rows are not its rows, or something else reads them"
    view = matmul_view(producer.head)
    if not _holds_rows(view, planner):
        return f"the accumulator does not hold two rows of {view.n} sums for each array"
    if not all(_follows(item, view, group, planner) for item in group.inputs[1:]):
        return "an operand of it is too large to keep and follows no tile"
    return ""


def is_contiguous(view: MatmulView) -> bool:
    """True where the result lies row after row, batch after batch, from the start of its tensor."""
    out = view.out
    return (
        (view.batch == 1 or out.batch_stride == view.m * view.n)
        and (view.m == 1 or out.row_stride == view.n)
        and (view.n == 1 or out.column_stride == 1)
        and out.offset == 0
    )


def _row_by_row(producer: Group, group: Group, trace: Trace) -> bool:
    """The matmul's result is read once, whole, as it lies, by this group, whose rows are the matmul's."""
    view, read = matmul_view(producer.head), group.inputs[0]
    tensor = trace.tensors[read.tensor]
    first = group.prologue[0] if group.prologue else group.head
    changing = {each.storage for each in trace.tensors if each.version > 0}
    used = (*producer.inputs, *producer.outputs, *group.inputs)
    return (
        len(producer.outputs) == 1
        and trace.readers[tensor.id] == (first.id,)
        and tensor.final is None
        and contiguous(read)
        and elements(read) == tensor.elements == view.batch * view.m * view.n
        and (group.head.outputs[0].shape or (1,))[-1] == view.n
        and is_contiguous(view)
        and not any(trace.tensors[each.tensor].storage in changing for each in used)
        and sum(each.tensor == tensor.id for each in group.inputs) == 1
    )


def _holds_rows(view: MatmulView, planner: Planner) -> bool:
    accumulator, arrays = planner.arch.accumulator, planner.arch.array.count
    return 2 * arrays * view.n * accumulator.width_bytes <= accumulator.capacity_bytes


def _follows(item: Operand, view: MatmulView, group: Group, planner: Planner) -> bool:
    """An input with an element for each of the result's, or a broadcast one that is kept, or cut as the tiles are."""
    if elements(item) == view.batch * view.m * view.n:
        return True
    width = DTYPE_BYTES[planner.trace.tensors[item.tensor].dtype]
    if not is_blocked(item, width, planner.arch.scratchpad.capacity_bytes):
        return elements(item) != view.batch * view.m or view.n == 1 or item.shape[-1:] != (1,)
    return block_elements(item, group.head.outputs[0].shape) % (view.m * view.n) == 0


def _merged(producer: Group, group: Group) -> Group:
    chain = (*group.prologue, group.head, *group.epilogue)
    return replace(
        producer,
        epilogue=chain,
        inputs=(*producer.inputs, *group.inputs[1:]),
        outputs=group.outputs,
        fired=(*producer.fired, *(f"array output: {op.name}" for op in chain)),
    )
