"""The Python interface: wires the rooms together. Everything the command line does, scripts do with these functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import __version__
from accelsim.arch import load_arch
from accelsim.arch.spec import Arch
from accelsim.compile import MappingEntry, compile_program, read_mapping
from accelsim.compile.program import Program
from accelsim.compile.score import REFINED, Judge, Score, check_objective, check_refine
from accelsim.engine import run
from accelsim.engine.timeline import Timeline
from accelsim.errors import InputError
from accelsim.measure.nominal import energy_alone, nominal_prices
from accelsim.measure.result import Result as MeasuredResult
from accelsim.measure.result import measure
from accelsim.trace.builder import gemm_trace
from accelsim.trace.find import find_trace
from accelsim.trace.format import read_trace
from accelsim.trace.model import Trace
from accelsim.trace.slice import parse_layers, slice_layers

if TYPE_CHECKING:
    from accelsim.report.compare import Comparison

__all__ = ["Result", "compare", "gemm", "load_arch", "load_trace", "simulate"]

Progress = Callable[[str, int, int], None]  # what, pieces done, of how many (0: nobody knows)
_JUDGED_BY_COMMAND = 4 * 2**20  # bytes of requests whose commands take some hundredths of a second


@dataclass(frozen=True, repr=False)
class Result(MeasuredResult):
    """One run's numbers, together with the Program and the Timeline they were measured on."""

    program: Program | None = field(default=None, compare=False)
    timeline: Timeline | None = field(default=None, compare=False)
    trace: Trace | None = field(default=None, compare=False)
    clock_mhz: float = field(default=0.0, compare=False)

    def write_timeline(self, path: str | Path) -> None:
        """Write every task's times as a Chrome trace for Perfetto (`.gz` compresses).

        Raises InputError when the path cannot be written, or the Result came from a file and has no timeline.
        """
        if self.program is None or self.timeline is None or self.trace is None:
            raise InputError("this Result has no timeline", where="timeline", remedy="simulate again")
        from accelsim.report.timeline import write_timeline

        write_timeline(path, self.program, self.timeline, self.trace, self.clock_mhz)


def load_trace(path_or_name: str | Path) -> Trace:
    """Read and validate a trace: a file, or the name of a shipped one (with or without `.jsonl.gz`).

    A path that exists wins over a shipped name. Raises InputError for an unknown name or a damaged file.
    """
    return read_trace(find_trace(path_or_name))


def simulate(
    arch: Arch | str | Path,
    trace: Trace | str | Path,
    *,
    fusion: str = "elementwise",
    rules: Mapping[str, str] | None = None,
    residency: bool | str = True,
    mapping: str | Path | Mapping[int, MappingEntry] | None = None,
    layers: str | None = None,
    engine: str = "compiled",
    optimize: str = "time",
    refine: int = REFINED,
    progress: Progress | None = None,
) -> Result:
    """Simulate a trace on a machine: compile, run, measure and check every law.

    fusion: "none", "elementwise", "attention" or "all"; rules: modes of single rules, as {"attention": "online"}.
    residency: keep tensors on chip between operators where they fit. mapping: a mapping file, or its entries, with
    tiles of your own. layers: "first:last", half-open. engine: "compiled" or "reference", the same answer. optimize:
    what choices make small, "time", "energy" or "edp" (their product). refine: candidates of each distinct matmul that
    the mapper simulates at most, 0 for none.

    Raises InputError for input that cannot be run, InternalError where a law of the simulator is broken.
    """
    machine = arch if isinstance(arch, Arch) else load_arch(arch)
    work = trace if isinstance(trace, Trace) else load_trace(trace)
    if layers is not None:
        work = slice_layers(work, *parse_layers(_text("layers", layers, "write first:last, as in '0:2'")))
    keep = _switch("residency", residency)
    judge = judge_of(machine, work, optimize, refine)  # a wrong energy override is told before anything runs
    tell = progress or _silent
    program = compile_trace(
        machine, work, fusion=fusion, rules=rules, residency=keep, mapping=mapping, judge=judge, progress=progress
    )
    tell(f"running {program.size:,} tasks", 0, 0)
    timeline = run(program, engine, lambda message: tell(message, 0, 0), name=work.name)
    tell("measuring", 0, 0)
    arguments = {
        "fusion": fusion,
        "rules": dict(rules or {}),
        "residency": keep,
        "mapping": mapping is not None,
        "layers": layers,
        "optimize": judge.objective,
        "refine": judge.refine,
    }
    measured = measure(program, timeline, machine, work, _provenance(machine, work, engine, arguments))
    return Result(measured.data, program, timeline, work, machine.clock_mhz)


