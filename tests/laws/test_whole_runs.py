"""Laws of whole runs over drawn machines and traces, with every memory model."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings

import accelsim
from accelsim.api import Result
from accelsim.arch.spec import Arch
from accelsim.engine.random_programs import first_difference
from accelsim.errors import InputError
from accelsim.trace.format import validated
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace
from tests.laws.drawn import MODELS, machine, seeds, work

MOST_TASKS = 1_500


def simulated(arch: Arch, trace: Trace, **how: Any) -> Result:
    """A run with all its laws checked; a trace that the machine refuses is dropped."""
    try:
        result = accelsim.simulate(arch, trace, **how)
    except InputError:
        assume(False)
        raise
    assume(result.data["program"]["tasks"] <= MOST_TASKS)
    return result


def drawn_how(choose: random.Random) -> dict[str, Any]:
    return {"fusion": choose.choice(("none", "elementwise")), "residency": choose.random() < 0.7}


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=50)
@given(seed=seeds)
def test_every_law_holds_and_the_engines_agree_on_every_task(model: str, seed: int) -> None:
    choose = random.Random(seed)
    arch, trace, how = machine(choose, {"dram.model": model}), work(choose), drawn_how(choose)
    fast = simulated(arch, trace, **how)
    slow = simulated(arch, trace, engine="reference", **how)
    assert fast.timeline is not None
    assert slow.timeline is not None
    assert first_difference(fast.timeline, slow.timeline) is None
    assert fast.to_json() == slow.to_json().replace('"engine": "reference"', '"engine": "compiled"')
    assert fast.to_json() == simulated(arch, trace, **how).to_json()


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=50)
@given(seed=seeds)
def test_traffic_is_never_below_what_has_to_move(model: str, seed: int) -> None:
    choose = random.Random(seed)
    arch, trace = machine(choose, {"dram.model": model, "second_level": "none"}), work(choose)
    dram = simulated(arch, trace, **drawn_how(choose)).to_dict()["dram"]
    assert dram["read_bytes"] >= sum(least_read_bytes(trace).values())
    assert dram["write_bytes"] >= least_written_bytes(trace)


def least_read_bytes(trace: Trace) -> dict[int, int]:
    """For each tensor that starts in DRAM the bytes of its largest view that an operator reads whole."""
    least: dict[int, int] = {}
    for op in trace.ops:
        for position, operand in enumerate(op.inputs):
            tensor = trace.tensors[operand.tensor]
            existed = trace.writers[tensor.id] is None and tensor.initial == "dram"
            if existed and not (op.kind == "gather" and position == 0):
                size = distinct_elements(operand) * DTYPE_BYTES[tensor.dtype]
                least[tensor.id] = max(least.get(tensor.id, 0), size)
    return least


def distinct_elements(operand: Operand) -> int:
    """Elements of a view, those that broadcast counted once."""
    result = 1
    for size, stride in zip(operand.shape, operand.strides, strict=True):
        result *= size if stride else 1
    return result


def least_written_bytes(trace: Trace) -> int:
    """Bytes of what has to be in DRAM in the end: first outputs that nobody reads, and what asks for it."""
    overwritten = {(tensor.storage, tensor.version - 1) for tensor in trace.tensors if tensor.version}
    first = {op.outputs[0].tensor for op in trace.ops}
    return sum(
        tensor.bytes
        for tensor in trace.tensors
        if trace.writers[tensor.id] is not None
        and (tensor.storage, tensor.version) not in overwritten
        and (tensor.final == "dram" or (tensor.final is None and not trace.readers[tensor.id] and tensor.id in first))
    )


@settings(max_examples=40)
@given(seed=seeds)
def test_cycles_follow_from_bytes_a_cycle_and_not_from_the_clock(seed: int) -> None:
    runs = []
    for factor in (1, 4):
        choose = random.Random(seed)
        trace = work(choose)
        clock, bandwidth, latency = (choose.choice(values) for values in ((250, 500), (1, 8, 64), (0, 20, 100)))
        fixed = {
            "dram.model": "bandwidth", "second_level": "none", "clock_mhz": clock * factor,
            "dram.bandwidth_gbps": bandwidth * factor, "dram.latency_ns": latency / factor,
        }  # fmt: skip
        runs.append(simulated(machine(choose, fixed), trace))
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].seconds == pytest.approx(4 * runs[1].seconds)


UNUSED: Mapping[str, Mapping[str, Any]] = {  # keys that a memory model does not use
    "ideal": {"dram.bandwidth_gbps": 3, "dram.latency_ns": 7, "dma.outstanding": 3, "dram.channels": 3},
    "bandwidth": {"dma.outstanding": 3, "dram.mapping": "MOP4CLXOR"},
}


@pytest.mark.parametrize("model", sorted(UNUSED))
@settings(max_examples=30)
@given(seed=seeds)
def test_a_key_that_the_memory_model_does_not_use_changes_no_cycle(model: str, seed: int) -> None:
    cycles = []
    for unused in ({}, UNUSED[model]):
        choose = random.Random(seed)
        trace = work(choose)
        cycles.append(simulated(machine(choose, {"dram.model": model, **unused}), trace).cycles)
    assert cycles[0] == cycles[1]


@settings(max_examples=30)
@given(seed=seeds)
def test_names_change_no_task(seed: int) -> None:
    choose = random.Random(seed)
    arch, trace = machine(choose, {"dram.model": "bandwidth"}), work(choose)
    tensors = tuple(replace(tensor, name=f"other {tensor.id}") for tensor in trace.tensors)
    ops = tuple(replace(op, name=f"renamed {op.id}", module="elsewhere") for op in trace.ops)
    named, renamed = simulated(arch, trace), simulated(arch, validated(replace(trace, tensors=tensors, ops=ops)))
    assert named.timeline is not None
    assert renamed.timeline is not None
    assert named.timeline.equals(renamed.timeline)
