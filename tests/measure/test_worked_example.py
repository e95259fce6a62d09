"""The worked example of the design: every number of its accounting."""

from dataclasses import replace

import pytest

from accelsim.engine import run
from accelsim.measure.binding import binding_producers
from accelsim.measure.result import measure
from tests.measure.programs import machine, matmul_trace, provenance, worked_example


@pytest.fixture(scope="module")
def result():
    program, timeline = worked_example()
    return measure(program, timeline, machine(), matmul_trace(), provenance())


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_engines_give_the_times_of_the_example(engine):
    program, timeline = worked_example()
    assert run(program, engine).equals(timeline)


def test_binding_producer_is_the_latest_event():
    assert binding_producers(*worked_example()).tolist() == [-1, 0, 1, 0, 1, 2, 4, 6, 5, 8, 7]


def test_critical_path_by_unit(result):
    assert result.data["critical_path"]["by_unit"] == {
        "core0.load0": 868,
        "core0.array0.stream": 254,
        "core0.array0.drain": 257,
        "core0.store0": 1024,
    }


def test_stream_waits_for_the_exposed_weights(result):
    stream = result.units["core0.array0.stream"]
    assert stream == {"busy": {"useful": 512}, "stalls": {"dram_read": 868, "array": 128}, "tail": 254, "idle": 641}


def test_weights_wait_for_loads_only(result):
    weights = result.units["core0.array0.weights"]
    assert weights == {"busy": {"useful": 256}, "stalls": {"dram_read": 356 + 640}, "tail": 0, "idle": 1151}


def test_load_ends_with_its_latency_as_tail(result):
    assert result.units["core0.load0"] == {"busy": {"transfer": 1024}, "stalls": {}, "tail": 100, "idle": 1279}


def test_unused_unit_is_idle(result):
    assert result.units["core0.vector"] == {"busy": {}, "stalls": {}, "tail": 0, "idle": 2403}


def test_bounds(result):
    # dependency: load A 612, stream's first rows 254, drain 257 and store 512 of the first tile, one path; the second
    # tile's: load W1 356, weights1 (not before stream0 starts at 612) 128, stream1 254, drain1 257, store1 512.
    assert result.bounds == {
        "compute_cycles": 512,
        "dram_cycles": 2048,
        "vector_cycles": 0,
        "dependency_cycles": 612 + 128 + 254 + 257 + 512,
    }


def test_totals_and_the_operator_row(result):
    row = result.operators[0]
    assert (result.cycles, result.macs) == (2403, 256 * 128 * 256)
    assert result.utilization == pytest.approx(result.macs / (128 * 128 * 2403), rel=1e-15)
    assert (row["cycles"], row["span_cycles"], row["bound_by"]) == (2403, 2403, "core0.store0")
    assert (row["dram_read_bytes"], row["dram_write_bytes"]) == (2 * 128 * 128 + 256 * 128, 256 * 256)
    assert row["accumulator_writes"] == 256 * 256
    assert result.data["dram"]["achieved_bandwidth_gbps"] == pytest.approx(131072 / 2403)


def test_the_last_write_burst_after_the_last_done_is_dram_write():
    program, timeline = worked_example()
    result = measure(program, replace(timeline, total=2410), machine(), matmul_trace(), provenance())
    assert result.data["critical_path"]["by_unit"]["dram_write"] == 7
    assert (result.operators[0]["cycles"], result.units["core0.store0"]["idle"]) == (2410, 7)
