"""A softmax or LayerNorm as what follows a matmul: when it can take the matmul's rows from the accumulator."""

from __future__ import annotations

from dataclasses import replace

from accelsim.compile.fuse import Group, contiguous, elements
from accelsim.compile.plan import Planner
from accelsim.compile.views import block_elements, is_blocked
from accelsim.compile.work import ROW_KINDS
from accelsim.trace.matmul import MatmulView, matmul_view
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace


def why_rows_stay_apart(producer: Group | None, group: Group, planner: Planner) -> str:
    """Why `group` cannot take the rows of `producer` from the accumulator, "" if it can."""
    if group.head.kind not in ROW_KINDS or producer is None or producer.head.kind != "matmul" or producer.epilogue:
        return "its input does not come straight from a matmul"
    if producer.before:
        return "its input comes from a fused attention"
    if len(group.outputs) > 1 + len(group.epilogue) or not _row_by_row(producer, group, planner.trace):
        return "the matmul's rows are not its rows, or something else reads them"
    if not all(contiguous(out) and elements(out) == elements(group.inputs[0]) for out in group.outputs):
        return "a result of it does not lie row after row"
    view = matmul_view(producer.head)
    if not all(_follows(item, view, group, planner) for item in group.inputs[1:]):
        return "an operand of it is too large to keep and follows no tile"
    return ""


def why_rows_do_not_fit(view: MatmulView, planner: Planner) -> str:
    """Why the accumulator cannot hold whole rows of a matmul's result, "" if it can."""
    accumulator, arrays = planner.arch.accumulator, planner.arch.array.count
    if 2 * arrays * view.n * accumulator.width_bytes <= accumulator.capacity_bytes:
        return ""
    return f"the accumulator does not hold two rows of {view.n} sums for each array"


def with_rows(producer: Group, group: Group, rule: str) -> Group:
    """The matmul group `producer` with the row operator of `group`, and its chain, as its epilogue."""
    chain = (*group.prologue, group.head, *group.epilogue)
    return replace(
        producer,
        epilogue=chain,
        inputs=(*producer.inputs, *group.inputs[1:]),
        outputs=group.outputs,
        rows=group,
        fired=(*producer.fired, *(f"{rule}: {op.name}" for op in chain)),
    )


def is_contiguous(view: MatmulView) -> bool:
    """True where the result lies row after row, batch after batch, from the start of its tensor."""
    out = view.out
    return (
        (view.batch == 1 or out.batch_stride == view.m * view.n)
        and (view.m == 1 or out.row_stride == view.n)
        and (view.n == 1 or out.column_stride == 1)
        and out.offset == 0
    )


def rewritten(trace: Trace, views: tuple[Operand, ...]) -> bool:
    """True where one of the operands lies in a storage that is written in place."""
    changing = {each.storage for each in trace.tensors if each.version > 0}
    return any(trace.tensors[view.tensor].storage in changing for view in views)


def _row_by_row(producer: Group, group: Group, trace: Trace) -> bool:
    """The matmul's result is read once, whole, as it lies, by this group, whose rows are the matmul's."""
    view, read = matmul_view(producer.head), group.inputs[0]
    tensor = trace.tensors[read.tensor]
    first = group.prologue[0] if group.prologue else group.head
    return (
        len(producer.outputs) == 1
        and trace.readers[tensor.id] == (first.id,)
        and tensor.final is None
        and contiguous(read)
        and elements(read) == tensor.elements == view.batch * view.m * view.n
        and (group.head.outputs[0].shape or (1,))[-1] == view.n
        and is_contiguous(view)
        and not rewritten(trace, (*producer.inputs, *producer.outputs, *group.inputs))
        and sum(each.tensor == tensor.id for each in group.inputs) == 1
    )


def _follows(item: Operand, view: MatmulView, group: Group, planner: Planner) -> bool:
    """An input with an element for each of the result's, or a broadcast one that is kept, or cut as the tiles are."""
    if elements(item) == view.batch * view.m * view.n:
        return True
    width = DTYPE_BYTES[planner.trace.tensors[item.tensor].dtype]
    if not is_blocked(item, width, planner.arch.scratchpad.capacity_bytes):
        return elements(item) != view.batch * view.m or view.n == 1 or item.shape[-1:] != (1,)
    return block_elements(item, group.head.outputs[0].shape) % (view.m * view.n) == 0
