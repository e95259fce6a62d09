"""What was chosen for an operator, as `show program` and the Result tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelsim.compile.attention import ONLINE, AttentionWork
from accelsim.compile.attention_choice import AttentionChoice
from accelsim.compile.candidates import Tiling
from accelsim.compile.mapper import Mapped
from accelsim.compile.program import OperatorPlan
from accelsim.compile.vector_op import RowTiling
from accelsim.compile.work import MatmulWork, VectorPass, VectorWork


def matmul_plan(op: int, work: MatmulWork, mapped: Mapped, bound: int) -> OperatorPlan:
    """The plan of the matmul `op`; `bound` are cycles that no mapping of it alone goes below."""
    alone = mapped.simulated_cycles or mapped.estimated_cycles
    plan = OperatorPlan(op, unit=work.unit, bound_cycles=bound, distance=alone / bound if bound else None)
    return replace(
        _tiled(plan, work, mapped.tiling), estimated_cycles=mapped.estimated_cycles,
        simulated_cycles=mapped.simulated_cycles,
    )  # fmt: skip


def vector_plan(op: int, work: VectorWork, tiling: RowTiling | None) -> OperatorPlan:
    """The plan of the vector operator `op`; None for one that a host does."""
    plan = OperatorPlan(op, unit=work.unit, note=work.note)
    if tiling is None:
        return plan
    return replace(plan, tile_rows=max(1, tiling.tile_elements // work.cols), passes=_names(work.passes))


def attention_plans(parts: tuple[int, ...], work: AttentionWork, chosen: AttentionChoice) -> list[OperatorPlan]:
    """The plans of scores, softmax and context, the operators `parts`."""
    scores, softmax, context = parts
    tiling = chosen.tiling
    online = work.online if tiling.form == ONLINE else None
    passes = online[0].epilogue if online else work.softmax.passes
    more = (online[1], *online[2].epilogue) if online else ()
    note = f"attention {tiling.form}, {tiling.rows} rows and {tiling.keys} keys a step"
    plans = (OperatorPlan(op, note=note, estimated_cycles=chosen.estimate) for op in parts)
    first, middle, last = plans
    return [
        replace(_tiled(first, work.scores, tiling.scores(work.scores.view)), op=scores, order=None),
        replace(middle, op=softmax, tile_rows=tiling.rows, passes=_names((*passes, *more)), unit=work.softmax.unit),
        replace(_tiled(last, work.context, tiling.context(work.context.view)), op=context, order=None),
    ]


def _tiled(plan: OperatorPlan, work: MatmulWork, tiling: Tiling) -> OperatorPlan:
    return replace(
        plan, tile=(tiling.tm, tiling.tn, tiling.tk), order=tiling.order, depth=tiling.depth,
        dataflow=tiling.dataflow or work.array.dataflow, passes=_names(work.epilogue),
        resident=tuple(sorted(tiling.resident)),
    )  # fmt: skip


def _names(passes: Sequence[VectorPass]) -> tuple[str, ...]:
    return tuple(step.name for step in passes)
