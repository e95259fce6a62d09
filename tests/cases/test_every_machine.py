"""Every shipped trace on every shipped machine: both engines agree, and each run obeys the laws or is refused."""

from __future__ import annotations

from functools import cache

import pytest

import accelsim
from accelsim.arch import list_archs
from accelsim.compile import compile_program
from accelsim.engine.random_programs import compare
from accelsim.errors import InputError
from accelsim.trace.find import list_traces
from accelsim.trace.model import Trace
from accelsim.trace.slice import slice_layers
from tests.cases.machines import BASE, TINY

# Machines without bfloat16 arithmetic; all else runs everywhere.
INTEGER_ONLY = {"gemmini_16", "gemmini_16_norm", "tpu_v1"}


@cache
def work(name: str) -> Trace:
    return accelsim.load_trace(name)


def multiplied_weight_bytes(trace: Trace) -> int:
    """Bytes of all weights that a matmul reads: each has to come from DRAM at least once."""
    read = {operand.tensor for op in trace.ops if op.kind == "matmul" for operand in op.inputs}
    return sum(trace.tensors[tensor].bytes for tensor in read if trace.tensors[tensor].role == "weight")


@pytest.mark.parametrize("machine", list_archs())
@pytest.mark.parametrize("fusion", ["none", "elementwise"])
@pytest.mark.parametrize("trace", [TINY, f"{BASE}[0:1]"])
@pytest.mark.parametrize("model", ["command", "pattern", "bandwidth"])
def test_both_engines_give_every_task_the_same_times(machine: str, fusion: str, trace: str, model: str) -> None:
    name, _, layers = trace.partition("[")
    chosen = slice_layers(work(name), 0, 1) if layers else work(name)
    program = compile_program(accelsim.load_arch(machine, {"dram.model": model}), chosen, fusion=fusion)
    comparison = compare(program, f"{trace} on {machine}")
    assert comparison.difference is None
    assert comparison.tasks > 100
    assert comparison.total_cycles > 0


@pytest.mark.parametrize("machine", list_archs())
@pytest.mark.parametrize("trace", list_traces())
def test_every_trace_runs_on_every_machine_and_obeys_the_laws(trace: str, machine: str) -> None:
    """`simulate` checks the laws itself; what is checked here are the ends that meet outside it.

    DRAM by pattern: the largest have 10^8 transactions.
    """
    arch = accelsim.load_arch(machine, {} if machine == "scalesim_like" else {"dram.model": "pattern"})
    if trace.endswith("_bf16") and machine in INTEGER_ONLY:
        with pytest.raises(InputError, match=r"\.yaml:\d+: operator \d+ .* multiplies bf16 by bf16"):
            accelsim.simulate(arch, work(trace))
        return
    result = accelsim.simulate(arch, work(trace))
    assert result.macs == work(trace).macs == sum(row["macs"] for row in result.operators)
    assert len(result.operators) == len(work(trace).ops)
    assert result.cycles >= max(result.bounds.values()) > 0
    assert 0 < result.utilization <= 1
    assert result.to_dict()["dram"]["read_bytes"] >= multiplied_weight_bytes(work(trace))


@pytest.mark.parametrize("machine", list_archs())
@pytest.mark.parametrize("residency", [True, False])
def test_no_fusion_and_no_residency_obey_the_laws_too(machine: str, residency: bool) -> None:
    fused, plain = (
        accelsim.simulate(machine, work(TINY), fusion=fusion, residency=residency) for fusion in ("elementwise", "none")
    )
    assert fused.macs == plain.macs
    assert fused.dram_bytes <= plain.dram_bytes
