"""Fusions that can lose: each is run both ways, its operators apart and as one, and kept where that is better.

It is run among its neighbours, a few groups on each side: what a fusion makes longer may hide behind them, and what it
hides may have been hidden already.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelsim.compile.attention import attention_groups
from accelsim.compile.fuse import Group, writers_of
from accelsim.compile.plan import Planner
from accelsim.compile.rows import why_rows_do_not_fit, why_rows_stay_apart, with_rows
from accelsim.compile.rules import Fusion
from accelsim.compile.work import ARRAY_OUTPUT
from accelsim.errors import InputError
from accelsim.trace.matmul import matmul_view

Rank = tuple[float, float]
_NEIGHBOURS = 4  # groups on each side
_TAKEN = "one of its operators is in another fused group already"
_LEAST_GAIN = 1 / 256  # of the neighbourhood; less may be lost again beyond it


@dataclass(frozen=True)
class Choices:
    """Groups after the fusions that were kept; by head, why a fusion was not."""

    groups: tuple[Group, ...]
    notes: Mapping[int, str]


@dataclass(frozen=True)
class _Proposal:
    """A fused group in place of those at `places`; `head` is whose plan tells why not, `why_not` what rules it out."""

    rule: str
    head: int
    places: tuple[int, ...] = ()
    fused: Group | None = None
    why_not: str = ""


@dataclass
class Chooser:
    """Applies the rules in turn. `rank` runs some groups alone, as a Program of their own, and tells how good that is
    (less is better); it raises InputError where they cannot run."""

    planner: Planner
    fusion: Fusion
    rank: Callable[[tuple[Group, ...]], Rank]
    _notes: dict[int, str] = field(default_factory=dict)
    _judged: dict[Hashable, str] = field(default_factory=dict)

    def choose(self, groups: tuple[Group, ...]) -> list[Choices]:
        """All rules that can lose, one after another: what there is before them, unless a rule is forced on it, and
        after each that fused something."""
        stages = [Choices(groups, {})]
        for rule, proposals in (
            ("array_output", self._array_outputs),
            ("attention", self._attentions),
            ("matmul_layernorm", self._layernorms),
        ):
            if self.fusion.on(rule) or rule == "array_output":
                found = Choices(self._apply(stages[-1].groups, proposals), dict(self._notes))
                if self.fusion.forced(rule):
                    stages = [found]
                elif len(found.groups) == len(stages[-1].groups):
                    stages[-1] = found
                else:
                    stages.append(found)
        return stages

    def _apply(
        self, groups: tuple[Group, ...], proposals: Callable[[Sequence[Group]], Iterator[_Proposal]]
    ) -> tuple[Group, ...]:
        result: list[Group | None] = list(groups)
        for proposal in proposals(groups):
            note = proposal.why_not
            if proposal.fused is not None and not note:
                taken = any(result[place] is not groups[place] for place in proposal.places)
                note = _TAKEN if taken else self._why_apart(proposal, proposal.fused, result)
                if not note:
                    _replace(result, proposal.places, proposal.fused)
            self._notes[proposal.head] = note
        return tuple(group for group in result if group is not None)

    def _why_apart(self, proposal: _Proposal, fused: Group, groups: list[Group | None]) -> str:
        """Why its groups do better apart, "" where they do not."""
        key = proposal.rule, fused.signature(self.planner.trace)
        if key not in self._judged:
            self._judged[key] = self._compared(proposal, fused, groups)
        return self._judged[key]

    def _compared(self, proposal: _Proposal, fused: Group, groups: list[Group | None]) -> str:
        rule, places = proposal.rule, proposal.places
        changed = list(groups)
        _replace(changed, places, fused)
        if self.fusion.forced(rule):
            self.rank((fused,))  # a rule that the machine cannot hold is told
            return ""
        try:
            together = self.rank(_around(changed, places))
        except InputError as mistake:
            return f"{rule}: {mistake.what}"
        apart = self.rank(_around(groups, places))
        if _wins(together, apart):
            return ""
        return f"{rule} loses, or wins too little: among its neighbours {together[0]:,.0f}, apart {apart[0]:,.0f}"

    # ---- what could be fused -----------------------------------------------------------------------------------------

    def _array_outputs(self, groups: Sequence[Group]) -> Iterator[_Proposal]:
        """Softmax and LayerNorm groups whose unit sits at the array's output, into the matmul that they read. The unit
        takes accumulator rows; where that cannot be, it reads the scratchpad."""
        for place, group, before in self._row_groups(groups):
            unit = self.planner.arch.special_units.get(group.head.kind)
            if unit is not None and unit.attach == ARRAY_OUTPUT:
                why_not = self._why_not_at_output(groups[before] if before >= 0 else None, group)
                yield self._merge("array_output", groups, before, place, why_not)

    def _layernorms(self, groups: Sequence[Group]) -> Iterator[_Proposal]:
        """LayerNorm groups of the vector unit, into the matmul that they read."""
        for place, group, before in self._row_groups(groups):
            if group.head.kind == "layernorm" and self.planner.on_vector(group) and before >= 0:
                producer = groups[before]
                why_not = why_rows_stay_apart(producer, group, self.planner) or self._why_no_rows(producer)
                yield self._merge("matmul_layernorm", groups, before, place, why_not)

    def _attentions(self, groups: Sequence[Group]) -> Iterator[_Proposal]:
        for places, fused in attention_groups(groups, self.planner):
            yield _Proposal("attention", fused.head.id, places, fused)

    def _row_groups(self, groups: Sequence[Group]) -> Iterator[tuple[int, Group, int]]:
        """(place, group, place of the group whose result it reads or -1) of each group that works row by row."""
        writer_of = writers_of(groups)
        for place, group in enumerate(groups):
            if group.inputs:
                yield place, group, writer_of.get(group.inputs[0].tensor, -1)

    def _merge(self, rule: str, groups: Sequence[Group], before: int, place: int, why_not: str) -> _Proposal:
        head = groups[place].head.id
        if why_not:
            return _Proposal(rule, head, why_not=why_not)
        return _Proposal(rule, head, (before, place), with_rows(groups[before], groups[place], rule))

    def _why_not_at_output(self, producer: Group | None, group: Group) -> str:
        if not self.fusion.on("array_output"):
            return "fusion keeps operators apart"
        if apart := why_rows_stay_apart(producer, group, self.planner):
            return apart
        if not self.planner.takes_rows(group):
            return f"the {group.head.kind} unit takes a multiplication and an addition before, not more"
        return self._why_no_rows(producer)

    def _why_no_rows(self, producer: Group | None) -> str:
        return why_rows_do_not_fit(matmul_view(producer.head), self.planner) if producer is not None else ""


def _wins(together: Rank, apart: Rank) -> bool:
    """True where the first measure gains enough, or is much the same and the second gains enough."""
    less, alike = apart[0] * (1 - _LEAST_GAIN), apart[0] * (1 + _LEAST_GAIN)
    return together[0] < less or (together[0] <= alike and together[1] < apart[1] * (1 - _LEAST_GAIN))


def _replace(groups: list[Group | None], places: Sequence[int], fused: Group) -> None:
    for place in places:
        groups[place] = None
    groups[places[-1]] = fused


def _around(groups: Sequence[Group | None], places: Sequence[int]) -> tuple[Group, ...]:
    """The groups from the first of `places` to the last, and a few on each side."""
    before = [group for group in groups[: places[0]] if group is not None][-_NEIGHBOURS:]
    after = [group for group in groups[places[-1] + 1 :] if group is not None][:_NEIGHBOURS]
    between = [group for group in groups[places[0] : places[-1] + 1] if group is not None]
    return (*before, *between, *after)
