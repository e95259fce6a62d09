"""With ideal memory a drawn graph of operators, mapped and placed as before, is never slower on a better machine.

A unit whose peak grows may take scratchpad bandwidth from its neighbours (docs/scratchpad.md), so that the scratchpad
is wide here, but where it is what gets better.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from accelsim.arch.spec import Arch
from accelsim.compile import compile_program, dump_mapping, read_mapping
from accelsim.compile.program import Program
from accelsim.engine import run
from accelsim.errors import InputError
from accelsim.trace.model import Trace
from tests.laws.drawn import machine, seeds, work

FUNCTIONS = ("exp", "erf", "tanh", "rsqrt", "div", "log", "sqrt")
BETTER: dict[str, tuple[Any, ...]] = {  # key -> values from worse to better
    "array.rate": tuple({"int8": rate, "bf16": rate, "fp32": rate} for rate in ("1/3", "1/2", 1, 2)),
    "accumulator.drain_elements_per_cycle": (129, 300, float("inf")),
    "vector.pipeline_depth": (20, 4, 0),
    "scratchpad.ports": (1, 2, 8),
    "scratchpad.banks": (8, 32, 256),
    "second_level": tuple({"capacity_kib": 4096, "bandwidth_gbps": rate} for rate in (4, 16, 100, float("inf"))),
    "vector.rate": tuple(dict.fromkeys(FUNCTIONS, rate) for rate in ("1/7", 1, 3)),
}

WIDE = {"scratchpad.banks": 65536, "scratchpad.bank_width_bytes": 64, "scratchpad.ports": 4}


@pytest.mark.parametrize("key", sorted(BETTER))
@settings(max_examples=25)
@given(seed=seeds)
def test_the_same_mapping_is_never_slower(key: str, seed: int, tmp_path_factory: Any) -> None:
    path: Path = tmp_path_factory.mktemp("mapping") / "mapping.yaml"
    times, mapping = [], None
    for value in BETTER[key]:
        choose = random.Random(seed)
        wide = {} if key.startswith("scratchpad") else WIDE
        trace, arch = work(choose, most=4), machine(choose, {**wide, "dram.model": "ideal", key: value})
        program = compiled(arch, trace, mapping)
        if mapping is None:
            path.write_text(dump_mapping(program), encoding="utf-8")
            mapping = read_mapping(path)
        times.append(run(program).total)
    assert times == sorted(times, reverse=True)


def compiled(arch: Arch, trace: Trace, mapping: Any) -> Program:
    """The Program; what the worst machine refuses is dropped."""
    try:
        return compile_program(arch, trace, residency=False, mapping=mapping)
    except InputError:
        assume(mapping is not None)
        raise
