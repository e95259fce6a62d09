"""What to compute: operators of a reference model with shapes, dtypes and dependencies. Knows no hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

FORMAT = "accelsim-trace/1"

DTYPE_BYTES: Mapping[str, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "fp16": 2, "bf16": 2, "int32": 4, "fp32": 4, "int64": 8, "fp64": 8,
}  # fmt: skip

ROLES = frozenset(
    {"weight", "activation", "gradient", "weight_gradient", "optimizer_state", "mask", "input", "constant"}
)
PHASES = ("forward", "backward", "optimizer")
PLACES = frozenset({"dram", "on_chip"})

FORWARD_KINDS = frozenset(
    {
        "matmul", "softmax", "layernorm", "gelu", "tanh", "relu", "elementwise", "reduce", "gather", "scatter_add",
        "transpose", "cast", "dropout", "loss", "optimizer_update", "collective",
    }
)  # fmt: skip
BACKWARD_KINDS = frozenset(
    f"{kind}_backward" for kind in ("softmax", "layernorm", "gelu", "tanh", "relu", "dropout", "loss")
)
KINDS = FORWARD_KINDS | BACKWARD_KINDS


@dataclass(frozen=True, slots=True)
class Tensor:
    """One value, written once. An in-place write makes a new `version` of the same `storage`.

    `shape` is in elements, row-major and contiguous in its storage. `initial` is where the tensor lies before the
    run ("dram" or "on_chip"); `final` is where it must be after it, None for "nobody asks": an operator's first output
    that none reads then ends in DRAM, one that is read is dead after its last reader, and a further output (statistics
    of a LayerNorm, the mask of a dropout) that none reads is not kept. What no operator writes stays where it starts.
    """

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    storage: int
    version: int = 0
    initial: str = "dram"
    final: str | None = None

    @property
    def elements(self) -> int:
        result = 1
        for size in self.shape:
            result *= size
        return result

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Operand:
    """A view of a tensor as one operator reads or writes it: shape, strides and offset in elements of the storage."""

    tensor: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """One operator. `deps` are ids of earlier operators (read-after-write, write-after-read, write-after-write).

    Operands are in logical orientation: a matmul reads A [batch..., m, k], B [batch..., k, n] and, if
    `attributes["bias"]`, a bias [n]; transposition shows in the strides and in `transpose_a`, `transpose_b`.
    """

    id: int
    kind: str
    name: str
    phase: str
    layer: int | None
    module: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    deps: tuple[int, ...] = ()
    forward_op: int | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a matmul (batch x m x n x k); 0 for every other kind."""
        if self.kind != "matmul":
            return 0
        a = self.attributes
        return int(a["batch"]) * int(a["m"]) * int(a["n"]) * int(a["k"])


@dataclass(frozen=True)
class Trace:
    """A validated trace. Tensor and operator ids are their positions in `tensors` and `ops`.

    `model`, `run` and `exporter` are the header's records as they stand in the file; `sha256` is that of all
    lines after the header.
    """

    model: Mapping[str, Any]
    run: Mapping[str, Any]
    exporter: Mapping[str, Any]
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    sha256: str = ""
    name: str = ""

    @property
    def macs(self) -> int:
        return sum(op.macs for op in self.ops)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each tensor the ids of the operators that read it, ascending."""
        found: list[list[int]] = [[] for _ in self.tensors]
        for op in self.ops:
            for tensor in dict.fromkeys(operand.tensor for operand in op.inputs):
                found[tensor].append(op.id)
        return tuple(tuple(ids) for ids in found)

    @cached_property
    def writers(self) -> tuple[int | None, ...]:
        """For each tensor the id of the operator that writes it, None for one that exists before the run."""
        found: list[int | None] = [None] * len(self.tensors)
        for op in self.ops:
            for operand in op.outputs:
                found[operand.tensor] = op.id
        return tuple(found)

    def graph(self) -> networkx.DiGraph:
        """The dependency graph: a node an operator (attribute `op`), an edge producer -> consumer."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from((op.id, {"op": op}) for op in self.ops)
        graph.add_edges_from((dep, op.id) for op in self.ops for dep in op.deps)
        return graph
