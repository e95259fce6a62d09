"""What has to be computed for each group, before tiles are chosen: sizes, passes, element widths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from accelsim.arch.spec import Arch
from accelsim.compile.fuse import Group, elements, main_operand
from accelsim.compile.recipes import (
    INTERMEDIATE,
    FusedStep,
    Pass,
    Recipes,
    fuse_functions,
    fused_step,
    pass_work,
    recipe_for,
)
from accelsim.compile.work import (
    ARRAY_OUTPUT,
    HOST_UNIT,
    ROW_KINDS,
    VECTOR_UNIT,
    MatmulWork,
    VectorInput,
    VectorPass,
    VectorWork,
)
from accelsim.errors import InputError
from accelsim.hardware.systolic import ArrayParameters, Dataflow
from accelsim.hardware.vector import PassWork
from accelsim.trace import shapes
from accelsim.trace.matmul import Layout, matmul_view
from accelsim.trace.model import DTYPE_BYTES, Op, Operand, Trace


class Planner:
    """Turns groups into work for one machine."""

    def __init__(self, trace: Trace, arch: Arch, user_recipes: Recipes) -> None:
        self.trace = trace
        self.arch = arch
        self.user_recipes = user_recipes

    def fusable(self, op: Op) -> bool:
        """True when the operator's recipe can join another's passes."""
        return fused_step(self.recipe(op), {}) is not None

    def recipe(self, op: Op) -> tuple[Pass, ...]:
        passes = self.arch.vector.layernorm_passes if self.arch.vector is not None else 1
        return recipe_for(op.kind, op.attributes, passes, self.user_recipes)

    def folds(self, op: Op, after: Op) -> bool:
        """True when an activation is computed on what leaves the accumulator: by the vector unit, or by a dedicated
        unit that sits there and takes nothing but the matmul `after` which it comes."""
        unit = self.arch.special_units.get(op.kind)
        if unit is not None:
            return unit.attach == ARRAY_OUTPUT and after.kind == "matmul"
        return self.arch.vector is not None and after.kind not in self.arch.special_units

    def on_vector(self, rows: Group) -> bool:
        """True when the vector unit computes a row operator."""
        return self.arch.vector is not None and rows.head.kind not in self.arch.special_units

    def takes_rows(self, rows: Group) -> bool:
        """True when a dedicated unit at the array's output takes a row operator's rows as they come."""
        unit = self.arch.special_units.get(rows.head.kind)
        fits = unit is not None and unit.attach == ARRAY_OUTPUT
        return fits and self.input_ops(rows.head, rows.prologue) is not None

    def work(self, group: Group) -> MatmulWork | VectorWork:
        """Raises InputError for an operator that the machine has no unit or rate for."""
        return self._matmul(group) if group.head.kind == "matmul" else self._vector(group)

    def input_ops(self, head: Op, prologue: Sequence[Op]) -> int | None:
        """Operations at the input of the dedicated unit for `head`, a multiplication and an addition at most; None
        where the prologue is more than that."""
        counts: Counter[str] = Counter()
        for op in prologue:
            counts.update(self._step(op, {}).functions)
        fits = counts.keys() <= {"mul", "add"} and max(counts.values(), default=0) <= 1
        return counts.total() if fits and head.kind in self.arch.special_units else None

    def _matmul(self, group: Group) -> MatmulWork:
        view = matmul_view(group.head)
        a, b, *rest = group.head.inputs
        bias = tuple(rest[:1])
        dtypes = self.trace.tensors[a.tensor].dtype, self.trace.tensors[b.tensor].dtype
        epilogue, scratch = self._matmul_epilogue(group)
        attached = bool(epilogue) and epilogue[0].unit != VECTOR_UNIT
        return MatmulWork(
            group=group,
            view=view,
            array=array_parameters(
                self.arch,
                *dtypes,
                where=f"operator {group.head.id} '{group.head.name}'",
                dataflow="ws" if attached else self.arch.array.dataflows[0],
            ),
            a_bytes=DTYPE_BYTES[dtypes[0]],
            b_bytes=DTYPE_BYTES[dtypes[1]],
            out_bytes=self._widths(group.outputs),
            bias_bytes=self._widths(bias)[0] if bias else 0,
            bias_layout=Layout(0, 0, bias[0].strides[-1], bias[0].offset) if bias else Layout(0, 0, 0, 0),
            epilogue=epilogue,
            epilogue_scratch_bytes=scratch,
            further=self._further(group),
            shape=group.rows.head.outputs[0].shape if group.rows else (),
            by_rows=group.rows is not None,
        )

    def _further(self, group: Group) -> tuple[VectorInput, ...]:
        """The operands that the row operator after a matmul reads beside the matmul's rows."""
        return () if group.rows is None else self._inputs(group.rows, group.rows.inputs[1:])

    def _matmul_epilogue(self, group: Group) -> tuple[tuple[VectorPass, ...], int]:
        """Passes of the fused activation, and the bytes of an element that they keep; none where only casts follow,
        which ride the drain like requantisation."""
        first = next((op for op in group.epilogue if op.kind != "cast"), None)
        if first is None:
            return (), 0
        unit = next((op.kind for op in group.epilogue if op.kind in self.arch.special_units), None)
        if unit is not None and (group.rows is None or group.rows.head.kind == unit):
            return (self._attached(group, unit),), 0
        if group.rows is not None:
            return self.row_epilogue(group.rows)
        rest = group.epilogue[group.epilogue.index(first) + 1 :]
        return self._from_rows(self.recipe(first), [], [self._step(op, {}) for op in rest], {}, group)

    def row_epilogue(self, rows: Group, recipe: tuple[Pass, ...] | None = None) -> tuple[tuple[VectorPass, ...], int]:
        """Passes of a softmax or LayerNorm group over rows in the accumulator, by the operator's own recipe or another,
        and the bytes of an element that they keep in the scratchpad."""
        names, prologue = self._prologue_names(rows)
        cols = self._rows_and_cols(rows)[1]
        widths = {
            name: _width_per_element(item, cols)
            for name, item in zip(names[1:], self._inputs(rows, rows.inputs[1:]), strict=False)
        }
        steps = [self._step(op, {}) for op in rows.epilogue]
        return self._from_rows(recipe or self.recipe(rows.head), prologue, steps, widths, rows)

    def _from_rows(
        self,
        recipe: tuple[Pass, ...],
        prologue: Sequence[FusedStep],
        epilogue: Sequence[FusedStep],
        widths: Mapping[str, int],
        group: Group,
    ) -> tuple[tuple[VectorPass, ...], int]:
        passes = fuse_functions(recipe, prologue, epilogue)
        width = self._kept_width(group)
        kept = _intermediates(passes, width)
        missing = {read: 0 for step in passes for read in (*step.reads, *step.row_reads) if read.startswith("in")}
        found = _passes(passes, {**missing, **widths, **kept, "in0": 0, "out": sum(self._widths(group.outputs))})
        return found, width * len(kept)

    def _kept_width(self, group: Group) -> int:
        """Bytes of an element of what passes keep between them: as the widest result, before casts."""
        return max(self._widths((*group.outputs, *group.head.outputs[:1])) or (1,))

    def _attached(self, group: Group, kind: str) -> VectorPass:
        """The pass of a dedicated unit at the array's output; all but the rows comes from the scratchpad."""
        head = next(op for op in group.epilogue if op.kind == kind)
        cols = (head.outputs[0].shape or (1,))[-1]
        read = sum(_width_per_element(item, cols) for item in self._further(group))
        work = PassWork(read_bytes_per_element=read, write_bytes_per_element=sum(self._widths(group.outputs)))
        taken = self.input_ops(head, group.epilogue[: group.epilogue.index(head)]) or 0
        return VectorPass(kind, work, kind, taken, reads_rows=True)

    def _inputs(self, group: Group, views: Sequence[Operand]) -> tuple[VectorInput, ...]:
        """The last operands of a group, `views`, as the vector unit reads them."""
        rows, cols = self._rows_and_cols(group)
        first = len(group.inputs) - len(views)
        roles = (self._role(group, first + index, view, rows, cols) for index, view in enumerate(views))
        return tuple(VectorInput(*item) for item in zip(views, roles, self._widths(views), strict=True))

    def _vector(self, group: Group) -> VectorWork:
        rows, cols = self._rows_and_cols(group)
        names, prologue = ([], []) if group.is_region else self._prologue_names(group)
        unit, note = self._unit_of(group)
        if group.is_region:
            names, passes = self._region(group)
        elif unit in self.arch.special_units:
            own = tuple(names[: max(1, len(group.head.inputs))])
            passes = special_passes(unit, own, prologue, self.input_ops(group.head, group.prologue) is not None)
        else:
            passes = fuse_functions(self.recipe(group.head), prologue, [self._step(op, {}) for op in group.epilogue])
        inputs = self._inputs(group, group.inputs)
        out_bytes = self._widths(group.outputs)
        scratch = self._kept_width(group)
        intermediates = _intermediates(passes, scratch)
        widths = {name: _width_per_element(item, cols) for name, item in zip(names, inputs, strict=False)}
        widths |= {**intermediates, "out": sum(out_bytes)}
        missing = {read: 0 for step in passes for read in (*step.reads, *step.row_reads) if read.startswith("in")}
        return VectorWork(
            group=group,
            shape=(group.head.inputs if group.head.kind == "reduce" else group.head.outputs)[0].shape,
            rows=rows,
            cols=cols,
            passes=self._on_unit(group, unit, _passes(passes, missing | widths)),
            inputs=inputs,
            out_bytes=out_bytes,
            scratch_bytes=scratch * len(intermediates) * (2 if unit in self.arch.special_units else 1),
            row_structured=group.head.kind in ROW_KINDS or group.head.kind in ("reduce", "gather", "scatter_add"),
            note=note,
        )

    def _region(self, group: Group) -> tuple[list[str], tuple[Pass, ...]]:
        """Names of the inputs, and the one pass of all operators of a region over them."""
        names = [f"in{index}" for index in range(len(group.inputs))]
        counts: Counter[str] = Counter()
        for op in group.ops:
            counts.update(self._step(op, {}).functions)
        return names, (Pass("update", tuple(names), ("out",), dict(counts)),)

    def _unit_of(self, group: Group) -> tuple[str, str]:
        """What a group that is no matmul runs on, and why not on the dedicated unit that there is for it."""
        otherwise = HOST_UNIT if self.arch.vector is None else VECTOR_UNIT
        if group.head.kind not in self.arch.special_units:
            return otherwise, ""
        if otherwise == HOST_UNIT and self.input_ops(group.head, group.prologue) is None:
            return otherwise, f"the {group.head.kind} unit takes a multiplication and an addition before, not more"
        return group.head.kind, ""

    def _on_unit(self, group: Group, unit: str, passes: tuple[VectorPass, ...]) -> tuple[VectorPass, ...]:
        """The passes with their units: the last one of a dedicated unit's group is that unit's."""
        if unit == HOST_UNIT:
            return tuple(replace(step, unit=unit) for step in passes)
        if unit == VECTOR_UNIT:
            return passes
        taken = len(passes) == 1 and self.input_ops(group.head, group.prologue)
        return (*passes[:-1], replace(passes[-1], unit=unit, input_ops=taken or 0))

    def _widths(self, views: Sequence[Operand]) -> tuple[int, ...]:
        return tuple(DTYPE_BYTES[self.trace.tensors[view.tensor].dtype] for view in views)

    def _step(self, op: Op, further: Mapping[str, str]) -> FusedStep:
        step = fused_step(self.recipe(op), further)
        if step is None:
            raise InputError(
                f"operator {op.id} '{op.name}' has a recipe of several passes and cannot be fused",
                where=f"vector.recipes.{op.kind}",
                remedy="run with --fusion none, or give it one pass that works element by element",
            )
        return step

    def _prologue_names(self, group: Group) -> tuple[list[str], list[FusedStep]]:
        """Names of `group.inputs` in the fused passes, and the prologue's operators as steps over those names."""
        own = max(1, len(group.head.inputs))
        names = [f"in{index}" for index in range(own)]
        steps, value = [], None
        for op in group.prologue:
            chain = next((v for v in op.inputs if v.tensor == value), None) or main_operand(op, self.trace)
            further = {}
            for index, view in enumerate(op.inputs):
                if view is not chain:
                    further[f"in{index}"] = f"extra{len(names) - own}"
                    names.append(f"extra{len(names) - own}")
            steps.append(self._step(op, further))
            value = op.outputs[0].tensor
        return names, steps

    def _rows_and_cols(self, group: Group) -> tuple[int, int]:
        head = group.head
        if head.kind == "reduce":
            rows = elements(head.outputs[0])
            return rows, elements(head.inputs[0]) // rows
        if head.kind == "gather":  # an index after another, and what it picks of the table
            rows = elements(head.inputs[1])
            return rows, elements(head.outputs[0]) // rows
        shape = head.outputs[0].shape or (1,)
        if head.kind in ("loss", "scatter_add", "loss_backward"):
            shape = head.inputs[0].shape or (1,)
        return shapes.elements(shape[:-1]), shape[-1]

    def _role(self, group: Group, index: int, view: Operand, rows: int, cols: int) -> str:
        if group.head.kind == "gather":
            return ("stream", "row")[min(index, 1)]
        count = elements(view)
        if count == rows * cols:
            return "stream"
        parameter = group.head.kind in ("layernorm", "layernorm_backward") and view in group.head.inputs[1:3]
        by_row = view.shape[-1:] == (1,) or (group.head.kind in ROW_KINDS and not parameter)
        return "row" if count == rows and cols > 1 and by_row else "whole"


