"""Groups that recur are lowered once. The Program must be the one in which each is lowered afresh."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from accelsim.compile import compile_program
from accelsim.compile import lower as driver
from accelsim.compile.fuse import Group
from accelsim.compile.program import Program
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Trace
from tests.compile.machines import bert_tiny, chain, entry, shipped_arch, small


def assert_equal(one: Program, other: Program) -> None:
    for field in fields(Program):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert np.array_equal(a, b), field.name
        else:
            assert a == b, field.name


def lowered_count(monkeypatch: pytest.MonkeyPatch, arch: Any, trace: Trace, **how: Any) -> tuple[Program, int]:
    """The Program, and how many groups were lowered rather than stamped again."""
    lowered: list[int] = []
    for name in ("lower_matmul", "lower_vector"):
        original = getattr(driver, name)
        monkeypatch.setattr(driver, name, lambda *a, original=original: lowered.append(1) or original(*a))
    program = compile_program(arch, trace, **how)
    monkeypatch.undo()
    return program, len(lowered)


@pytest.mark.parametrize("machine", ["tpu_like", "tpu_v4i", "gemmini_16"])
@pytest.mark.parametrize("residency", [True, False])
def test_stamped_layers_equal_layers_lowered_afresh(
    machine: str, residency: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arch = shipped_arch(machine)
    stamped, few = lowered_count(monkeypatch, arch, bert_tiny(), residency=residency)
    monkeypatch.setattr(Group, "signature", lambda self, trace: self.head.id)
    afresh, many = lowered_count(monkeypatch, arch, bert_tiny(), residency=residency)
    assert few < many
    assert_equal(stamped, afresh)


def test_chain_of_equal_matmuls_on_several_queues_equals_itself_lowered_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    arch, trace = small(array__count=2, dma__load_queues=3, dma__store_queues=2), chain((8,) * 7, 8, bias=True)
    stamped, few = lowered_count(monkeypatch, arch, trace)
    monkeypatch.setattr(Group, "signature", lambda self, trace: self.head.id)
    afresh, many = lowered_count(monkeypatch, arch, trace)
    assert few < many == 6
    assert_equal(stamped, afresh)


def test_compiling_twice_gives_the_same_program() -> None:
    assert_equal(*(compile_program(shipped_arch(), bert_tiny()) for _ in range(2)))


def test_groups_that_differ_in_a_stride_do_not_share_a_template() -> None:
    b = TraceBuilder("strides")
    x = b.tensor("x", (8, 8), "int8", "input")
    w = [b.tensor(f"w{i}", (8, 8), "int8", "weight") for i in range(2)]
    out = [b.tensor(f"out{i}", (8, 8), "int8") for i in range(2)]
    b.op("matmul", [x, w[0]], [out[0]])
    b.op("matmul", [x, Operand(w[1].id, (8, 8), (1, 8))], [out[1]])
    mapping = entry((8, 4, 2)) | entry((8, 4, 2), operator=1)
    program = compile_program(small(accumulator__capacity_kib=0.25), b.build(), mapping=mapping)
    requests = [
        sorted(
            zip(*(getattr(program, n)[program.op == op].tolist() for n in ("rows", "row_bytes", "pitch")), strict=True)
        )
        for op in (0, 1)
    ]
    assert requests[0] != requests[1]
