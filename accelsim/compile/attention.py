"""Fused attention: scores, softmax and context of one block of rows after another, so that scores never reach DRAM.

Three forms, by where a block's scores wait for its softmax (Dao et al. 2022, arXiv:2205.14135, section 3.1, for the
blocks): `two_pass`, whole rows in the accumulator; `spilled`, whole rows that a drain leaves in the scratchpad;
`online`, a few keys at a time in the accumulator with a running maximum and sum (Milakov and Gimelshein 2018,
arXiv:1805.02867, algorithm 3), the context's sums scaled anew with each (arXiv:2205.14135, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from accelsim.compile.fuse import Group, contiguous, elements, writers_of
from accelsim.compile.plan import Planner
from accelsim.compile.recipes import pass_work, recipe_named
from accelsim.compile.rows import rewritten, why_rows_stay_apart, with_rows
from accelsim.compile.views import is_blocked
from accelsim.compile.work import HOST_UNIT, VECTOR_UNIT, MatmulWork, VectorInput, VectorPass, VectorWork
from accelsim.errors import InternalError
from accelsim.trace.matmul import matmul_view

TWO_PASS, SPILLED, ONLINE = FORMS = ("two_pass", "spilled", "online")


@dataclass(frozen=True)
class AttentionWork:
    """What an attention group computes. `scores` alone leave the scores; `softmax` is the operator over them, apart.

    two_pass: the scores with the softmax of whole rows as their epilogue. online: the scores with the passes over some
    keys as their epilogue, the pass that scales the context's sums, and the context with the one that finishes them.
    None where the machine or the operators rule a form out.
    """

    group: Group
    scores: MatmulWork
    softmax: VectorWork
    context: MatmulWork
    two_pass: MatmulWork | None
    online: tuple[MatmulWork, VectorPass, MatmulWork] | None

    @cached_property
    def parts(self) -> tuple[MatmulWork | VectorWork, ...]:
        """The works that its tasks may belong to."""
        online = (self.online[0], self.online[2]) if self.online else ()
        return tuple(work for work in (self.scores, self.softmax, self.context, self.two_pass, *online) if work)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that it can take."""
        there = (self.two_pass, self.spilled, self.online)
        return tuple(form for form, possible in zip(FORMS, there, strict=True) if possible)

    @property
    def spilled(self) -> bool:
        """True where one unit on chip does the whole softmax from the scratchpad."""
        return len(self.softmax.units) == 1 and self.softmax.unit != HOST_UNIT


def attention_groups(groups: Sequence[Group], planner: Planner) -> list[tuple[tuple[int, ...], Group]]:
    """Every attention among the groups: the places of the groups that it takes in, and the fused group."""
    writer_of = writers_of(groups)
    found = []
    for index, context in enumerate(groups):
        rows_at = writer_of.get(context.inputs[0].tensor) if context.head.kind == "matmul" else None
        if rows_at is None:
            continue
        before = [rows_at]
        if groups[rows_at].rows is None and (scores_at := writer_of.get(groups[rows_at].inputs[0].tensor)) is not None:
            before.insert(0, scores_at)
        places = (*before, index)
        if not why_not_attention([groups[place] for place in places], planner):
            found.append((places, _merged([groups[place] for place in places])))
    return found


def why_not_attention(groups: Sequence[Group], planner: Planner) -> str:
    """Why scores, softmax (one group or two) and context cannot run block by block, "" if they can."""
    *before, context = groups
    rows = before[-1].rows or before[-1]
    if rows.head.kind != "softmax" or before[0].head.kind != "matmul":
        return "no softmax over the result of a matmul"
    apart = "" if before[-1].rows else why_rows_stay_apart(before[0], rows, planner)
    if apart or not _only_read_by(rows, context, planner):
        return apart or "something else reads the softmax"
    if context.rows is not None:
        return "a softmax or LayerNorm takes the context's rows"
    if not _same_array(before[0], context, planner):
        return "the two matmuls have a bias or a rate of their own, or their rows are not the same"
    if rewritten(planner.trace, (*context.inputs, *context.outputs)):
        return "its operands are written in place"
    return ""


