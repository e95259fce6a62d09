"""The Chrome trace: a track a unit, a slice a task, whole or not there."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from accelsim.compile.program import Program
from accelsim.engine.timeline import Timeline
from accelsim.errors import InputError
from accelsim.report import timeline as timeline_module
from accelsim.report.timeline import write_timeline
from tests.measure.programs import matmul_trace, worked_example

SCHEMA = json.loads(Path(__file__).with_name("timeline.schema.json").read_text(encoding="utf-8"))


def written(path: Path, clock_mhz: float = 1000.0, program: Program | None = None) -> dict[str, Any]:
    made, times = worked_example()
    write_timeline(path, program or made, times, matmul_trace(), clock_mhz)
    data = path.read_bytes()
    loaded: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return loaded


def slices(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in data["traceEvents"] if event["ph"] == "X"]


def test_file_obeys_the_schema(tmp_path: Path) -> None:
    data = written(tmp_path / "t.json")
    jsonschema.validate(data, SCHEMA)
    assert data["otherData"] == {"trace": "matmul", "clock_mhz": 1000.0, "total_cycles": 2403, "tasks": 11}


def test_every_unit_is_a_named_track_in_program_order(tmp_path: Path) -> None:
    program, _ = worked_example()
    events = written(tmp_path / "t.json")["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    order = {event["tid"]: event["args"]["sort_index"] for event in events if event["name"] == "thread_sort_index"}
    assert [names[track] for track in sorted(order, key=lambda tid: order[tid])] == [u.name for u in program.units]
    assert {event["tid"] for event in events if event["ph"] == "X"} <= set(names)


def test_slices_are_the_tasks_with_their_exact_cycles(tmp_path: Path) -> None:
    program, times = worked_example()
    found = slices(written(tmp_path / "t.json", clock_mhz=800))
    assert [event["args"]["task"] for event in found] == list(range(program.size))
    for event in found:
        task, args = event["args"]["task"], event["args"]
        assert (args["start"], args["released"], args["done"]) == tuple(
            int(column[task]) for column in (times.start, times.released, times.done)
        )
        assert event["ts"] == pytest.approx(args["start"] / 800)
        assert event["dur"] == pytest.approx((args["released"] - args["start"]) / 800)
        assert event["tid"] == program.unit[task] + 1
    load, stream = found[0], found[4]
    assert (load["cat"], load["args"]["bytes"], load["args"]["served"]) == ("load", 128 * 128, 0)
    assert (stream["cat"], stream["args"]["macs"]) == ("stream", 256 * 128 * 128)
    assert "served" not in stream["args"]


def test_slices_are_named_by_operator_and_tile(tmp_path: Path) -> None:
    program, _ = worked_example()
    tile = program.tile.copy()
    tile[4] = (-1, 0, 1, 2)
    names = [event["name"] for event in slices(written(tmp_path / "t.json", program=replace(program, tile=tile)))]
    assert names[4] == "matmul [m 0, n 1, k 2]"
    assert names[5] == "matmul"


def test_task_without_time_is_left_out(tmp_path: Path) -> None:
    program, times = worked_example()
    instant = replace(times, released=np.where(np.arange(program.size) == 3, times.start, times.released))
    write_timeline(tmp_path / "t.json", program, instant, matmul_trace(), 1000)
    found = slices(json.loads((tmp_path / "t.json").read_text()))
    assert [event["args"]["task"] for event in found] == [0, 1, 2, *range(4, 11)]


def test_gz_holds_the_same_and_is_the_same_every_time(tmp_path: Path) -> None:
    assert written(tmp_path / "a.json.gz") == written(tmp_path / "a.json")
    written(tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes()[4:8] == bytes(4)  # no clock time
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_chunks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = written(tmp_path / "a.json")
    monkeypatch.setattr(timeline_module, "_CHUNK", 4)
    assert written(tmp_path / "b.json") == whole


def test_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    program, times = worked_example()
    with pytest.raises(IndexError):
        write_timeline(path, replace(program, op=program.op + 1), times, matmul_trace(), 1000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unwritable_path_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        written(tmp_path / "no_such_folder" / "t.json")


def test_memory_does_not_grow_with_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "_CHUNK", 500)

    def peak(copies: int) -> int:
        program, times = repeated(copies)
        tracemalloc.start()
        write_timeline(tmp_path / "t.json", program, times, matmul_trace(), 1000)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(400) < 1.3 * peak(100)


def repeated(copies: int) -> tuple[Program, Timeline]:
    """The worked example's tasks `copies` times over: only what the timeline reads is meant."""
    program, times = worked_example()
    columns = ("unit", "op", "kind", "macs", "tile", "rows", "row_bytes")
    tasks = {name: np.concatenate([getattr(program, name)] * copies) for name in columns}
    marks = {name: np.concatenate([getattr(times, name)] * copies) for name in ("start", "released", "done", "served")}
    return replace(program, **tasks), replace(times, **marks)
