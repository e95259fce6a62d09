"""What was chosen for an operator, as `show program` and the Result tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelsim.compile.attention import ONLINE, AttentionWork
from accelsim.compile.attention_op import AttentionTiling
from accelsim.compile.mapper import Tiling
from accelsim.compile.plan import MatmulWork, VectorPass, VectorWork
from accelsim.compile.program import OperatorPlan
from accelsim.compile.vector_op import RowTiling


def matmul_plan(work: MatmulWork, tiling: Tiling, plan: OperatorPlan) -> OperatorPlan:
    """`plan` with a matmul's tiles."""
    return replace(
        plan, tile=(tiling.tm, tiling.tn, tiling.tk), order=tiling.order, dataflow=work.array.dataflow,
        passes=_names(work.epilogue), resident=tuple(sorted(tiling.resident)),
    )  # fmt: skip


def vector_plan(work: VectorWork, tiling: RowTiling | None, plan: OperatorPlan) -> OperatorPlan:
    """`plan` with a vector operator's rows and passes; None for one that a host does."""
    rows = None if tiling is None else max(1, tiling.tile_elements // work.cols)
    if tiling is None:
        return replace(plan, unit=work.unit, note=plan.note or work.note)
    return replace(plan, tile_rows=rows, passes=_names(work.passes), unit=work.unit, note=plan.note or work.note)


def attention_plans(
    parts: tuple[int, ...], work: AttentionWork, tiling: AttentionTiling, plan: OperatorPlan
) -> list[OperatorPlan]:
    """The plans of scores, softmax and context, the operators `parts`, which share what is said of them in `plan`."""
    scores, softmax, context = parts
    online = work.online if tiling.form == ONLINE else None
    passes = online[0].epilogue if online else work.softmax.passes
    more = (online[1], *online[2].epilogue) if online else ()
    note = f"attention {tiling.form}, {tiling.rows} rows and {tiling.keys} keys a step"
    first, last = tiling.scores(work.scores.view), tiling.context(work.context.view)
    return [
        replace(matmul_plan(work.scores, first, plan), op=scores, note=note),
        replace(
            plan, op=softmax, tile_rows=tiling.rows, passes=_names((*passes, *more)), unit=work.softmax.unit, note=note
        ),
        replace(matmul_plan(work.context, last, plan), op=context, note=note),
    ]


def _names(passes: Sequence[VectorPass]) -> tuple[str, ...]:
    return tuple(step.name for step in passes)