def compile_trace(
    arch: Arch,
    trace: Trace,
    *,
    mapping: str | Path | Mapping[int, MappingEntry] | None = None,
    judge: Judge | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Program:
    """The Program that `simulate` runs, with the same options. judge: `judge_of` the two, unless given."""
    entries = read_mapping(mapping) if isinstance(mapping, str | Path) else _entries(mapping)
    judge = judge or judge_of(arch, trace)
    return compile_program(arch, trace, mapping=entries, judge=judge, progress=progress, **options)


def judge_of(arch: Arch, trace: Trace, optimize: str = "time", refine: int = REFINED) -> Judge:
    """What judges the compiler's choices for this machine and trace: its prices, and the compiled engine, with service
    times in place of every DRAM command where those are many.

    Raises InputError for an unknown objective, a number of candidates out of range, or a wrong energy override.
    """
    prices = nominal_prices(arch)
    if check_objective(optimize) == "time":  # ties of time are broken by what does not follow from the clock
        prices = replace(prices, static=0.0)

    def score(program: Program) -> Score:
        cycles = run(_by_pattern(program), name=trace.name).total
        return Score(cycles, energy_alone(program, cycles, prices, trace))

    return Judge(optimize, prices, score, check_refine(refine))


def _by_pattern(program: Program) -> Program:
    memory = program.memory
    if memory.model != "command" or int(program.request_bytes[program.is_memory].sum()) <= _JUDGED_BY_COMMAND:
        return program
    return replace(program, memory=memory.by_pattern)


def gemm(
    arch: Arch | str | Path,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    dtype: str = "int8",
    out_dtype: str | None = None,
    resident: Collection[str] = (),
    **options: Any,
) -> Result:
    """Simulate `batch` matmuls [m, k] x [k, n].

    The output has the operands' dtype unless `out_dtype` is given; `resident` names operands ("a", "b") that start on
    chip. Sizes may be NumPy integers. options: those of `simulate`. Raises InputError for a size below 1 or an unknown
    dtype.
    """
    work = gemm_trace(_whole(m), _whole(n), _whole(k), _whole(batch), dtype, out_dtype, resident)
    return simulate(arch, work, **options)


def compare(
    results: Sequence[MeasuredResult | Mapping[str, Any] | str | Path], names: Sequence[str] | None = None
) -> Comparison:
    """Results side by side, the first as the baseline: Results, what `to_dict` gave, or files that `--json` wrote.

    names: what they are called; without them a file is called by its name, any other by its machine. The comparison's
    `to_dict()` is plain data, `text()` and `show()` are for reading. Raises InputError for fewer than two results, for
    another number of names, and for what is no Result.
    """
    from accelsim.report.compare import compare as compared

    given = _listed("results", results)
    found = [_result(each, f"results[{position}]") for position, each in enumerate(given)]
    if names is None:
        names = [_called(each, result) for each, result in zip(given, found, strict=True)]
    else:
        names = [_text(f"names[{position}]", name) for position, name in enumerate(_listed("names", names))]
    return compared(names, found)


def _result(given: object, where: str) -> MeasuredResult:
    if isinstance(given, MeasuredResult):
        return given
    if isinstance(given, str | Path):
        return MeasuredResult.from_file(given)
    if isinstance(given, Mapping):
        return MeasuredResult.from_dict(given, where=where)
    raise InputError("not a Result", where=where, value=given, remedy="give what simulate returned, or a file of it")


def _called(given: object, result: MeasuredResult) -> str:
    return Path(given).name if isinstance(given, str | Path) else str(result.data["provenance"]["arch"]["name"])


def _whole(size: int) -> int:
    """A NumPy integer as Python's; anything that is no integer stays as it is, for `gemm_trace` to refuse."""
    return index(size) if hasattr(size, "__index__") and not isinstance(size, bool) else size


def _switch(name: str, value: object) -> bool:
    """A switch as a bool, or as the command line's words. Raises InputError for anything else."""
    found = {"on": True, "off": False}.get(value) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise InputError("not a switch", where=name, value=value, remedy="use True, False, 'on' or 'off'")
    return found


def _text(name: str, value: object, remedy: str | None = None) -> str:
    if not isinstance(value, str):
        raise InputError("not a text", where=name, value=value, remedy=remedy)
    return value


def _listed(name: str, value: object) -> list[Any]:
    """What is several of something, as a list; one text or one mapping is not."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise InputError("not a list", where=name, value=value, remedy="give several in a list, as in [first, second]")
    return list(value)


def _entries(mapping: object) -> Mapping[int, MappingEntry] | None:
    if mapping is None:
        return None
    if isinstance(mapping, Mapping) and all(isinstance(entry, MappingEntry) for entry in mapping.values()):
        return mapping
    raise InputError(
        "not a mapping", where="mapping", value=mapping, remedy="give a file, or what read_mapping returns"
    )


def _silent(message: str, done: int, of: int) -> None:
    """Nobody wants to know."""


def _provenance(arch: Arch, trace: Trace, engine: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What was run; nothing of the host, the clock or where results go, so that equal input gives equal bytes."""
    about = {"name": trace.name, "sha256": trace.sha256, "model": dict(trace.model), "run": dict(trace.run)}
    return {
        "version": __version__,
        "arguments": arguments,
        "arch": arch.to_dict(),
        "trace": about,
        "engine": engine,
        "seed": None,
    }
