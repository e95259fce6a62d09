"""Every task's times as a Chrome trace, to be opened in Perfetto or chrome://tracing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, NamedTuple

from accelsim.compile.program import TASK_KINDS, Program
from accelsim.engine.timeline import Timeline
from accelsim.files import whole_file
from accelsim.trace.model import Op, Trace

PROCESS = 1  # all tracks belong to one process
_CHUNK = 10_000  # tasks turned into text at a time, so that memory does not grow with the Program

Event = dict[str, Any]


def write_timeline(path: str | Path, program: Program, timeline: Timeline, trace: Trace, clock_mhz: float) -> None:
    """Write one track a unit and one slice a task: named by operator and tile, from its start to its released.

    Times are microseconds of the core's clock; `args` has the exact cycles: start, released, done, and for a memory
    request also served. Compressed when `path` ends in `.gz`, the same bytes for the same run. Raises InputError when
    the file cannot be written; a file of that name is then left as it was.
    """
    with whole_file(path) as file, _text(file, compress=str(path).endswith(".gz")) as out:
        out.write(b'{"displayTimeUnit":"ns","otherData":')
        out.write(_json(_about(program, timeline, trace, clock_mhz)))
        out.write(b',"traceEvents":[\n')
        out.write(b",\n".join(_json(event) for event in _tracks(program)))
        for events in _slices(program, timeline, trace, clock_mhz):
            if events:
                out.write(b",\n" + _json(events)[1:-1])
        out.write(b"\n]}\n")


@contextmanager
def _text(file: IO[bytes], *, compress: bool) -> Iterator[IO[bytes] | gzip.GzipFile]:
    if not compress:
        yield file
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        yield packed


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _about(program: Program, timeline: Timeline, trace: Trace, clock_mhz: float) -> dict[str, Any]:
    return {"trace": trace.name, "clock_mhz": clock_mhz, "total_cycles": timeline.total, "tasks": program.size}


def _tracks(program: Program) -> Iterator[Event]:
    """Names and order of the tracks: as the units stand in the Program."""
    yield {"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": "accelsim"}}
    for index, unit in enumerate(program.units):
        track = {"ph": "M", "pid": PROCESS, "tid": index + 1}
        yield {**track, "name": "thread_name", "args": {"name": unit.name}}
        yield {**track, "name": "thread_sort_index", "args": {"sort_index": index}}


def _slices(program: Program, timeline: Timeline, trace: Trace, clock_mhz: float) -> Iterator[list[Event]]:
    """The tasks' events, chunk by chunk, in id order; a task that takes no time is left out."""
    cycle_us = float(1 / Fraction(str(clock_mhz)))
    columns = (
        program.unit, program.op, program.kind, program.macs, program.request_bytes, program.tile,
        timeline.start, timeline.released, timeline.done, timeline.served,
    )  # fmt: skip
    for first in range(0, program.size, _CHUNK):
        rows = zip(*(column[first : first + _CHUNK].tolist() for column in columns), strict=True)
        tasks = (_Task(first + offset, *row) for offset, row in enumerate(rows))
        yield [_slice(task, trace.ops[task.op], cycle_us) for task in tasks if task.released > task.start]


class _Task(NamedTuple):
    id: int
    unit: int
    op: int
    kind: int
    macs: int
    bytes: int
    tile: list[int]
    start: int
    released: int
    done: int
    served: int


def _slice(task: _Task, op: Op, cycle_us: float) -> Event:
    args: dict[str, Any] = {"task": task.id, "operator": op.id, "kind": op.kind, "layer": op.layer, "phase": op.phase}
    args |= {"start": task.start, "released": task.released, "done": task.done}
    if task.macs:
        args["macs"] = task.macs
    if task.served >= 0:
        args |= {"served": task.served, "bytes": task.bytes}
    return {
        "ph": "X",
        "pid": PROCESS,
        "tid": task.unit + 1,
        "name": f"{op.name}{_tile(task.tile)}",
        "cat": TASK_KINDS[task.kind],
        "ts": round(task.start * cycle_us, 6),
        "dur": round((task.released - task.start) * cycle_us, 6),
        "args": args,
    }


def _tile(index: list[int]) -> str:
    """` [m 1, n 2, k 0]`: the tile's indices that are used."""
    used = [f"{name} {i}" for name, i in zip(("batch", "m", "n", "k"), index, strict=True) if i >= 0]
    return f" [{', '.join(used)}]" if used else ""
