"""The memory models `pattern` and `bandwidth` against `command`, on every shipped machine and trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.api import load_trace
from accelsim.arch import list_archs, load_arch
from accelsim.arch.spec import Arch
from accelsim.compile import compile_program
from accelsim.compile.program import Program
from accelsim.engine import run
from accelsim.engine.commanded import expected_seconds
from accelsim.measure.result import measure
from accelsim.trace import Trace, parse_layers, slice_layers
from accelsim.trace.find import list_traces
from accelsim.validation.model import Part, Progress, ReferenceSet, Row
from accelsim.validation.strips import draw_strips
from accelsim.validation.words import error_text, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_SECONDS = 4.0  # that `command` is expected to take on a whole trace; of longer ones one layer is run
ONE_LAYER = "0:1"
FAST = (("bert_tiny_fwd_b1_s128", False), ("bert_base_fwd_b1_s128", True))  # trace, and whether one layer of it

PATTERN, BANDWIDTH, ENERGY, HITS, BUSY = (
    "pattern_cycles",
    "bandwidth_cycles",
    "dram_energy_pj",
    "row_hits",
    "bus_cycles",
)
BOUND = 0.05  # of the error of `pattern`
WIDER_BOUNDS = {"tpu_v4i": 0.15}
"""By machine: two queues fetch tiles that wait for one slot each, and these bursts meet in the same banks, which a
measured stream without waits does not show."""
_WIDER = ", ".join(f"on {machine} {100 * bound:g} %" for machine, bound in WIDER_BOUNDS.items())


@dataclass(frozen=True)
class Work:
    """A Program for the DRAM by command, and what it was made from."""

    arch: Arch
    trace: Trace
    program: Program

    def by(self, model: str) -> Program:
        """The same tasks on another model of the same DRAM: compiled anew they might be tiled in another way."""
        memory = self.program.memory
        if model == "bandwidth":
            return replace(self.program, memory=replace(memory, model=model, system=None))
        return replace(self.program, memory=memory.by_pattern)

    def measured(self, program: Program) -> dict[str, Any]:
        """The Result of a run, as data; every law of the simulator is checked."""
        return dict(measure(program, run(program), self.arch, self.trace, {}).data)


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """Traces on the machines that can run them, by the three models."""
    traces = FAST if fast else [(name, False) for name in list_traces()]
    machines = [arch for arch in map(load_arch, list_archs()) if arch.dram.by_command]
    for name, one_layer in traces:
        trace = load_trace(name)
        for arch in machines:
            if trace.run["precision"] in arch.array.rate:
                work = _work(arch, trace, one_layer)
                progress(f"pattern: {work.trace.name} on {arch.name}")
                yield from _rows_of(work)


def _work(arch: Arch, trace: Trace, one_layer: bool) -> Work:
    """A whole trace, or a layer of it where that is asked for or the whole takes long."""
    if not one_layer:
        program = compile_program(arch, trace)
        if expected_seconds(program) <= LONGEST_SECONDS:
            return Work(arch, trace, program)
    layer = slice_layers(trace, *parse_layers(ONE_LAYER))
    return Work(arch, layer, compile_program(arch, layer))


def _rows_of(work: Work) -> Iterator[Row]:
    name, case = work.arch.name, work.trace.name
    models, counters = _models(name), _counters(name)
    command, pattern = work.measured(work.program), work.measured(work.by("pattern"))
    cycles = command["total"]["cycles"]
    yield Row(models, case, PATTERN, cycles, pattern["total"]["cycles"], WIDER_BOUNDS.get(name, BOUND))
    yield Row(_bandwidth(name), case, BANDWIDTH, cycles, run(work.by("bandwidth")).total, None)
    yield Row(counters, case, ENERGY, _dram_energy(command), _dram_energy(pattern), None)
    commands = command["dram"]["commands"]
    yield Row(counters, case, HITS, commands["RD"] + commands["WR"], command["dram"]["row_hits"], None)
    rate = work.program.memory.load_bytes_per_cycle
    if rate is not None:
        yield Row(counters, case, BUSY, cycles, float(command["dram"]["bus_bytes"] / rate), None)


def _dram_energy(data: dict[str, Any]) -> float:
    return float(sum(pj for component, pj in data["energy_pj"].items() if component.endswith("dram")))


def _models(machine: str) -> ReferenceSet:
    return ReferenceSet(f"command on {machine}: pattern", machine, "the same tasks on the same DRAM")


def _bandwidth(machine: str) -> ReferenceSet:
    assumption = "the same tasks: bytes over the bandwidth of the DRAM and the way to it, and a latency"
    return ReferenceSet(f"command on {machine}: bandwidth", machine, assumption)


def _counters(machine: str) -> ReferenceSet:
    assumption = (
        "energy: command against pattern; of command alone: all transactions against row hits, and all cycles against "
        "those that the bytes on the bus need"
    )
    return ReferenceSet(f"command on {machine}: counters", machine, assumption)


def table(rows: Sequence[Row]) -> str:
    """A line a machine: errors of both models, and what the DRAM did."""
    errors = ("pattern: median", "90 %", "worst", "at", "bandwidth: median", "worst")
    header = ("machine", "cases", *errors, "row hits", "bus in use", "DRAM energy by pattern")
    machines = dict.fromkeys(row.reference_set.series for row in rows)
    return markdown_table(header, "lrrrrlrrrrr", [_line(name, rows) for name in machines])


def _line(machine: str, rows: Sequence[Row]) -> tuple[str, ...]:
    own = [row for row in rows if row.reference_set.series == machine]
    errors = {name: [row.error for row in own if row.quantity == name] for name in (PATTERN, BANDWIDTH)}
    worst = max((row for row in own if row.quantity == PATTERN), key=lambda row: abs(row.error))
    pattern, bandwidth = errors[PATTERN], errors[BANDWIDTH]
    shares = (f"{_range([1 + row.error for row in own if row.quantity == name])}" for name in (HITS, BUSY, ENERGY))
    return (
        machine, str(len(pattern)), _quantile(pattern, 0.5), _quantile(pattern, 0.9), error_text(worst.error),
        worst.case, _quantile(bandwidth, 0.5), error_text(max(bandwidth, key=abs)), *shares,
    )  # fmt: skip


def _quantile(errors: Sequence[float], share: float) -> str:
    return error_text(float(np.quantile(np.abs(errors), share, method="inverted_cdf")))


def _range(shares: Sequence[float]) -> str:
    return f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %"


def draw(drawing: Figure, rows: Sequence[Row]) -> None:
    """A strip a machine, a dot a trace."""
    strips: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row.quantity in (PATTERN, BANDWIDTH):
            kind = row.quantity.removesuffix("_cycles")
            strips.setdefault(row.reference_set.series, {}).setdefault(kind, []).append(100 * row.error)
    draw_strips(drawing, {"cycles of a run, a dot a trace": strips}, "error against command (%)")


COMPARES = f"""\
Total cycles of a run whose DRAM is modelled by `pattern` and by `bandwidth`, against the same tasks with every DRAM
command. The reference is our own controller (see dram): this page is what the faster models cost in accuracy. Every
shipped trace runs on every shipped machine that takes its precision and has a DRAM; `[{ONE_LAYER}]` marks one layer,
where the whole would take more than {LONGEST_SECONDS:g} s. `pattern` may be off by {100 * BOUND:g} %
({_WIDER}); `bandwidth` is reported.
"""
DIFFERENCES = """\
`pattern` runs the first 8,192 transactions of what each operator loads and stores by command, back to back, and
charges every transaction of the operator their average. It is mostly a little short. It is one server that ends one
request before the next begins, so a tile needed first is there first; by command the DMA queues share the channels and
their tiles come late together. Operators that overlap (the next one's weights are fetched early) are timed apart and do
not close each other's rows. A datum waits in the controller's queues, where `pattern` has a fixed latency. And refresh
is a factor, not an interruption. Writes among an operator's reads are in its stream.

What was learned on the way: with streams of requests of one shape side by side, which share DRAM rows, this model was
23 % short for bf16 weights on tpu_v4i, because an operator walks down k, from one row of a bank to the next. And where
two queues begin in step it was 65 % long for BERT-Large there: tiles 128 KiB apart want other rows of the same banks,
which ends as soon as the queues are out of step, as they soon are in a run.

`bandwidth` knows no row conflict, no refresh and no turn of the bus: it is right where the array is the limit, and up
to half the time short where the DRAM is. Energy differs because `pattern` charges an average for each useful byte,
`command` all bytes on the bus, and each activate, burst and refresh where the device has currents.
"""

PART = Part(
    name="pattern",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out="all but one small trace and one layer of BERT-Base",
    rows=rows,
    draw=draw,
    table=table,
)
