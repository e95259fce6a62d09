"""Lowering: chooses the tiles of each group, makes its tasks once, and stamps them wherever the group recurs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from accelsim.compile.across import reads_across
from accelsim.compile.attention import AttentionWork
from accelsim.compile.attention_choice import AttentionChoice, choose_attention
from accelsim.compile.attention_op import AttentionTiling
from accelsim.compile.candidates import DramRuns, MatmulCosts, Tiling, with_dataflow
from accelsim.compile.further import bias_bytes, further_bytes
from accelsim.compile.fuse import Group, elements
from accelsim.compile.host_op import lower_host
from accelsim.compile.machine import Machine
from accelsim.compile.mapper import Mapped, Mapper, least_cycles
from accelsim.compile.mapping_file import MappingEntry, check_entry
from accelsim.compile.matmul import lower_matmul
from accelsim.compile.notes import attention_plans, matmul_plan, vector_plan
from accelsim.compile.place import Placement
from accelsim.compile.points import MOST_TILES
from accelsim.compile.program import COUNTERS, OperatorPlan
from accelsim.compile.rules import Fusion
from accelsim.compile.score import Judge
from accelsim.compile.stamp import Stamper
from accelsim.compile.template import Ports, Template
from accelsim.compile.unit_times import unit_times
from accelsim.compile.vector_op import RowTiling, choose_rows, lower_vector
from accelsim.compile.work import HOST_UNIT, MatmulWork, VectorWork
from accelsim.errors import InputError
from accelsim.hardware.systolic import counts_fit
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace

Work = MatmulWork | VectorWork | AttentionWork
Choice = Tiling | RowTiling | AttentionTiling | None  # None: on a host


def parts_of(work: Work) -> tuple[MatmulWork | VectorWork, ...]:
    """The works whose tasks a group may consist of."""
    return work.parts if isinstance(work, AttentionWork) else (work,)


class Lowering:
    """Lowers groups in their order: chooses the tiles of each, makes its Template and stamps it."""

    def __init__(
        self,
        machine: Machine,
        trace: Trace,
        placement: Placement,
        mapping: Mapping[int, MappingEntry],
        unit_notes: Mapping[int, str],
        fusion: Fusion,
        judge: Judge,
    ) -> None:
        self.machine = machine
        self.trace = trace
        self.placement = placement
        self.mapping = mapping
        self.unit_notes = unit_notes
        self.fusion = fusion
        self.judge = judge
        self.stamper = Stamper(machine, trace, placement)
        self.plans: list[OperatorPlan] = []
        self._templates: dict[Hashable, Template] = {}
        self._attentions: dict[Hashable, AttentionChoice] = {}
        self._epilogues: dict[int, tuple[int, tuple[tuple[str, int], ...]]] = {}  # id of an epilogue -> what it takes
        self.mapper = Mapper(machine, trace, placement, judge, self._template)

    def lower(self, index: int, group: Group, work: Work) -> None:
        """Raises InputError where the group fits no buffer, or the user's mapping does not fit the group."""
        ports, head = self._ports(group), group.head.id
        free = self.machine.scratchpad_bytes - self.placement.resident_top[index]
        if isinstance(work, AttentionWork):
            found = self._attention(index, group, work, ports, free)
            template, plans = found.template, attention_plans(group.parts, work, found)
        elif isinstance(work, MatmulWork):
            mapped, bound = self._mapped(index, group, work, ports, free)
            template, plans = self._template(work, mapped.tiling, ports), [matmul_plan(head, work, mapped, bound)]
        else:
            tiling = None if work.unit == HOST_UNIT else choose_rows(work, free, self.machine.arch, ports)
            template, plans = self._template(work, tiling, ports), [vector_plan(head, work, tiling)]
        self.stamper.stamp(template, group, index)
        self._note(group, plans, template)

    def _template(self, work: MatmulWork | VectorWork, tiling: Choice, ports: Ports) -> Template:
        """The lowered work, lowered once. Raises InputError for what cannot be counted or kept."""
        key = (id(work), tiling, ports)
        if key not in self._templates:
            if isinstance(work, MatmulWork) and isinstance(tiling, Tiling):
                _check_tile(with_dataflow(work, tiling.dataflow), tiling)
            _check_size(work, tiling)
            self._templates[key] = _lowered(self.machine, work, tiling, ports)
        return self._templates[key]

    def _attention(self, index: int, group: Group, work: AttentionWork, ports: Ports, free: int) -> AttentionChoice:
        """How the block-by-block attention runs; raises InputError where no block fits."""
        key = (id(work), ports, free)
        if key not in self._attentions:
            forms = tuple(form for form in self.fusion.attention_forms if form in work.forms)

            def rank(choice: AttentionChoice) -> tuple[float, float]:
                plans = attention_plans(group.parts, work, choice)
                return self.judge.rank(self.mapper.alone.program(choice.template, group, index, plans))

            chosen = choose_attention(self.machine, work, ports, free, forms, rank)
            if chosen is None:
                asked = self.fusion.attention_forms
                raise _no_block(group, forms, work, free) if forms else _no_form(group, asked, work)
            self._attentions[key] = chosen
        return self._attentions[key]

    def _ports(self, group: Group) -> Ports:
        place_of = self.placement.place_of
        return Ports(
            tuple(place_of(view.tensor) for view in group.inputs),
            tuple(place_of(view.tensor) for view in group.outputs),
            tuple(self._stored(view.tensor) for view in group.outputs),
            *self.stamper.phases(),
            tuple(self._packed(group, view) for view in group.head.inputs[:2]) if group.head.kind == "matmul" else (),
        )

    def _packed(self, group: Group, view: Operand) -> bool:
        """True for a weight that can lie in the order of its tiles: one operator alone reads it, once and whole."""
        tensor = self.trace.tensors[view.tensor]
        return (
            self.machine.arch.dram.weights == "blocked"
            and tensor.role == "weight"
            and self.trace.writers[tensor.id] is None
            and self.trace.readers[tensor.id] == (group.head.id,)
            and sum(each.tensor == tensor.id for each in group.head.inputs) == 1
            and elements(view) == tensor.elements
        )

    def _stored(self, tensor: int) -> tuple[str, ...]:
        """Where a result is written to from the scratchpad: its place, and DRAM where the trace wants it there."""
        place = self.placement.place_of(tensor)
        places = () if place == "scratchpad" else (place,)
        wanted = self.trace.tensors[tensor].final == "dram" and "dram" not in places
        return (*places, "dram") if wanted else places

    def _mapped(self, index: int, group: Group, work: MatmulWork, ports: Ports, free: int) -> tuple[Mapped, int]:
        """The matmul's mapping, the user's or the mapper's, and the cycles that no mapping goes below."""
        flows = ("ws",) if work.attached else self.machine.arch.array.dataflows
        each = [with_dataflow(work, flow) for flow in flows]
        machines = [(flow, self._costs(group, flow, ports, free)) for flow in each]
        entry = self.mapping.get(group.head.id)
        found = check_entry(entry, machines) if entry else self.mapper.choose(group, index, ports, machines)
        return found, least_cycles(*machines[0])

    def _costs(self, group: Group, work: MatmulWork, ports: Ports, free: int) -> MatmulCosts:
        arch, memory = self.machine.arch, self.machine.memory
        widths = [DTYPE_BYTES[self.trace.tensors[view.tensor].dtype] for view in group.outputs]
        by_element, whole = further_bytes(work, ports, self.machine.scratchpad_bytes)
        by_column, bias = bias_bytes(work, ports, self.machine.scratchpad_bytes)
        epilogue_cycles, epilogue_counts = self._epilogue(work)
        return MatmulCosts(
            scratchpad_bytes=free,
            accumulator_bytes=self.machine.accumulator_bytes,
            accumulator_width=arch.accumulator.width_bytes,
            arrays=arch.array.count,
            a_on_chip=ports.inputs[0] == "scratchpad",
            b_on_chip=ports.inputs[1] == "scratchpad",
            staged_bytes=sum(width for index, width in enumerate(widths) if not ports.resident(index)) + by_element,
            stored_bytes=sum(width * places.count("dram") for width, places in zip(widths, ports.stored, strict=True)),
            kept_bytes=bias + whole,
            column_bytes=by_column,
            scratch_bytes=work.epilogue_scratch_bytes,
            load_rate=memory.load_bytes_per_cycle,
            store_rate=memory.store_bytes_per_cycle,
            latency=arch.dram_latency_cycles(),
            issue=0 if memory.model == "ideal" else arch.dma.issue_cycles,
            epilogue_cycles=epilogue_cycles,
            epilogue_counts=epilogue_counts,
            level2=frozenset(name for name, place in zip("ab", ports.inputs, strict=False) if place == "level2"),
            level2_rate=self.machine.level2_rate(write=False) if "level2" in ports.inputs[:2] else None,
            runs=DramRuns(memory.system, arch.dma.load_queues, arch.dma.store_queues),
            stream_share=self.machine.shares.get("core0.array0.stream"),
            weights_share=self.machine.shares.get("core0.array0.weights"),
            across=reads_across(arch, work, ports.inputs),
            packed=frozenset(operand for operand, packed in zip("ab", ports.packed, strict=True) if packed),
        )

    def _epilogue(self, work: MatmulWork) -> tuple[int, tuple[tuple[str, int], ...]]:
        """Cycles of the epilogue over the whole result, and what it counts."""
        key = id(work.epilogue)
        if key not in self._epilogues:
            rows, cols = work.view.batch * work.view.m, work.view.n
            shape = (rows, cols) if work.by_rows else (rows * cols, 1)
            times = [unit_times(self.machine, step, *shape) for step in work.epilogue]
            counts = tuple(
                (name, int(each.columns[name])) for each in times for name in COUNTERS if name in each.columns
            )
            self._epilogues[key] = sum(int(each.occupy) for each in times), counts
        return self._epilogues[key]

    def _note(self, group: Group, plans: list[OperatorPlan], template: Template) -> None:
        """Keep what was chosen, for `show program` and the Result."""
        places, size = self._named_places(group), template.chunks["scratchpad"]
        for plan in plans:
            note = plan.note or self.unit_notes.get(plan.op, "")
            self.plans.append(replace(plan, fused=group.fired, places=places, buffer_bytes=size, note=note))
        self.plans += [OperatorPlan(op, fused_into=into) for op, into in group.folded.items()]

    def _named_places(self, group: Group) -> dict[str, str]:
        names = [f"in{index}" for index in range(len(group.inputs))]
        if group.before:
            names = ["q", "k", *names[2:-1], "v"]
        elif group.head.kind == "matmul":
            own = len(group.head.inputs)
            names[:own] = ("a", "b", "bias")[:own]
        places = {name: self.placement.place_of(view.tensor) for name, view in zip(names, group.inputs, strict=False)}
        return places | {
            f"out{index or ''}": self.placement.place_of(view.tensor) for index, view in enumerate(group.outputs)
        }


