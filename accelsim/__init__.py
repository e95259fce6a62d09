"""accelsim: a cycle-approximate simulator of systolic-array accelerators that run transformer models.

>>> import accelsim
>>> result = accelsim.simulate(accelsim.load_arch("tpu_like"), accelsim.load_trace("bert_tiny_fwd_b1_s128"))
>>> result.to_dict()["total"]["cycles"] > 0
True

Everything heavy is imported on first use, so that ``import accelsim`` and the command line start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from accelsim.errors import InputError, InternalError

if TYPE_CHECKING:
    from accelsim.api import Result, compare, gemm, load_arch, load_trace, simulate

__version__ = "0.1.0"

__all__ = [
    "InputError", "InternalError", "Result", "__version__", "compare", "gemm", "load_arch", "load_trace",
    "simulate",
]  # fmt: skip

_FROM_API = frozenset({"Result", "compare", "gemm", "load_arch", "load_trace", "simulate"})


def __getattr__(name: str) -> object:
    if name in _FROM_API:
        return getattr(import_module("accelsim.api"), name)
    raise AttributeError(f"module 'accelsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
