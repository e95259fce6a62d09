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
    archs, layers = ([ARCH_FAST], LAYERS_FAST) if fast else (list_archs(), None)
    yield from rows_of(REAL, compared(archs, [TRACE], layers, progress))


def compared(
    archs: Iterable[str], traces: Iterable[str], layers: str | None, progress: Progress
) -> Iterator[Comparison]:
    """Both engines on each trace (or its `layers`, as "first:last") on each machine."""
    machines = {name: load_arch(name) for name in archs}
    for trace_name in traces:
        trace = load_trace(trace_name)
        work = trace if layers is None else slice_layers(trace, *parse_layers(layers))
        for arch_name, machine in machines.items():
            name = f"{trace_name} on {arch_name}"
            progress(f"comparing {name}")
            yield compare(compile_program(machine, work), name, progress)


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
