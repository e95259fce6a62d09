"""What has to be computed for a group, before tiles are chosen: sizes, passes, element widths."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.compile.fuse import Group
from accelsim.hardware.systolic import ArrayParameters
from accelsim.hardware.vector import PassWork
from accelsim.trace.matmul import Layout, MatmulView
from accelsim.trace.model import Operand

ARRAY_OUTPUT = "array_output"  # special.*.attach
VECTOR_UNIT, HOST_UNIT = "vector", "host"
ROW_KINDS = frozenset({"softmax", "layernorm", "softmax_backward", "layernorm_backward"})


@dataclass(frozen=True)
class VectorPass:
    """One pass as the closed form of its unit takes it: the vector unit, a dedicated unit by its kind, or the host.

    input_ops: operations on each element at a dedicated unit's input. reads_rows: in a matmul's epilogue, it reads the
    accumulator.
    """

    name: str
    work: PassWork
    unit: str = VECTOR_UNIT
    input_ops: int = 0
    reads_rows: bool = False


@dataclass(frozen=True)
class MatmulWork:
    """A matmul and what follows it in its group. `epilogue` passes read finished accumulator rows; the one of a
    dedicated unit at the array's output takes them as they come, with the `further` inputs of the group."""

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
    further: tuple[VectorInput, ...] = ()  # inputs of the group after the matmul's own
    shape: tuple[int, ...] = ()  # that further broadcast inputs follow
    by_rows: bool = False  # the epilogue's passes on the vector unit go row by row

    @property
    def unit(self) -> str | None:
        """What the epilogue runs on, None without one."""
        return self.epilogue[0].unit if self.epilogue else None

    @property
    def attached(self) -> bool:
        """True where a dedicated unit takes the accumulator's rows."""
        return self.unit not in (None, VECTOR_UNIT)

    @property
    def whole_rows(self) -> bool:
        """True where a softmax or LayerNorm follows: it needs whole rows of the result in one tile."""
        return self.group.rows is not None


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
    note: str = ""  # why it is not on the dedicated unit that there is for it

    @property
    def unit(self) -> str:
        """What the group runs on in the end: the vector unit, a dedicated one, or the host."""
        return self.passes[-1].unit

    @property
    def units(self) -> frozenset[str]:
        """What its passes run on."""
        return frozenset(step.unit for step in self.passes)
