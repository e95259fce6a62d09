"""Runs a case in this process under a time limit, and judges what came out."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from accelsim import gemm, load_arch
from accelsim.arch.spec import Arch
from accelsim.cli import run
from tests.fuzz.cases import Case

SECONDS = 20  # of this process's own time; of the clock on the wall, ten times as many
MOST_TASKS = 2_000  # of a Program that both engines run
_PLACES = "|".join(("gemm", "layers", "metric", *Arch.model_fields))


class TooSlow(BaseException):
    """The time limit of a case; no Exception, so that nothing but the harness catches it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case: "done", "refused" or "fault"; `said` is its kind of message, or what is wrong."""

    case: Case
    verdict: str
    said: str
    seconds: float
    compared: bool = False


def judge(case: Case, compare_engines: bool = False) -> Outcome:
    """Run a case in a folder of its own."""
    _warm_up()
    with tempfile.TemporaryDirectory(prefix="fuzz") as name, contextlib.chdir(name):
        for file, data in case.files.items():
            Path(file).write_bytes(data)
        begin = time.perf_counter()
        try:
            with _time_limit(SECONDS):
                code, stdout, stderr = _captured(case.arguments)
        except TooSlow:
            return Outcome(case, "fault", f"over {SECONDS} s", time.perf_counter() - begin)
        seconds = time.perf_counter() - begin
        faults = [*_faults(case, code, stdout, stderr), *_changed_files(case, code)]
        compared = not faults and code == 0 and compare_engines and "out.json" in case.outputs
        if compared:
            faults += _engines_differ(case)
    if faults:
        return Outcome(case, "fault", "; ".join(faults), seconds)
    return Outcome(case, "done" if code == 0 else "refused", "" if code == 0 else _kind(stderr), seconds, compared)


@cache
def _warm_up() -> None:
    """Compile the kernels, so that no case spends its time on that, or breaks it off half-way."""
    for model in ("ideal", "bandwidth", "pattern", "command"):
        gemm(load_arch("gemmini_16", {"dram.model": model}), 40, 40, 40)


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds))
    before = [signal.signal(number, stop) for _, number, _ in timers]
    try:
        for timer, _, limit in timers:
            signal.setitimer(timer, limit)
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _captured(arguments: tuple[str, ...]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line; a warning is an error."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", newline="") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]), warnings.catch_warnings():
        warnings.simplefilter("error")
        code = run(arguments)
    texts = []
    for stream in streams:
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        texts.append(stream.buffer.getvalue().decode())
    return code, texts[0], texts[1]


def _faults(case: Case, code: int, stdout: str, stderr: str) -> Iterator[str]:
    if code not in (0, 2):
        yield f"exit code {code}: {_last_lines(stderr)}"
    elif code == 0:
        yield from _result_faults(case)
    else:
        yield from _refusal_faults(case, stdout, stderr)


def _refusal_faults(case: Case, stdout: str, stderr: str) -> Iterator[str]:
    """One message on stderr that names a place, and nothing else."""
    if stdout:
        yield f"refused after it printed {stdout[:80]!r}"
    lines = stderr.splitlines()
    if stderr.startswith(("Usage: ", "Error: ")):
        if sum(line.startswith("Error: ") for line in lines) != 1:
            yield f"a usage error of several messages: {stderr!r}"
        return
    said = [line for line in lines if line.startswith("accelsim: ")]
    if len(said) != 1 or lines[-1:] != said:
        yield f"refused with other than one message: {stderr[-300:]!r}"
    elif not _names_a_place(case, said[0]):
        yield f"a message that names no place: {said[0]}"
    elif len(said[0]) > 1200 or not said[0].isprintable():
        yield f"a message too long or unprintable: {said[0]!r}"


def _names_a_place(case: Case, message: str) -> bool:
    """True if it names a file or a word of the command line, a key of the machine, or a record of the trace."""
    words = [word.partition("=")[0] for word in case.arguments[1:] if word]
    if any(word in message for word in (*case.files, *words)):
        return True
    return re.match(rf"accelsim: ([\w/.]+\.yaml:\d+|({_PLACES})(\.\w+)*|(tensor|operator) \d+): ", message) is not None


def _result_faults(case: Case) -> Iterator[str]:
    """What a Result must be, computed from its own numbers."""
    if "out.json" not in case.outputs:
        return
    result = json.loads(Path("out.json").read_text(encoding="utf-8"), parse_constant=_no_number)
    cycles = result["total"]["cycles"]
    for name, unit in result["units"].items():
        parts = [*unit["busy"].values(), *unit["stalls"].values(), unit["tail"], unit["idle"]]
        if sum(parts) != cycles or min(parts) < 0:
            yield f"cycles of {name} do not sum to the total"
    if sum(row["cycles"] for row in result["operators"]) != cycles:
        yield "cycles of the operators do not sum to the total"
    if not 0 <= result["total"]["utilization"] <= 1 or (result["total"]["utilization"] == 0) != (
        result["total"]["macs"] == 0
    ):
        yield f"utilization {result['total']['utilization']}"
    if any(bound > cycles for bound in result["bounds"].values()):
        yield f"total {cycles} below a bound {result['bounds']}"
    yield from (f"{path} is {value}" for path, value in _numbers(result, "") if value < 0)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} in a Result")


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if path.startswith(".arch") or path.startswith(".trace") or path.startswith(".provenance"):
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _numbers(inner, f"{path}.{key}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def _changed_files(case: Case, code: int) -> Iterator[str]:
    """A success leaves its outputs, a refusal nothing; nobody changes what was given."""
    expected = {*case.files, *(case.outputs if code == 0 else ())}
    if (there := set(os.listdir())) != expected:
        yield f"files {sorted(there)} instead of {sorted(expected)}"
    for name, data in case.files.items():
        if Path(name).read_bytes() != data:
            yield f"{name} was changed"


def _engines_differ(case: Case) -> Iterator[str]:
    """The case again on both engines, if its Program is small: the same Result and the same time of every task.

    What the first run wrote has to come out again too, byte for byte.
    """
    first = Path("out.json").read_bytes()
    if json.loads(first)["program"]["tasks"] > MOST_TASKS:
        return
    plain = tuple(word for word in case.arguments if word != "--timeline" and word not in case.outputs)
    written = {}
    for engine in ("compiled", "reference"):
        how = ("--engine", engine, "--timeline", "tasks.json", "--json", "again.json")
        code, _, stderr = _captured((*plain[:-1], *how))
        if code != 0:
            yield f"the {engine} engine gives {code}: {_last_lines(stderr)}"
            return
        written[engine] = (Path("again.json").read_bytes(), Path("tasks.json").read_bytes())
    if written["compiled"][0] != first:
        yield "the same run gives another Result"
    if written["reference"][0].replace(b'"reference"', b'"compiled"') != first:
        yield "the engines' Results differ"
    if written["reference"][1] != written["compiled"][1]:
        yield "the engines give a task different times"


def _kind(stderr: str) -> str:
    """A refusal without its names and numbers, so that equal mistakes count together."""
    said = next((line for line in stderr.splitlines() if line.startswith(("accelsim: ", "Error: "))), "")
    said = said.partition(": ")[2].partition("; ")[0]
    said = re.sub(r"^(\S+?:\d+|\S+\.(yaml|jsonl|csv|gz|json)|--set [^:]*): ", "", said)
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\(.*\)|[-+]?\d[\d.,e+]*", "_", said)[:70]


def _last_lines(stderr: str) -> str:
    return " | ".join(stderr.strip().splitlines()[-8:])[:1500]
