"""No task of a drawn run reads a byte before it is there: the compiler's own checker on graphs nobody chose."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import assume, given, settings

from accelsim.compile import compile_program
from accelsim.engine import run
from accelsim.errors import InputError
from accelsim.trace.model import Op
from tests.compile.checker import check
from tests.laws.drawn import machine, seeds, work

MOST_TASKS = 1_500


@settings(max_examples=80)
@given(seed=seeds)
def test_every_read_of_a_drawn_run_is_in_time(seed: int) -> None:
    choose = random.Random(seed)
    arch = machine(choose, {"dram.model": "bandwidth"})
    trace = work(choose, 4, lambda drawn: all(checked(op) for op in drawn.ops))
    how: dict[str, Any] = {"fusion": choose.choice(("none", "elementwise")), "residency": choose.random() < 0.7}
    try:
        program = compile_program(arch, trace, **how)
    except InputError:
        assume(False)
        raise
    # The checker counts in whole rows.
    assume(program.size <= MOST_TASKS and all(plan.tile_rows is None or plan.tile_rows > 1 for plan in program.plans))
    check(arch, trace, program, run(program))


def checked(op: Op) -> bool:
    """True for what the checker knows: one result, operands of some dimension and different tensors, last axes."""
    operands = (*op.inputs, *op.outputs)
    if op.kind == "gather" or len(op.outputs) > 1 or not all(operand.shape for operand in operands):
        return False
    if len({operand.tensor for operand in op.inputs}) < len(op.inputs):
        return False
    rank = len(op.inputs[0].shape)
    axes = sorted(axis % rank for axis in op.attributes["axes"]) if op.kind == "reduce" else []
    return axes == list(range(rank - len(axes), rank))