def _no_form(group: Group, asked: tuple[str, ...], work: AttentionWork) -> InputError:
    why = f"possible here: {', '.join(work.forms)}" if work.forms else "nothing on chip computes its softmax"
    return InputError(
        f"attention {group.head.id} '{group.head.name}' cannot run block by block in the form asked for ({why})",
        where=f"operator {group.head.id}",
        value=" or ".join(asked),
        remedy="give --rule attention=auto or off",
    )


def _no_block(group: Group, forms: tuple[str, ...], work: AttentionWork, free: int) -> InputError:
    return InputError(
        f"no block of attention {group.head.id} '{group.head.name}' fits {free} bytes of free scratchpad and the "
        f"accumulator in the form {' or '.join(forms)} (possible here: {', '.join(work.forms)})",
        where=f"operator {group.head.id}",
        remedy="enlarge scratchpad.capacity_kib or accumulator.capacity_kib, or give --rule attention=off",
    )


def _check_size(work: MatmulWork | VectorWork, tiling: Choice) -> None:
    """Raise InputError for an operator cut in more tiles than fit a computer's memory."""
    tiles, shape = 0, object()
    if isinstance(tiling, Tiling) and isinstance(work, MatmulWork):
        view = work.view
        tiles = view.batch * -(-view.m // tiling.tm) * -(-view.n // tiling.tn) * -(-view.k // tiling.tk)
        shape = (tiling.tm, tiling.tn, tiling.tk)
    elif isinstance(tiling, RowTiling) and isinstance(work, VectorWork):
        tiles, shape = -(-work.rows * work.cols // tiling.tile_elements), tiling.tile_elements
    if tiles > MOST_TILES:
        head = work.group.head
        raise InputError(
            f"{head.kind} '{head.name}' is cut in {tiles:,} tiles, more than the {MOST_TILES:,} that can be kept",
            where=f"operator {head.id}",
            value=shape,
            remedy="enlarge the scratchpad or the accumulator, or give larger tiles",
        )


def _check_tile(work: MatmulWork, tiling: Tiling) -> None:
    """Raise InputError for a tile whose cycles or accesses 64 bits do not count."""
    if not counts_fit(work.array, tiling.tm, tiling.tk, tiling.tn):
        raise InputError(
            f"a tile of matmul '{work.group.head.name}' has counts beyond 64-bit integers",
            where=f"operator {work.group.head.id}",
            value=(tiling.tm, tiling.tn, tiling.tk),
            remedy="give smaller tiles, or a faster rate of the array or its drain",
        )


def _lowered(machine: Machine, work: MatmulWork | VectorWork, tiling: Choice, ports: Ports) -> Template:
    if isinstance(work, MatmulWork) and isinstance(tiling, Tiling):
        return lower_matmul(machine, with_dataflow(work, tiling.dataflow), tiling, ports)
    if isinstance(work, VectorWork) and isinstance(tiling, RowTiling):
        return lower_vector(machine, work, tiling, ports)
    if isinstance(work, VectorWork) and work.unit == HOST_UNIT:
        return lower_host(machine, work, ports)
    raise TypeError("a matmul takes a Tiling, any other operator a RowTiling")
