"""Record PyTorch models into traces. Needs the `export` extra (PyTorch, transformers); importing this does not."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accelsim.errors import InputError
from accelsim.trace.export.configs import MODELS, PRECISIONS, bert_trace_name, check_request
from accelsim.trace.model import Trace

if TYPE_CHECKING:
    from accelsim.trace.export.record import Recording

__all__ = ["MODELS", "PRECISIONS", "bert_trace_name", "check_request", "export_bert", "record_module"]


def export_bert(model: str, batch: int, seq: int, precision: str = "int8", mlm: bool = False) -> Trace:
    """Trace of one forward pass of a BERT encoder in inference: BertModel, or BertForMaskedLM when `mlm`.

    `batch` sequences of `seq` tokens (1 to 512); `model` is one of MODELS, `precision` one of PRECISIONS.

    Raises InputError for an unknown model or precision, for a batch or sequence length out of range, and when
    PyTorch or transformers is not installed.
    """
    check_request(model, batch, seq, precision)
    _require("torch", "transformers")
    from accelsim.trace.export.models import export_bert as export

    return export(model, batch, seq, precision, mlm)


def record_module(module: Any, inputs: Mapping[str, Any], **options: Any) -> Recording:
    """Record the forward pass of any PyTorch module: see `accelsim.trace.export.record.record_module`."""
    _require("torch")
    from accelsim.trace.export.record import record_module as record

    return record(module, inputs, **options)


def _require(*packages: str) -> None:
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(
            f"exporting needs {' and '.join(missing)}, not installed here",
            remedy='run: pip install "accelsim[export]" (for a smaller download install the CPU build of torch first)',
        )