def array_parameters(arch: Arch, a: str, b: str, where: str, dataflow: Dataflow) -> ArrayParameters:
    """The array's numbers for operands of dtypes a and b. Raises InputError when it has no rate for them."""
    rate = arch.array.rate_of(a, b)
    if rate is None:
        raise InputError(
            f"{where} multiplies {a} by {b}, which the array cannot",
            where=arch.where("array.rate"),
            value=f"{a} x {b}",
            remedy=f"add a rate for it (array.rate has {', '.join(arch.array.rate)}) or use another precision",
        )
    drain = arch.accumulator.drain_elements_per_cycle
    return ArrayParameters(
        rows=arch.array.rows,
        cols=arch.array.cols,
        dataflow=dataflow,
        weight_double_buffer=arch.array.weight_double_buffer,
        output_double_buffer=arch.array.output_double_buffer,
        fold_overlap=arch.array.fold_overlap,
        rate=rate,
        drain_elements_per_cycle=None if drain == float("inf") else Fraction(str(drain)),
    )


def special_passes(kind: str, own: tuple[str, ...], prologue: Sequence[FusedStep], taken: bool) -> tuple[Pass, ...]:
    """The passes of a group on a dedicated unit: the prologue is `taken` at its input, or a pass before it."""
    further = tuple(read for step in prologue for read in step.reads)
    if taken or not prologue:
        return (Pass(kind, reads=(*own, *further), writes=("out",)),)
    counts: Counter[str] = Counter()
    for step in prologue:
        counts.update(step.functions)
    before = Pass("prologue", reads=("in0", *further), writes=(INTERMEDIATE,), functions=dict(counts))
    return before, Pass(kind, reads=(INTERMEDIATE, *own[1:]), writes=("out",))


def _passes(passes: tuple[Pass, ...], widths: Mapping[str, int]) -> tuple[VectorPass, ...]:
    return tuple(VectorPass(step.name, pass_work(step, widths), reads_rows="in0" in step.reads) for step in passes)


def _intermediates(passes: tuple[Pass, ...], width: int) -> dict[str, int]:
    """Bytes of an element of each value that passes keep in the scratchpad between them."""
    written = {name for step in passes for name in (*step.writes, *step.row_writes)}
    return dict.fromkeys(sorted(written - {"out"}), width)


def _width_per_element(item: VectorInput, cols: int) -> int:
    """Scratchpad bytes read of an operand per element: a scalar stays in a register."""
    return 0 if item.role == "whole" and elements(item.view) < cols else item.bytes