def _only_read_by(rows: Group, context: Group, planner: Planner) -> bool:
    read = context.inputs[0]
    tensor = planner.trace.tensors[read.tensor]
    return (
        len(rows.outputs) == 1
        and planner.trace.readers[tensor.id] == (context.head.id,)
        and tensor.final is None
        and contiguous(read)
        and elements(read) == tensor.elements
        and sum(view.tensor == tensor.id for view in context.inputs) == 1
    )


def _same_array(scores: Group, context: Group, planner: Planner) -> bool:
    first, second = matmul_view(scores.head), matmul_view(context.head)
    works = [planner.work(_plain(group)) for group in (scores, context)]
    return (
        (first.batch, first.m, first.n) == (second.batch, second.m, second.k)
        and len(scores.head.inputs) == len(context.head.inputs) == 2
        and not any(isinstance(work, MatmulWork) and work.epilogue for work in works)
        and len({work.array for work in works if isinstance(work, MatmulWork)}) == 1
    )


def _plain(group: Group) -> Group:
    """A matmul group without the row operator after it."""
    if group.rows is None:
        return group
    own = len(group.head.inputs)
    return replace(
        group, epilogue=(), inputs=group.inputs[:own], outputs=group.head.outputs[:1], rows=None,
        fired=_without_rule(group),
    )  # fmt: skip


def _merged(groups: Sequence[Group]) -> Group:
    *before, context = groups
    rows = before[-1].rows or before[-1]
    inputs = (*before[0].head.inputs, *rows.inputs[1:], *context.inputs[1:])
    fired = (*context.fired, *(f"attention: {op.name}" for group in before for op in group.ops))
    return replace(context, inputs=inputs, before=(_plain(before[0]), rows), fired=fired)


def taken_apart(group: Group) -> tuple[Group, ...]:
    """What an attention group, or a matmul group with a row operator after it, was made of."""
    if group.rows is not None:
        return _plain(group), group.rows
    context = replace(group, inputs=(group.before[1].outputs[0], *group.inputs[-1:]), before=())
    return *group.before, replace(context, fired=_without_rule(group))


def _without_rule(group: Group) -> tuple[str, ...]:
    """What fired in a group, but for the rule that made it of several."""
    rule = group.fired[-1].partition(":")[0]
    return tuple(text for text in group.fired if text.partition(":")[0] != rule)


def attention_work(group: Group, planner: Planner) -> AttentionWork:
    """The work of an attention group."""
    before, rows, plain = taken_apart(group)
    scores, softmax, context = planner.work(before), planner.work(rows), planner.work(plain)
    if not (isinstance(scores, MatmulWork) and isinstance(softmax, VectorWork) and isinstance(context, MatmulWork)):
        raise InternalError("attention is two matmuls and a softmax")
    by_vector = softmax.unit == VECTOR_UNIT
    at_output = planner.takes_rows(rows)
    whole = planner.work(with_rows(before, rows, "attention")) if at_output or by_vector else None
    two_pass = whole if isinstance(whole, MatmulWork) else None
    online = None
    if by_vector and two_pass is not None and all(_kept(item, planner) for item in two_pass.further):
        online = _online(planner, two_pass, context, rows)
    return AttentionWork(group, scores, softmax, context, two_pass, online)


def _kept(item: VectorInput, planner: Planner) -> bool:
    """True for an operand that is kept whole, whatever part of a row is at hand."""
    return item.role == "whole" and not is_blocked(item.view, item.bytes, planner.arch.scratchpad.capacity_bytes)


def _online(
    planner: Planner, two_pass: MatmulWork, context: MatmulWork, rows: Group
) -> tuple[MatmulWork, VectorPass, MatmulWork]:
    recipes = planner.user_recipes
    epilogue, kept = planner.row_epilogue(rows, recipe_named("softmax.online", recipes))
    (scale,), (finish,) = (recipe_named(f"elementwise.online_{name}", recipes) for name in ("scale", "finish"))
    scaling = VectorPass(scale.name, pass_work(scale, {"in0": 0, "out": 0}), reads_rows=True)
    finishing = VectorPass(finish.name, pass_work(finish, {"in0": 0, "out": sum(context.out_bytes)}), reads_rows=True)
    return (
        replace(two_pass, epilogue=epilogue, epilogue_scratch_bytes=kept),
        scaling,
        replace(context, epilogue=(finishing,), by_rows=True),
    )
