"""Record a PyTorch module into a Trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from accelsim.errors import InputError
from accelsim.trace.export.assemble import Assembler, Names
from accelsim.trace.export.lowering import lower
from accelsim.trace.export.recorder import Recorder, View
from accelsim.trace.model import Operand, Trace


@dataclass(frozen=True)
class Recording:
    """A trace in the precision of the module, and what a replay needs to check it.

    values: tensor id -> flat contents, of each tensor that exists before the run (empty for fake tensors).
    outputs: name -> where the trace leaves that output of the module.  results: name -> what the module returned.
    """

    trace: Trace
    values: Mapping[int, torch.Tensor]
    outputs: Mapping[str, Operand]
    results: Mapping[str, torch.Tensor]


def record_module(
    module: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    *,
    model: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    names: Names | None = None,
    name: str = "",
) -> Recording:
    """Run the module's forward pass once on keyword arguments `inputs` and record its operators.

    Tensors may be real or fake (make the module and the inputs inside FakeTensorMode then). `model` and `run` become
    the trace's header records; `names` renames operators by (module class, label).

    Raises InputError for a module in training mode, for an ATen operator that has no lowering, for a dtype that
    traces do not have.
    """
    if module.training:
        raise InputError("the module is in training mode", remedy="call module.eval() before recording inference")
    recorder = Recorder()
    recorder.name_storages(dict(module.named_parameters()), "weight")
    recorder.name_storages(dict(module.named_buffers()), "constant")
    recorder.name_storages(inputs, "input")
    with torch.no_grad(), recorder.module_paths(module), recorder:
        returned = module(**inputs)
    results = dict(_named_tensors(returned))
    views = {key: recorder.view(tensor) for key, tensor in results.items()}
    header = {"model": model or {"name": type(module).__name__, "config": {}}, "run": run or {}}
    return _assemble(recorder, module, views, results, header, names or {}, name)


def _assemble(
    recorder: Recorder,
    module: nn.Module,
    views: Mapping[str, View],
    results: Mapping[str, torch.Tensor],
    header: Mapping[str, Mapping[str, Any]],
    names: Names,
    name: str,
) -> Recording:
    classes = {path: type(child).__name__ for path, child in module.named_modules()}
    assembler = Assembler(recorder.storages, classes, names)
    for call in recorder.calls:
        assembler.add(call, lower(call))
    tensors, ops = assembler.finish(views.values())
    trace = Trace(header["model"], header["run"], _exporter(), tensors, ops, name=name)
    contents = {tensor: storage.contents for tensor, storage in assembler.initial.items()}
    values = {tensor: flat for tensor, flat in contents.items() if flat is not None}
    return Recording(trace, values, {key: assembler.operand(view) for key, view in views.items()}, results)


def _exporter() -> dict[str, Any]:
    """Name and versions, without build suffixes ("+cpu"), so that every machine writes the same header."""
    installed = [package for package in ("torch", "transformers") if find_spec(package)]
    return {"name": "accelsim.trace.export", "versions": {name: version(name).split("+")[0] for name in installed}}


def _named_tensors(value: Any, name: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a module's return value: a tensor, a mapping (Hugging Face's outputs) or a sequence."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _named_tensors(part, str(key))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _named_tensors(part, f"{name}_{index}")
