"""Machines and traces for laws of whole runs: small ones of every kind, drawn from seeds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

from hypothesis import strategies as st

from accelsim.arch import load_arch
from accelsim.arch.spec import Arch, Dram
from accelsim.errors import InputError
from accelsim.trace.format import validated
from accelsim.trace.model import Trace
from tests.compile.machines import SMALL
from tests.fuzz import machines, traces

MOST_ELEMENTS = 100_000  # of all tensors together: a run of some hundred tasks
seeds = st.integers(0, 2**32 - 1)


def _built(model: str) -> bool:
    try:
        load_arch("tpu_like", {"dram.model": model})
    except InputError:
        return False
    return True


MODELS = tuple(model for model in get_args(Dram.model_fields["model"].annotation) if _built(model))


def machine(choose: random.Random, fixed: Mapping[str, Any]) -> Arch:
    """A small machine with up to eight keys changed, then those of `fixed`."""
    while True:
        changes = {**SMALL, **machines.changes(choose, 8), "energy.overrides": {}, **fixed}
        if not changes.get("array.fold_overlap", True):
            changes["array.weight_double_buffer"] = False
        with suppress(InputError):
            return load_arch("gemmini_16", changes)


def work(choose: random.Random, most: int = 6, suits: Callable[[Trace], bool] = lambda trace: True) -> Trace:
    """A valid trace of up to `most` operators, small and one that `suits`."""
    while True:
        drawn = traces.drawn_trace(choose, most=most)
        small = sum(tensor.elements for tensor in drawn.tensors) <= MOST_ELEMENTS
        with suppress(InputError):
            if small and suits(validated(drawn)):
                return validated(drawn)
