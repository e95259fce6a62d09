"""Tensors, names and dependencies: from recorded calls to a Trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from accelsim.trace.model import Op, Operand, Tensor

if TYPE_CHECKING:
    from accelsim.trace.export.lowering import Lowered
    from accelsim.trace.export.recorder import Call, Storage, View

# (class of the module, label of the operator in it) -> a name that says what the operator is for.
Names = Mapping[tuple[str, str], str]

# What models call the list that their layers stand in.
LAYER_LISTS = ("layer", "layers", "h", "blocks")


class Assembler:
    """Gives tensors and operators their ids and names, in the order of the calls."""

    def __init__(self, storages: Sequence[Storage], classes: Mapping[str, str], names: Names):
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.initial: dict[int, Storage] = {}  # tensor id -> storage, of tensors that exist before the run
        self._storages = storages
        self._classes = classes
        self._names = names
        self._ids: dict[tuple[int, int], int] = {}
        self._storage_ids: dict[int, int] = {}
        self._taken: dict[str, int] = defaultdict(int)

    def add(self, call: Call, lowered: Lowered) -> None:
        """Append one operator."""
        name = self._operator_name(call.module, lowered.label)
        inputs = tuple(self.operand(view) for view in lowered.inputs)
        parts = zip(lowered.outputs, lowered.parts, strict=True)
        outputs = tuple(self._written(view, f"{name}.{part}") for view, part in parts)
        self.ops.append(
            Op(
                id=len(self.ops),
                kind=lowered.kind,
                name=name,
                phase=call.phase,
                layer=layer_of(call.module),
                module=call.module,
                inputs=inputs,
                outputs=outputs,
                attributes=lowered.attributes,
            )
        )

    def operand(self, view: View) -> Operand:
        """The operand of a view that is read; a tensor nobody has written exists before the run."""
        key = (view.storage, view.version)
        if key not in self._ids:
            storage = self._storages[view.storage]
            self.initial[len(self.tensors)] = storage
            self._add_tensor(view, self._unique(storage.name or "constant"), storage.role)
        return Operand(self._ids[key], view.shape, view.strides, view.offset)

    def finish(self, finals: Iterable[View]) -> tuple[tuple[Tensor, ...], tuple[Op, ...]]:
        """Tensors and operators with their dependencies; the tensors of `finals` must end in DRAM."""
        for view in finals:
            tensor = self.operand(view).tensor
            self.tensors[tensor] = replace(self.tensors[tensor], final="dram")
        return tuple(self.tensors), with_dependencies(self.tensors, self.ops)

    def _written(self, view: View, name: str) -> Operand:
        """The operand of a view that is written. What a partial write leaves as it was must exist before it."""
        if view.version > 0:
            self.operand(replace(view, version=view.version - 1))
        if (view.storage, view.version) not in self._ids:
            self._add_tensor(view, self._unique(name), "activation")
        return self.operand(view)

    def _add_tensor(self, view: View, name: str, role: str) -> None:
        self._ids[view.storage, view.version] = len(self.tensors)
        storage = self._storage_ids.setdefault(view.storage, len(self._storage_ids))
        shape = self._storages[view.storage].shape
        self.tensors.append(Tensor(len(self.tensors), name, shape, view.dtype, role, storage, view.version))

    def _operator_name(self, module: str, label: str) -> str:
        numbered = self._unique(".".join(filter(None, (module, label))))
        chosen = self._names.get((self._classes.get(module, ""), numbered.rpartition(".")[2]))
        return f"{module}.{chosen}" if chosen else numbered

    def _unique(self, name: str) -> str:
        count = self._taken[name]
        self._taken[name] += 1
        return f"{name}_{count}" if count else name


def layer_of(module: str) -> int | None:
    """The layer that a module path lies in: N of `encoder.layer.N.output`, None outside the layers."""
    parts = module.split(".")
    for part, following in pairwise(parts):
        if part in LAYER_LISTS and following.isdigit():
            return int(following)
    return None


def with_dependencies(tensors: Sequence[Tensor], ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operators with `deps` from the storages they read and write in the given order.

    Read-after-write and write-after-write wait for the last writer of the storage, write-after-read for every
    reader since then.
    """
    writer: dict[int, int] = {}
    readers: defaultdict[int, set[int]] = defaultdict(set)
    result = []
    for op in ops:
        read = {tensors[operand.tensor].storage for operand in op.inputs}
        written = {tensors[operand.tensor].storage for operand in op.outputs}
        deps = {writer[storage] for storage in read | written if storage in writer}
        deps.update(*(readers[storage] for storage in written))
        result.append(replace(op, deps=tuple(sorted(deps))))
        for storage in read - written:
            readers[storage].add(op.id)
        for storage in written:
            writer[storage] = op.id
            readers[storage] = set()
    return tuple(result)
