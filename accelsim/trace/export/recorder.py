"""Record what a PyTorch module does: one `Call` for each ATen operator that computes, views resolved to storages.

A storage is *prepared* when its contents come from integer inputs and constants alone: position indices, the
attention mask. The host makes those before the run, so the operators that make them are not recorded; a prepared
storage that a computing operator reads appears as an initial tensor. Everything else comes from weights or
floating-point inputs and is computed on the accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from accelsim.errors import InputError

DTYPES: Mapping[torch.dtype, str] = {
    torch.bool: "bool", torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.int32: "int32",
    torch.int64: "int64", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
}  # fmt: skip

# Operators that look at a tensor's shape, never at its values.
SHAPE_READERS = frozenset(
    {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor argument as an operator sees it; strides and offset in elements of the storage."""

    storage: int
    version: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Call:
    """One computing ATen operator. Tensors in `args` and `kwargs` are replaced by their `View`.

    `inputs` holds every tensor argument and `outputs` every value written, in the order of the operator's schema.
    """

    function: str  # "aten.addmm.default"
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    module: str
    phase: str


@dataclass(slots=True)
class Storage:
    """A block of memory that the module reads or writes; `shape` is that of its contents, row-major."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    name: str = ""  # of a weight, buffer or input; the input it derives from when prepared; else empty
    role: str = "activation"
    prepared: bool = False
    version: int = 0
    contents: Tensor | None = None  # flat copy of version 0, when it exists before the run and tensors are real
    used: bool = False


@dataclass(eq=False)
class Recorder(TorchDispatchMode):
    """Dispatch mode that appends a `Call` for each computing operator run inside it.

    Name the module's weights and inputs first (`name_storages`), wrap the module in `module_paths` to record where
    each operator comes from. `phase` may be changed between the parts of a training step.
    """

    phase: str = "forward"
    calls: list[Call] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._by_key: dict[int, Storage] = {}
        self._alive: list[Tensor] = []  # a storage's address identifies it only while it lives
        self._modules: list[str] = []

    def name_storages(self, tensors: Mapping[str, Tensor], role: str) -> None:
        """Declare tensors that exist before the run. The first name of a shared storage stands (tied weights)."""
        for name, tensor in tensors.items():
            if _key(tensor) not in self._by_key:
                prepared = role != "weight" and not tensor.is_floating_point()
                self._add(tensor, name=name, role=role, prepared=prepared)

    @contextmanager
    def module_paths(self, module: nn.Module) -> Iterator[None]:
        """Keep the path of the running submodule of `module`, from forward hooks."""
        handles = []
        for path, child in module.named_modules():
            handles.append(child.register_forward_pre_hook(lambda *_, path=path: self._modules.append(path)))
            handles.append(child.register_forward_hook(lambda *_: _drop(self._modules.pop()), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def view(self, tensor: Tensor) -> View:
        """The view of a tensor that the recorder has seen or that exists before the run."""
        storage = self._by_key.get(_key(tensor)) or self._add(tensor, role="constant", prepared=True)
        if DTYPES.get(tensor.dtype) != storage.dtype:
            raise InputError("reinterprets memory in another dtype", where=self._module, value=str(tensor.dtype))
        self._keep_contents(storage, tensor)
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        return View(storage.index, storage.version, shape, strides, int(tensor.storage_offset()), storage.dtype)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = _tensors((args, kwargs))
        written = _written(func, args, kwargs)
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if func.__name__.split(".")[0] in SHAPE_READERS:
            return self._prepare([], func(*args, **kwargs))
        if not self._computes(tensors, written):
            return self._prepare(tensors, func(*args, **kwargs))
        before = tree_map(lambda x: self.view(x) if isinstance(x, Tensor) else x, (args, kwargs))
        result = func(*args, **kwargs)
        keys = {_key(tensor) for tensor in tensors}
        returned = _tensors(result)
        fresh = [tensor for tensor in returned if _key(tensor) not in keys]
        is_view = bool(returned) and not fresh and not written
        if not is_view:
            self._append(str(func), before, written, fresh)
        return result

    @property
    def _module(self) -> str:
        return self._modules[-1] if self._modules else ""

    def _append(self, function: str, before: Any, written: list[Tensor], fresh: list[Tensor]) -> None:
        args, kwargs = before
        inputs = tuple(leaf for leaf in tree_flatten(before)[0] if isinstance(leaf, View))
        for storage in {_key(tensor): self._by_key[_key(tensor)] for tensor in written}.values():
            storage.version += 1
            storage.prepared = False
        for tensor in fresh:
            if _key(tensor) not in self._by_key:
                self._add(tensor)
        outputs = tuple(self.view(tensor) for tensor in [*written, *fresh])
        self.calls.append(Call(function, args, kwargs, inputs, outputs, self._module, self.phase))

    def _computes(self, tensors: list[Tensor], written: list[Tensor]) -> bool:
        storages = [self._by_key.get(_key(tensor)) for tensor in tensors]
        changed = [self._by_key.get(_key(tensor)) for tensor in written]
        return any(s is not None and not s.prepared for s in storages) or any(s is not None and s.used for s in changed)

    def _prepare(self, tensors: list[Tensor], result: Any) -> Any:
        sources = [self._by_key[_key(tensor)] for tensor in tensors if _key(tensor) in self._by_key]
        name = next((source.name for source in sources if source.role in ("input", "mask")), "")
        for tensor in _tensors(result):
            storage = self._by_key.get(_key(tensor)) or self._add(tensor, role="constant", prepared=True)
            if name and not storage.name:
                is_mask = tensor.is_floating_point() or tensor.dtype == torch.bool
                storage.name, storage.role = name, "mask" if is_mask else "input"
        return result

    def _add(self, tensor: Tensor, name: str = "", role: str = "activation", prepared: bool = False) -> Storage:
        if tensor.dtype not in DTYPES:
            raise InputError("a dtype that traces do not have", where=self._module, value=str(tensor.dtype))
        shape = _contents_shape(tensor)
        storage = Storage(len(self.storages), shape, DTYPES[tensor.dtype], name, role, prepared)
        self.storages.append(storage)
        self._by_key[_key(tensor)] = storage
        self._alive.append(tensor)
        return storage

    def _keep_contents(self, storage: Storage, tensor: Tensor) -> None:
        if not storage.used and storage.role != "activation" and not isinstance(tensor, FakeTensor):
            flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
            storage.contents = flat.detach().clone()
        storage.used = True


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _drop(_: str) -> None:
    """A forward hook that returns a value would replace the module's output."""


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensor arguments that the operator's schema says it writes in place."""
    found = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            found += _tensors(value)
    return found


def _contents_shape(tensor: Tensor) -> tuple[int, ...]:
    """Shape of the whole storage in the order in which it lies; flat when the tensor covers only a part of it."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    shape = tuple(size for _, size in sorted(zip(tensor.stride(), tensor.shape, strict=True), key=lambda x: -x[0]))
    is_whole = tensor.numel() == elements
    return shape if is_whole else (elements,)
