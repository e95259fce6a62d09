"""The compiler's driver: fuse, choose, place, then lower each distinct group once and stamp it wherever it recurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from accelsim.arch.spec import Arch
from accelsim.compile.attention import AttentionWork, attention_work, taken_apart
from accelsim.compile.choose import Choices, Chooser
from accelsim.compile.fuse import Group, fuse
from accelsim.compile.lower import Lowering, Work, parts_of
from accelsim.compile.machine import Machine
from accelsim.compile.mapping_file import MappingEntry, unknown_operators
from accelsim.compile.place import place
from accelsim.compile.plan import Planner
from accelsim.compile.program import Program
from accelsim.compile.recipes import Recipes, parse_recipes
from accelsim.compile.regions import optimizer_groups
from accelsim.compile.rules import Fusion, check_forced, fusion_of
from accelsim.compile.score import Judge
from accelsim.compile.shares import scratchpad_shares
from accelsim.compile.work import HOST_UNIT
from accelsim.errors import InputError
from accelsim.trace.model import Trace

Progress = Callable[[str, int, int], None]  # what, pieces done, of how many


def compile_program(
    arch: Arch,
    trace: Trace,
    *,
    fusion: str = "elementwise",
    rules: Mapping[str, str] | None = None,
    residency: bool = True,
    mapping: Mapping[int, MappingEntry] | None = None,
    judge: Judge | None = None,
    progress: Progress | None = None,
) -> Program:
    """Turn a trace and a machine into a Program.

    fusion: a level of `rules.LEVELS`; rules: what is said of single ones, rule -> mode. residency: keep tensors on chip
    between operators where they fit. mapping: tiles chosen by the user, by operator id. judge: what choices make small,
    and who runs the alternatives; without one the least estimated time, and the busiest unit of each alternative.

    Raises InputError where the machine cannot run the trace (an operator without a recipe or rate, a tile that fits no
    buffer) or the mapping or a rule does not fit it.
    """
    if not trace.ops:
        raise InputError("the trace has no operators", where=trace.name, remedy="nothing can be simulated")
    wanted = fusion_of(fusion, rules)
    check_forced(wanted, arch)
    planner = Planner(trace, arch, _recipes(arch))
    compiler = Compiler(arch, trace, planner, wanted, residency, judge or Judge())
    stages = compiler.choose()
    unknown_operators(mapping or {}, stages[-1].groups)
    return compiler.best(stages, mapping or {}, progress)


@dataclass
class Compiler:
    """Makes Programs of groups of one trace for one machine: the whole, or a few of them alone."""

    arch: Arch
    trace: Trace
    planner: Planner
    fusion: Fusion
    residency: bool
    judge: Judge
    _works: dict[Hashable, Work] = field(default_factory=dict)
    _at: Group | None = None  # the group that is being lowered

    def choose(self) -> list[Choices]:
        """The groups of the whole trace, fused where that is wanted and wins, after each rule that changed them."""
        on = [rule for rule in self.fusion.modes if self.fusion.on(rule)]
        fusable = self.planner.fusable
        made = optimizer_groups(self.trace, fusable) if self.fusion.on("optimizer") else ()
        groups = fuse(self.trace, on, fusable, self.planner.folds, made)
        return Chooser(self.planner, self.fusion, lambda some: self.judge.rank(self.program(some))).choose(groups)

    def best(
        self, stages: Sequence[Choices], mapping: Mapping[int, MappingEntry], progress: Progress | None
    ) -> Program:
        """The Program of the whole trace after the stage that is best for all of it: a fusion that wins among its
        neighbours may lose in the run. The user's tiles are for the groups of the last stage."""
        last = self.whole(stages[-1], mapping, progress)
        if mapping or len(stages) == 1:
            return last
        before = [self.whole(stage, mapping, progress) for stage in reversed(stages[:-1])]
        return min(last, *before, key=self.judge.rank)

    def _may_part(self, group: Group, mapping: Mapping[int, MappingEntry]) -> bool:
        """True for a group of several that the compiler chose to make one."""
        several = bool(group.before or group.rows) and group.head.id not in mapping
        return several and not self.fusion.forced(_rule_of(group))

    def whole(self, chosen: Choices, mapping: Mapping[int, MappingEntry], progress: Progress | None) -> Program:
        """The Program of the whole trace. A fusion that won among its neighbours, but has no room beside all that the
        whole run keeps on chip, is taken apart again, unless it or its tiles were asked for."""
        groups, notes = chosen.groups, dict(chosen.notes)
        while True:
            try:
                return self.program(groups, mapping, notes, progress)
            except InputError as mistake:
                group = self._at
                if group is None or not self._may_part(group, mapping):
                    raise
                notes[taken_apart(group)[-1].head.id] = f"{_rule_of(group)}: {mistake.what}"
                groups = self._without(group, groups)

    def _without(self, group: Group, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        """The groups with every one that is like `group` taken apart."""
        work = self._work(group)
        parts = (taken_apart(each) if self._work(each) is work else (each,) for each in groups)
        return tuple(part for some in parts for part in some)

    def program(
        self,
        groups: tuple[Group, ...],
        mapping: Mapping[int, MappingEntry] | None = None,
        unit_notes: Mapping[int, str] | None = None,
        progress: Progress | None = None,
    ) -> Program:
        """The Program of the groups. Tensors that other groups would make are in DRAM, or where the trace puts them."""
        self._at = None
        works = [self._work(group) for group in groups]
        placement = place(groups, self.trace, self.arch, self.residency, _off_chip(works, groups))
        parts = [part for work in {id(work): work for work in works}.values() for part in parts_of(work)]
        machine = Machine(self.arch, scratchpad_shares(self.arch, parts, bool(placement.level2)))
        lowering = Lowering(machine, self.trace, placement, mapping or {}, unit_notes or {}, self.fusion, self.judge)
        for index, (group, work) in enumerate(zip(groups, works, strict=True)):
            if progress is not None:
                progress("compiling", index, len(groups))
            self._at = group
            lowering.lower(index, group, work)
        self._at = None
        notes = {"fusion": self.fusion.level, "residency": self.residency, "fused": _fused(groups, self.fusion)}
        return lowering.stamper.finish(lowering.plans, machine.shares, notes)

    def _work(self, group: Group) -> Work:
        """The work of a group; groups that differ in nothing but their ids share one."""
        key = group.signature(self.trace)
        if key not in self._works:
            self._works[key] = attention_work(group, self.planner) if group.before else self.planner.work(group)
        return self._works[key]


def _rule_of(group: Group) -> str:
    """The rule that made a group of several."""
    return group.fired[-1].partition(":")[0]


def _fused(groups: tuple[Group, ...], fusion: Fusion) -> dict[str, int]:
    """In how many groups each rule that is on was applied, rule -> count."""
    found = Counter(rule for group in groups for rule in {text.partition(":")[0] for text in group.fired})
    return {rule: found[rule] for rule in fusion.modes if fusion.on(rule)}


def _recipes(arch: Arch) -> Recipes:
    """The user's recipes, for the functions that the vector unit has."""
    return {} if arch.vector is None else parse_recipes(arch.vector.recipes, arch.vector.rate, locate=arch.where)


def _off_chip(works: list[Work], groups: tuple[Group, ...]) -> frozenset[int]:
    """The tensors that a host reads or writes."""
    on_host = [
        group
        for group, work in zip(groups, works, strict=True)
        if not isinstance(work, AttentionWork) and work.unit == HOST_UNIT
    ]
    return frozenset(view.tensor for group in on_host for view in (*group.inputs, *group.outputs))
