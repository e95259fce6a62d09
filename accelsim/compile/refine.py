"""Refinement: a few candidates of one operator are lowered, simulated alone, and the best of them is taken."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from accelsim.compile.candidates import Candidates, Tiling, single_candidate, with_dataflow
from accelsim.compile.fuse import Group
from accelsim.compile.machine import Machine
from accelsim.compile.place import Placement, dram_addresses
from accelsim.compile.program import OperatorPlan, Program
from accelsim.compile.score import REFINED, Judge, Score
from accelsim.compile.search import Choice
from accelsim.compile.stamp import Stamper
from accelsim.compile.template import Template
from accelsim.compile.work import MatmulWork
from accelsim.trace.model import Trace

AS_GOOD = 1.005  # of the best: then the other metric decides
WORTH = 1 / 32  # of the heuristic's time: what is gained alone has to be more, since neighbours are not seen
NEAR_BOUND = 1.01  # of what no mapping goes below: then no more candidates are tried
TRUSTED = 1.01  # of the estimate: where the best one takes no longer, others would take longer
MISSED = 1.1  # of the estimate: where even the best one takes longer, twice as many are tried
FAR_OFF = 1.25  # of the best estimate: what is not simulated


@dataclass(frozen=True)
class Simulated:
    """A choice and its score alone."""

    choice: Choice
    score: Score


class Alone:
    """Makes a Program of a single group: operands in their places, DRAM addresses as if nothing else were there."""

    def __init__(self, machine: Machine, trace: Trace, placement: Placement) -> None:
        self.machine = machine
        self.trace = trace
        self.placement = placement

    def program(self, template: Template, group: Group, index: int, plans: Sequence[OperatorPlan]) -> Program:
        """The lowered group, which is number `index` of the run, alone; `plans` name the dataflow of its matmuls."""
        addresses = dram_addresses((group,), self.trace, self.machine.arch)
        stamper = Stamper(self.machine, self.trace, replace(self.placement, dram_address=addresses))
        stamper.stamp(template, group, index)
        return stamper.finish(plans, self.machine.shares, {})


def refined(
    ranked: Sequence[Choice], rivals: Sequence[Choice], bound: float, judge: Judge, form: Callable[[Tiling], Hashable],
    score: Callable[[Tiling], Score],
) -> Simulated:  # fmt: skip
    """The best of `ranked`, the best by estimate first, and of the `rivals`, by what `score` says.

    rivals: what the result must not be worse than, the heuristic choice first. Candidates that differ in their `form`
    are simulated: the rivals and, where the heuristic one is not estimated to be as good, the best by estimate always,
    others until `_enough`. Of those about as good as the best the one with the better other metric is taken, then the
    first by estimate, but none worse than a rival; for time the heuristic choice unless another gains `WORTH` of it.
    """
    first = rivals[0] if rivals[0].as_good_as(ranked[0]) else ranked[0]
    tried: dict[Hashable, Simulated] = {}
    for choice in (first, *rivals):
        if form(choice.tiling) not in tried:
            tried[form(choice.tiling)] = Simulated(choice, score(choice.tiling))
    for choice in ranked:
        if choice.metric > FAR_OFF * ranked[0].metric or _enough(list(tried.values()), bound, judge):
            break
        if form(choice.tiling) not in tried:
            tried[form(choice.tiling)] = Simulated(choice, score(choice.tiling))
    return _best(list(tried.values()), [tried[form(rival.tiling)] for rival in rivals], judge.objective)


def _enough(tried: Sequence[Simulated], bound: float, judge: Judge) -> bool:
    """True where one more candidate is not worth simulating: one takes hardly more than the bound, or `judge.refine`
    have been tried, twice as many where the estimate misses by far. Who asks for no more than the usual number is also
    content with one that takes hardly more than estimated."""
    best = min(tried, key=lambda each: each.score.rank(judge.objective)[0])
    miss = best.score.cycles / best.choice.cycles
    near = judge.objective == "time" and best.score.cycles <= NEAR_BOUND * bound
    content = judge.refine <= REFINED and miss <= TRUSTED
    return near or content or len(tried) >= judge.refine * (2 if miss > MISSED else 1)


def _best(tried: Sequence[Simulated], rivals: Sequence[Simulated], objective: str) -> Simulated:
    def rank(each: Simulated) -> tuple[float, float]:
        return each.score.rank(objective)

    best = min(rank(each)[0] for each in tried)
    if objective == "time" and best >= (1 - WORTH) * rank(rivals[0])[0]:
        return rivals[0]
    limit = min([AS_GOOD * best, *(rank(each)[0] for each in rivals)])
    return min((each for each in tried if rank(each)[0] <= limit), key=lambda each: rank(each)[1])


def form_of(work: MatmulWork, tiling: Tiling, arrays: int) -> Hashable:
    """Equal for mappings that lower to the same tasks: loops of one trip have no order, and slots count by number."""
    c: Candidates = single_candidate(with_dataflow(work, tiling.dataflow), tiling, arrays)
    order = tuple(name for name in tiling.order if int(c.loops[name]) > 1)
    held = tuple((int(c.slots(operand)), int(c.fetches(operand))) for operand in "ab")
    return (tiling.tm, tiling.tn, tiling.tk), order, held, tiling.dataflow
