"""What has to be computed for each group, before tiles are chosen: sizes, passes, element widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from accelsim.arch.spec import Arch
from accelsim.compile.fuse import Group, elements, main_operand
from accelsim.compile.recipes import FusedStep, Pass, Recipes, fuse_functions, fused_step, pass_work, recipe_for
from accelsim.errors import InputError
from accelsim.hardware.systolic import ArrayParameters
from accelsim.hardware.vector import PassWork
from accelsim.trace import shapes
from accelsim.trace.matmul import Layout, MatmulView, matmul_view
from accelsim.trace.model import DTYPE_BYTES, Op, Operand, Trace

ROW_KINDS = frozenset({"softmax", "layernorm", "softmax_backward", "layernorm_backward"})


@dataclass(frozen=True)
class VectorPass:
    """One pass as the vector unit's closed form takes it."""

    name: str
    work: PassWork


@dataclass(frozen=True)
class MatmulWork:
    """A matmul and what follows it in its group. `epilogue` passes read finished accumulator rows."""

    group: Group
    view: MatmulView
    array: ArrayParameters
    a_bytes: int  # of one element, likewise below
    b_bytes: int
    out_bytes: tuple[int, ...]  # of each output of the group
    bias_bytes: int  # 0 without a bias
    bias_layout: Layout
    epilogue: tuple[VectorPass, ...]
    epilogue_scratch_bytes: int  # of an element of what the epilogue's passes keep in the scratchpad between them


@dataclass(frozen=True)
class VectorInput:
    """An operand of a vector operator: `stream` (an element each), `row` (an element a row) or `whole` (kept)."""

    view: Operand
    role: str
    bytes: int  # of one element


@dataclass(frozen=True)
class VectorWork:
    """An operator on the vector unit over [rows, cols] elements; tiles split rows, or elements where `splits_rows`."""

    group: Group
    shape: tuple[int, ...]  # that broadcast operands follow
    rows: int
    cols: int
    passes: tuple[VectorPass, ...]
    inputs: tuple[VectorInput, ...]
    out_bytes: tuple[int, ...]
    scratch_bytes: int  # of an element of the intermediates that passes keep
    row_structured: bool


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
        return recipe_for(op.kind, op.attributes, self.arch.vector.layernorm_passes, self.user_recipes)

    def work(self, group: Group) -> MatmulWork | VectorWork:
        """Raises InputError for an operator that the machine has no unit or rate for."""
        return self._matmul(group) if group.head.kind == "matmul" else self._vector(group)

    def _matmul(self, group: Group) -> MatmulWork:
        view = matmul_view(group.head)
        a, b, *rest = group.head.inputs
        bias = tuple(rest[:1])
        dtypes = self.trace.tensors[a.tensor].dtype, self.trace.tensors[b.tensor].dtype
        epilogue, scratch = self._matmul_epilogue(group)
        return MatmulWork(
            group=group,
            view=view,
            array=array_parameters(self.arch, *dtypes, where=f"operator {group.head.id} '{group.head.name}'"),
            a_bytes=DTYPE_BYTES[dtypes[0]],
            b_bytes=DTYPE_BYTES[dtypes[1]],
            out_bytes=self._widths(group.outputs),
            bias_bytes=self._widths(bias)[0] if bias else 0,
            bias_layout=Layout(0, 0, bias[0].strides[-1], bias[0].offset) if bias else Layout(0, 0, 0, 0),
            epilogue=epilogue,
            epilogue_scratch_bytes=scratch,
        )

    def _matmul_epilogue(self, group: Group) -> tuple[tuple[VectorPass, ...], int]:
        """Passes of the fused activation, and the bytes of an element that they keep; none where only casts follow,
        which ride the drain like requantisation."""
        first = next((op for op in group.epilogue if op.kind != "cast"), None)
        if first is None:
            return (), 0
        rest = group.epilogue[group.epilogue.index(first) + 1 :]
        passes = fuse_functions(self.recipe(first), (), [self._step(op, {}) for op in rest])
        width = max(self._widths(group.outputs))
        kept = _intermediates(passes, width)
        widths = {"in0": 0, "out": sum(self._widths(group.outputs)), **kept}
        return _passes(passes, widths), width * len(kept)

    def _vector(self, group: Group) -> VectorWork:
        rows, cols = self._rows_and_cols(group)
        names, prologue = self._prologue_names(group)
        passes = fuse_functions(self.recipe(group.head), prologue, [self._step(op, {}) for op in group.epilogue])
        inputs = tuple(
            VectorInput(
                view, self._role(group, index, view, rows, cols), DTYPE_BYTES[self.trace.tensors[view.tensor].dtype]
            )
            for index, view in enumerate(group.inputs)
        )
        out_bytes = self._widths(group.outputs)
        scratch = max((width for width in out_bytes), default=1)
        intermediates = _intermediates(passes, scratch)
        widths = {name: _width_per_element(item, cols) for name, item in zip(names, inputs, strict=False)}
        missing = {read: 0 for step in passes for read in (*step.reads, *step.row_reads) if read.startswith("in")}
        return VectorWork(
            group=group,
            shape=(group.head.inputs if group.head.kind == "reduce" else group.head.outputs)[0].shape,
            rows=rows,
            cols=cols,
            passes=_passes(passes, {**missing, **intermediates, **widths, "out": sum(out_bytes)}),
            inputs=inputs,
            out_bytes=out_bytes,
            scratch_bytes=scratch * len(intermediates),
            row_structured=group.head.kind in ROW_KINDS or group.head.kind in ("reduce", "gather", "scatter_add"),
        )

    def _widths(self, views: tuple[Operand, ...]) -> tuple[int, ...]:
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


def array_parameters(arch: Arch, a: str, b: str, where: str) -> ArrayParameters:
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
        dataflow=arch.array.dataflow,
        weight_double_buffer=arch.array.weight_double_buffer,
        output_double_buffer=arch.array.output_double_buffer,
        fold_overlap=arch.array.fold_overlap,
        rate=rate,
        drain_elements_per_cycle=None if drain == float("inf") else Fraction(str(drain)),
    )


def _passes(passes: tuple[Pass, ...], widths: Mapping[str, int]) -> tuple[VectorPass, ...]:
    return tuple(VectorPass(step.name, pass_work(step, widths)) for step in passes)


def _intermediates(passes: tuple[Pass, ...], width: int) -> dict[str, int]:
    """Bytes of an element of each value that passes keep in the scratchpad between them."""
    written = {name for step in passes for name in (*step.writes, *step.row_writes)}
    return dict.fromkeys(sorted(written - {"out"}), width)


def _width_per_element(item: VectorInput, cols: int) -> int:
    """Scratchpad bytes read of an operand per element: a scalar stays in a register."""
    return 0 if item.role == "whole" and elements(item.view) < cols else item.bytes
