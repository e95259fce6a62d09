"""The elementwise operators of an optimizer's step as one pass for each parameter."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.compile import compile_program
from accelsim.compile.program import COUNTERS, LOAD, STORE, Program
from accelsim.compile.regions import optimizer_groups
from accelsim.engine import ENGINES, run
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Tensor, Trace
from tests.compile.machines import shipped_arch

SHAPE = (24, 40)
BYTES = 24 * 40 * 4


class Step:
    """An optimizer's step of one or more parameters, operator by operator."""

    def __init__(self) -> None:
        self.builder = TraceBuilder("step")

    def state(self, name: str, overwrites: Tensor | None = None) -> Tensor:
        final = None if overwrites is None else "dram"
        return self.builder.tensor(name, SHAPE, "fp32", "optimizer_state", overwrites=overwrites, final=final)

    def op(self, function: str, *inputs: Tensor, into: Tensor | None = None, **scalar: float) -> Tensor:
        result = into or self.builder.tensor("value", SHAPE, "fp32")
        attributes = {"function": function, "arity": len(inputs), **scalar}
        self.builder.op("elementwise", list(inputs), [result], attributes, name=function, phase="optimizer")
        return result

    def adam(self, number: int) -> None:
        """Twelve operators that read parameter, gradient and two moments and write all but the gradient."""
        p, g, m, v = (self.state(f"{name}{number}") for name in "pgmv")
        first = self.op("add", self.op("mul", m, scalar=0.9), self.op("mul", g, scalar=0.1), into=self.state("m", m))
        square = self.op("mul", self.op("mul", g, g), scalar=0.1)
        second = self.op("add", self.op("mul", v, scalar=0.9), square, into=self.state("v", v))
        root = self.op("add", self.op("sqrt", second), scalar=1e-8)
        self.op("sub", p, self.op("mul", self.op("div", first, root), scalar=0.01), into=self.state("p", p))

    def norm_of(self, value: Tensor) -> Tensor:
        """A scalar that all elements of `value` go into."""
        total = self.builder.tensor("norm", (1, 1), "fp32")
        self.builder.op("reduce", [value], [total], {"function": "sum", "axes": [0, 1]}, phase="optimizer")
        return total


def adam(parameters: int = 1) -> Trace:
    step = Step()
    for number in range(parameters):
        step.adam(number)
    return step.builder.build()


def moved(program: Program, kind: int) -> int:
    return int(program.request_bytes[program.kind == kind].sum())


def names(trace: Trace) -> list[list[str]]:
    return [[str(op.attributes["function"]) for op in group.ops] for group in optimizer_groups(trace, lambda op: True)]


@pytest.mark.parametrize("residency", [True, False])
def test_a_parameter_and_its_states_are_read_once_and_written_once(residency: bool) -> None:
    program = compile_program(shipped_arch(), adam(3), fusion="all", residency=residency)
    assert (moved(program, LOAD), moved(program, STORE)) == (3 * 4 * BYTES, 3 * 3 * BYTES)
    assert program.notes["fused"]["optimizer"] == 3


def test_fusion_saves_traffic_and_no_arithmetic() -> None:
    apart, fused = (
        compile_program(shipped_arch(), adam(2), fusion=level, residency=False) for level in ("attention", "all")
    )
    for counter in ("vector_simple_ops", "vector_special_ops"):
        index = COUNTERS.index(counter)
        assert apart.counters[:, index].sum() == fused.counters[:, index].sum() > 0
    assert moved(apart, LOAD) > 2 * moved(fused, LOAD)


def test_parameters_are_regions_of_their_own() -> None:
    assert [len(region) for region in names(adam(3))] == [12, 12, 12]


def test_a_norm_of_what_a_region_makes_splits_it() -> None:
    """LAMB: the step's length follows from the norm of the whole update."""
    step = Step()
    p, g = step.state("p"), step.state("g")
    update = step.op("mul", step.op("neg", g), scalar=0.1)
    ratio = step.norm_of(update)
    scaled = step.op("mul", update, ratio)
    step.op("sub", p, scaled, into=step.state("p2", p))
    assert names(step.builder.build()) == [["neg", "mul"], ["mul", "sub"]]


def test_chains_that_meet_behind_a_norm_of_one_of_them_stay_apart() -> None:
    step = Step()
    a, b = step.state("a"), step.state("b")
    left = step.op("neg", step.op("neg", a))
    right = step.op("mul", step.op("neg", b), step.norm_of(left))
    step.op("add", left, right, into=step.state("a2", a))
    assert names(step.builder.build()) == [["neg", "neg"], ["neg", "mul", "add"]]


def test_a_region_waits_for_no_reader_in_between() -> None:
    """Something else reads the new parameter before the region's last operator: they stay as they are."""
    step = Step()
    p, g = step.state("p"), step.state("g")
    new = step.op("sub", p, g, into=step.state("p2", p))
    step.builder.op("gelu", [new], [step.state("y")], {"approximate": "none"}, phase="optimizer")
    step.op("neg", new, into=step.state("z"))
    assert names(step.builder.build()) == []


def test_a_region_waits_for_nobody_who_overwrites_what_it_reads() -> None:
    step = Step()
    p, q = step.state("p"), step.state("q")
    value = step.op("neg", p)
    step.builder.op("gelu", [q], [step.state("p2", p)], {"approximate": "none"}, phase="optimizer")
    step.op("neg", value, into=step.state("z"))
    assert names(step.builder.build()) == []


def test_other_phases_and_other_sizes_are_left_alone() -> None:
    step = Step()
    value = step.op("neg", step.state("p"))
    row = step.builder.tensor("row", (1, 40), "fp32", "optimizer_state")
    step.op("add", value, row, into=step.state("sum"))
    trace = step.builder.build()
    assert names(trace) == []
    b = TraceBuilder("forward")
    x, y, z = (
        b.tensor(name, SHAPE, "fp32", role) for name, role in (("x", "input"), ("y", "activation"), ("z", "activation"))
    )
    b.op("elementwise", [x], [y], {"function": "neg", "arity": 1})
    b.op("elementwise", [y], [z], {"function": "neg", "arity": 1})
    assert names(b.build()) == []


def test_both_engines_agree_and_each_store_waits_for_its_own_load() -> None:
    program = compile_program(shipped_arch(scratchpad__capacity_kib=16), adam(2), fusion="all")
    timelines = [run(program, engine=engine) for engine in ENGINES]
    assert timelines[0].equals(timelines[1])
    start, done = timelines[0].start, timelines[0].done
    for store in np.flatnonzero(program.kind == STORE):
        low, high = program.address[store], program.address[store] + program.request_bytes[store]
        loads = (program.kind == LOAD) & (program.address < high) & (program.address + program.request_bytes > low)
        assert start[store] >= done[loads].max(initial=0)
