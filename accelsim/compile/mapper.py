"""The mapper: tile sizes, loop order, dataflow, residency and depth of each matmul.

Thousands of candidates are estimated in closed form (`estimate`, `energy_estimate`), a diverse few of the best are
simulated alone where somebody runs them (`refine`), and what was found is kept in the process by all it depends on.
docs/mapping.md tells the whole story.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from accelsim.compile.candidates import MatmulCosts, Tiling
from accelsim.compile.fuse import Group
from accelsim.compile.machine import Machine
from accelsim.compile.place import Placement
from accelsim.compile.program import OperatorPlan
from accelsim.compile.refine import Alone, form_of, refined
from accelsim.compile.score import Judge, Score
from accelsim.compile.search import Aim, Space, choice_of, heuristic_mapping, ranked_mappings
from accelsim.compile.template import Ports, Template
from accelsim.compile.work import MatmulWork
from accelsim.errors import InternalError
from accelsim.hardware.systolic import Dataflow
from accelsim.trace.matmul import Layout
from accelsim.trace.model import Trace

_MOST_KEPT = 10_000
_FOUND: dict[Hashable, Mapped] = {}  # what was chosen in this process

Lowered = Callable[[MatmulWork, Tiling, Ports], Template]
Machines = Sequence[tuple[MatmulWork, MatmulCosts]]  # the matmul and its costs in each dataflow that it may take


@dataclass(frozen=True)
class Mapped:
    """A mapping, the cycles that were estimated, and those simulated alone (None where it was not)."""

    tiling: Tiling
    estimated_cycles: int
    simulated_cycles: int | None = None


@dataclass(frozen=True)
class _Matmul:
    """A matmul to map: its group, number `index` of the run, where its operands lie, and its costs."""

    group: Group
    index: int
    ports: Ports
    machines: Machines


def forget() -> None:
    """Drop what this process has chosen."""
    _FOUND.clear()


class Mapper:
    """Chooses for the matmuls of one run. `lowered` gives (and keeps) the Template of a mapping."""

    def __init__(self, machine: Machine, trace: Trace, placement: Placement, judge: Judge, lowered: Lowered) -> None:
        self.machine = machine
        self.trace = trace
        self.alone = Alone(machine, trace, placement)
        self.judge = judge
        self.lowered = lowered
        self._about: Hashable = (
            repr(machine.arch.to_dict()), tuple(sorted(machine.shares.items())), judge.prices is None,
            judge.refine if judge.score is not None else 0,
        )  # fmt: skip

    def choose(self, group: Group, index: int, ports: Ports, machines: Machines) -> Mapped:
        """The mapping of the matmul of a group, number `index` of the run.

        Raises InputError when no tile fits the buffers.
        """
        ports = replace(ports, load_phase=0, store_phase=0)  # whose turn it is in the run is no reason to choose
        return self._found(_Matmul(group, index, ports, machines), self.judge)

    def _found(self, matmul: _Matmul, judge: Judge) -> Mapped:
        costs = tuple(costs for _, costs in matmul.machines)
        key = (self._about, self._signature(matmul.group), matmul.ports, costs, judge.objective)
        if key not in _FOUND:
            if len(_FOUND) >= _MOST_KEPT:
                _FOUND.clear()
            _FOUND[key] = self._search(matmul, judge)
        return _FOUND[key]

    def _signature(self, group: Group) -> Hashable:
        storages: dict[int, int] = {}
        views = (*group.inputs, *group.outputs)
        shared = [storages.setdefault(self.trace.tensors[view.tensor].storage, len(storages)) for view in views]
        return group.signature(self.trace), tuple(shared)

    def _search(self, matmul: _Matmul, judge: Judge) -> Mapped:
        where = self.machine.arch.where("scratchpad.capacity_kib")
        spaces = [Space.of(*machine) for machine in matmul.machines]
        a, b = (self.trace.tensors[view.tensor].dtype for view in matmul.group.head.inputs[:2])
        aim = Aim(judge.objective, judge.prices, (a, b))
        ranked = ranked_mappings(spaces, aim, where, max(1, judge.refine if judge.score else 1))
        if judge.score is None or not judge.refine:
            return Mapped(ranked[0].tiling, int(ranked[0].cycles))
        usual = heuristic_mapping(spaces[0], where)[0]
        others = [self._found(matmul, replace(judge, objective=other)).tiling for other in _RIVALS[judge.objective]]
        flows = [space.work.array.dataflow for space in spaces]
        rivals = [choice_of(tiling, spaces[flows.index(_flow(tiling))], aim) for tiling in (usual, *others)]
        work, costs = matmul.machines[0]
        best = refined(
            ranked, rivals, least_cycles(work, costs), judge, lambda tiling: form_of(work, tiling, costs.arrays),
            lambda tiling: self._simulated(matmul, tiling),
        )  # fmt: skip
        return Mapped(best.choice.tiling, int(best.choice.cycles), best.score.cycles)

    def _simulated(self, matmul: _Matmul, tiling: Tiling) -> Score:
        if self.judge.score is None:
            raise InternalError("nobody simulates candidates")
        template = self.lowered(matmul.machines[0][0], tiling, matmul.ports)
        plan = OperatorPlan(matmul.group.head.id, dataflow=tiling.dataflow)
        return self.judge.score(self.alone.program(template, matmul.group, matmul.index, [plan]))


# What is chosen for another objective is tried too, so that none is ever better for an objective than its own choice.
_RIVALS: Mapping[str, tuple[str, ...]] = {"time": (), "energy": ("time",), "edp": ("time", "energy")}


def _flow(tiling: Tiling) -> Dataflow:
    if tiling.dataflow is None:
        raise InternalError("a mapping of the mapper's names its dataflow")
    return tiling.dataflow


def least_cycles(work: MatmulWork, costs: MatmulCosts) -> int:
    """Cycles that no mapping of the operator alone goes below: its MACs at the array's peak, every byte once at the
    DRAM's bandwidth, its epilogue on the unit that computes it; the largest of these, rounded up."""
    view, p = work.view, work.array
    macs = Fraction(view.batch * view.m * view.n * view.k, costs.arrays * p.rows * p.cols) / p.rate
    loads = 0
    if not costs.a_on_chip and "a" not in costs.level2:
        loads += _distinct(view.a, view.batch, view.m, view.k) * work.a_bytes
    if not costs.b_on_chip and "b" not in costs.level2:
        loads += _distinct(view.b, view.batch, view.k, view.n) * work.b_bytes
    stores = view.batch * view.m * view.n * costs.stored_bytes
    memory = sum(
        (size / rate for size, rate in ((loads, costs.load_rate), (stores, costs.store_rate)) if rate is not None),
        Fraction(0),
    )
    largest = max(macs, memory, Fraction(costs.epilogue_cycles))
    return -(-largest.numerator // largest.denominator)


def _distinct(layout: Layout, batch: int, rows: int, columns: int) -> int:
    """Elements that an operand surely has: dimensions with a stride of 0 repeat the same ones, and overlapping
    strides share some."""
    strides = (layout.batch_stride, layout.row_stride, layout.column_stride)
    sizes = [(stride, size) for stride, size in zip(strides, (batch, rows, columns), strict=True) if size > 1]
    count, span = 1, 1
    for stride, size in sorted(sizes):
        count *= size if stride >= span else 1
        span += stride * (size - 1)
    return count
