"""The compiled engine against the readable one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accelsim.api import load_trace
from accelsim.arch import list_archs, load_arch
from accelsim.compile import compile_program
from accelsim.engine.random_programs import Comparison, compare, verify
from accelsim.trace import parse_layers, slice_layers
from accelsim.validation.model import Part, Progress, ReferenceSet, Row

PROGRAMS, PROGRAMS_FAST = 200, 40
TRACE, ARCH_FAST, LAYERS_FAST = "bert_tiny_fwd_b1_s128", "tpu_like", "0:1"

TIMES = "times_of_every_task"
DRAWN = ReferenceSet("drawn Programs", "drawn Programs", "any units, edges, lags and rates that the contract allows")
REAL = ReferenceSet("compiled Programs", "compiled Programs", "the machines and traces as they are")


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """Drawn Programs, and a whole small model on every shipped machine (its first layer on one)."""
    yield from rows_of(DRAWN, verify(PROGRAMS_FAST if fast else PROGRAMS, 0, progress))
    trace = load_trace(TRACE)
    if fast:
        trace = slice_layers(trace, *parse_layers(LAYERS_FAST))
    for name in [ARCH_FAST] if fast else list_archs():
        progress(f"engines: {TRACE} on {name}")
        yield from rows_of(REAL, [compare(compile_program(load_arch(name), trace), f"{TRACE} on {name}", progress)])


def rows_of(reference_set: ReferenceSet, comparisons: Iterable[Comparison]) -> Iterator[Row]:
    """A row a comparison: the readable engine's times are the reference, ours are equal or differ somewhere."""
    for each in comparisons:
        case = f"{each.name}: {each.tasks} tasks, {each.memory} memory"
        yield Row(reference_set, case, TIMES, "equal", each.difference or "equal")


COMPARES = """\
The compiled engine (Numba), which every command runs, against the engine in SimPy that is written to be read
(accelsim/engine/reference.py): start, release, end and first service of every task, and the total. The readable
engine is an executable specification, not an outside reference. `accelsim verify engines` takes more Programs,
machines and traces.
"""
DIFFERENCES = """\
None: any difference is a fault.
"""

PART = Part(
    name="engines",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out=f"all but {PROGRAMS_FAST} of {PROGRAMS} drawn Programs, and all but the first layer on {ARCH_FAST}",
    rows=rows,
)
