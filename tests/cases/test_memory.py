"""Capacity, bandwidth and its unit, batches, tensors that stay on chip (cases D06, D14, D16, D18, D19)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

import accelsim
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Trace
from tests.cases.machines import Capture, array, command

CAPACITIES_KIB = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def test_d06_more_scratchpad_never_costs_traffic_and_once_saves_some() -> None:
    runs = [
        accelsim.gemm(array(32, 32, scratchpad__capacity_kib=capacity, dram__bandwidth_gbps=8), 512, 512, 512)
        for capacity in CAPACITIES_KIB
    ]
    traffic = [run.dram_bytes for run in runs]
    cycles = [run.cycles for run in runs]
    assert traffic == sorted(traffic, reverse=True)
    assert cycles == sorted(cycles, reverse=True)
    assert traffic[0] > traffic[-1] == 3 * 512**2
    assert cycles[0] > cycles[-1]


def test_d06_where_capacity_changes_nothing_the_bounds_say_why() -> None:
    """At 2 and 4 MiB every tensor moves once, and the multipliers are the bound."""
    machines = [array(32, 32, scratchpad__capacity_kib=capacity, dram__bandwidth_gbps=8) for capacity in (2048, 4096)]
    first, second = (accelsim.gemm(machine, 512, 512, 512) for machine in machines)
    assert first.cycles == second.cycles
    for run in (first, second):
        assert max(run.bounds, key=run.bounds.__getitem__) in ("compute_cycles", "dependency_cycles")
        assert run.bounds["compute_cycles"] > run.bounds["dram_cycles"]
        assert run.operators[0]["bound_by"] == "core0.array0.stream"


@pytest.mark.parametrize(("clock_mhz", "bytes_per_cycle"), [(1000, 64), (500, 128), (2000, 32)])
def test_d14_gigabytes_are_powers_of_ten_and_become_bytes_a_cycle(clock_mhz: int, bytes_per_cycle: int) -> None:
    """A load of 2^20 bytes at 64 GB/s takes 2^20 / (64e9 / clock) cycles, whatever else there is."""
    machine = array(128, 128, clock_mhz=clock_mhz, dram__model="bandwidth", dram__bandwidth_gbps=64, dram__latency_ns=0)
    result = accelsim.gemm(machine, 1024, 1024, 1024)
    units = result.units
    transferred = units["core0.load0"]["busy"]["transfer"] + units["core0.store0"]["busy"]["transfer"]
    assert transferred == result.dram_bytes // bytes_per_cycle
    dram = result.to_dict()["dram"]
    assert dram["peak_bandwidth_gbps"] == 64
    assert 0 < dram["achieved_bandwidth_gbps"] <= 64


def test_d14_the_same_bytes_a_cycle_give_the_same_cycles() -> None:
    same = [(1000, 64), (500, 32), (2000, 128)]
    served = {"dram__model": "bandwidth", "dram__latency_ns": 0}
    machines = [array(128, 128, clock_mhz=clock, dram__bandwidth_gbps=rate, **served) for clock, rate in same]
    assert len({accelsim.gemm(machine, 300, 500, 700).cycles for machine in machines}) == 1


def test_d14_the_unit_of_a_key_is_shown_beside_it(capsys: Capture) -> None:
    shown = command(capsys, "show", "arch", "tpu_like")
    assert re.search(r"^dram\.bandwidth_gbps +256 +1e9 bytes/s", shown, re.M)
    assert re.search(r"^scratchpad\.capacity_kib +8192 +KiB", shown, re.M)
    assert array(8, 8, scratchpad__capacity_kib=3).scratchpad.capacity_bytes == 3 * 1024


# Linux hands ru_maxrss of the process that starts another one on to it, so its own peak is VmHWM.
ONE_LAYER = """
import json, re, resource, sys
from pathlib import Path
import accelsim
work = accelsim.load_trace(sys.argv[1])
machine = accelsim.load_arch("tpu_like", json.loads(sys.argv[2]))
result = accelsim.simulate(machine, work, layers="0:1")
status = Path("/proc/self/status")
if status.exists():
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
print(json.dumps({"macs": result.macs, "tasks": result.program.size, "peak_kib": peak}))
"""


def one_large_layer(sequence: int, capacity_kib: int) -> dict[str, Any]:
    """A BERT-Large layer on 32 x 32, alone in a process of its own: MACs, tasks and peak memory."""
    keys = {"array.rows": 32, "array.cols": 32, "scratchpad.capacity_kib": capacity_kib}
    arguments = [sys.executable, "-c", ONE_LAYER, f"bert_large_fwd_b1_s{sequence}", json.dumps(keys)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=240)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_d16_a_large_layer_needs_little_memory_however_long_the_sequence() -> None:
    pytest.importorskip("resource", reason="peak memory of a process is read on Unix only")
    long, short = (one_large_layer(sequence, 3 * 8192) for sequence in (512, 128))
    assert long["macs"] == 4 * 512 * 1024**2 + 2 * 512 * 512 * 1024 + 2 * 512 * 1024 * 4096
    assert long["peak_kib"] < 500_000
    assert long["peak_kib"] < 2 * short["peak_kib"]


def test_d16_a_larger_scratchpad_is_no_more_work_to_simulate() -> None:
    tasks = []
    for capacity_kib in (256, 8192):
        machine = array(32, 32, scratchpad__capacity_kib=capacity_kib)
        result = accelsim.simulate(machine, "bert_large_fwd_b1_s128", layers="0:1")
        assert result.program is not None
        tasks.append(result.program.size)
    assert tasks[1] <= 2 * tasks[0]


def fully_connected(batch: int) -> Trace:
    """`batch` sequences of 128 tokens through one 768 x 768 layer."""
    builder = TraceBuilder("fully_connected", run={"batch": batch, "seq": 128})
    x = builder.tensor("x", (batch, 128, 768), "int8", "input")
    weight = builder.tensor("w", (768, 768), "int8", "weight")
    builder.op("matmul", [x, weight], [builder.tensor("y", (batch, 128, 768), "int8")])
    return builder.build()


def test_d18_a_batch_reads_its_weights_once_and_fills_the_array_better() -> None:
    machine = array(128, 128, scratchpad__capacity_kib=1024 + 1024)
    one, eight = (accelsim.simulate(machine, fully_connected(batch)) for batch in (1, 8))
    for batch, run in ((1, one), (8, eight)):
        assert run.to_dict()["dram"]["read_bytes"] - batch * 128 * 768 == 589_824
        assert run.to_dict()["total"]["batch"] == batch
        assert run.to_dict()["total"]["cycles_per_inference"] == run.cycles / batch
    assert eight.cycles <= 8 * one.cycles
    assert eight.utilization >= one.utilization


def test_d18_the_report_gives_the_batch_and_the_cycles_of_one_inference(capsys: Capture) -> None:
    stdout = command(capsys, "simulate", "--trace", "bert_base_fwd_b8_s128", "--layers", "0:1")
    cycles = int(re.search(r"([\d,]+) cycles", stdout)[1].replace(",", ""))  # type: ignore[index]
    assert f"batch 8: {cycles / 8:,.0f} cycles per inference" in stdout


def two_layers() -> Trace:
    """Two matmuls, the second of which reads what the first writes: 128 x 768 int8, 98,304 bytes."""
    builder = TraceBuilder("two_layers")
    x = builder.tensor("x", (128, 768), "int8", "input")
    weights = [builder.tensor(f"w{i}", (768, 768), "int8", "weight") for i in range(2)]
    between, y = (builder.tensor(name, (128, 768), "int8") for name in ("between", "y"))
    builder.op("matmul", [x, weights[0]], [between], name="first")
    builder.op("matmul", [between, weights[1]], [y], name="second")
    return builder.build()


WEIGHTS, BETWEEN = 768 * 768, 128 * 768


@pytest.mark.parametrize(
    ("capacity_kib", "residency", "stays"),
    [(4096, True, True), (4096, False, False), (64, True, False), (64, False, False)],
)
def test_d19_a_tensor_between_two_layers_stays_on_chip_when_allowed_and_when_it_fits(
    capacity_kib: int, residency: bool, stays: bool
) -> None:
    machine = array(128, 128, scratchpad__capacity_kib=capacity_kib)
    result = accelsim.simulate(machine, two_layers(), residency=residency, optimize="energy")  # nothing moves twice
    first, second = result.operators
    assert first["dram_write_bytes"] == (0 if stays else BETWEEN)
    assert second["dram_read_bytes"] >= WEIGHTS + (0 if stays else BETWEEN)
    assert second["dram_read_bytes"] == WEIGHTS or not stays
    plans = result.to_dict()["program"]["tiles"]
    assert (plans[0]["places"]["out"], plans[1]["places"]["a"]) == (("scratchpad" if stays else "dram",) * 2)
    assert result.to_dict()["program"]["residency"] is residency


@pytest.mark.parametrize("residency", ["on", "off"])
def test_d19_the_report_says_whether_tensors_may_stay(capsys: Capture, residency: str) -> None:
    stdout = command(capsys, "simulate", "--trace", "bert_tiny_fwd_b1_s128", "--residency", residency)
    assert f"residency {residency}" in stdout


def test_d19_no_capacity_is_claimed_twice() -> None:
    """What lies in the scratchpad at one time never exceeds it, whatever the compiler keeps there."""
    for capacity_kib in (64, 256, 1024):
        machine = array(128, 128, scratchpad__capacity_kib=capacity_kib)
        program = accelsim.simulate(machine, two_layers()).program
        assert program is not None
        ends = [held.address + held.bytes for held in program.allocations if held.space == "scratchpad"]
        assert 0 < max(ends) <= capacity_kib * 1024
