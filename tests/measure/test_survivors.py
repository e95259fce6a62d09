"""Facts of the measures that no other test would miss: found by changing the code and seeing nothing fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

import accelsim
from accelsim.compile.program import Memory
from accelsim.engine import run
from accelsim.measure.measurement import take
from accelsim.measure.stalls import issue_parts
from tests.measure.programs import machine, matmul_trace, worked_example


def test_macs_that_are_computed_again_take_ideal_cycles_too() -> None:
    program, timeline = worked_example()
    operators = take(program, timeline, machine(), matmul_trace()).operators
    twice = replace(operators, placed_macs=tuple(2 * macs for macs in operators.macs))
    assert twice.recomputed_macs == operators.macs
    assert twice.placed_ideal_cycles == 2 * operators.placed_ideal_cycles > 0


@pytest.mark.parametrize("kib", [1024, 2048])
def test_leakage_of_the_second_level_goes_by_its_kibibytes(kib: int) -> None:
    settings = {
        "clock_mhz": 1000, "second_level.capacity_kib": kib, "energy.overrides": {"level2_leakage_mw_per_kib": 2},
    }  # fmt: skip
    result = accelsim.gemm(accelsim.load_arch("tpu_v4i", settings), 64, 64, 64)
    assert result.data["energy_pj"]["static_level2"] == pytest.approx(kib * 2 * result.cycles)


def test_a_request_that_starts_late_in_ideal_memory_is_issued_in_no_time() -> None:
    program, _ = worked_example()
    ideal = replace(program, memory=Memory("ideal", issue_cycles=4))
    timeline = run(ideal)
    assert timeline.start[ideal.is_memory].max() > 0
    assert not issue_parts(ideal, timeline).any()
