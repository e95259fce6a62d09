"""Cycles of one matmul between what is possible and what is sensible (cases D03, D04, D08-D11)."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

import accelsim
from accelsim.api import Result
from tests.cases.machines import DATAFLOWS, IDEAL, Capture, array, ceiling, command, gemm_on_ideal


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize(("size", "least", "most"), [(4, 16, 32), (2, 4, 8)])
def test_d03_no_array_beats_its_own_multipliers(dataflow: str, size: int, least: int, most: int) -> None:
    """Not more than serial, fully drained folds of 2 x 2 either."""
    assert least <= gemm_on_ideal(2, 2, dataflow, size, size, size).cycles <= most


def test_d03_two_cubed_on_two_by_two_is_at_most_six_when_outputs_stay() -> None:
    assert 4 <= gemm_on_ideal(2, 2, "os", 2, 2, 2).cycles <= 6


def test_d03_the_report_names_the_array_that_was_used(capsys: Capture) -> None:
    stdout = command(capsys, "gemm", "4", "4", "4", "--set", "array.rows=2", "--set", "array.cols=3")
    assert re.search(r"\b2\s?[x×]\s?3\b", stdout.splitlines()[0]), stdout


def test_d04_an_isolated_output_stationary_fold_is_charged_its_drain() -> None:
    """8 x 8, K = 16: the last MAC after K + R + C - 2 = 30 cycles, the last result R = 8 cycles later."""
    result = gemm_on_ideal(8, 8, "os", 8, 8, 16)
    stream, drain = result.units["core0.array0.stream"], result.units["core0.array0.drain"]
    assert (stream["busy"], stream["tail"]) == ({"useful": 16}, 14)
    assert drain["busy"] == {"useful": 8}
    assert result.cycles == 38


def test_d04_the_serial_convention_leaves_the_drain_out() -> None:
    result = accelsim.gemm(array(8, 8, "os", base="scalesim_like"), 8, 8, 16)
    assert result.units["core0.array0.stream"]["busy"] == {"useful": 16, "fill": 14}
    assert result.units["core0.array0.drain"]["busy"] == {}
    assert result.cycles == 30


@pytest.mark.parametrize("k", [16, 64, 256])
def test_d04_overlapped_drains_still_show_the_last_one(k: int) -> None:
    """Four folds one after another: their drains hide, but the run ends R cycles after the last MAC."""
    result = gemm_on_ideal(8, 8, "os", 16, 16, k)
    assert result.timeline is not None
    assert result.program is not None
    kinds = [result.program.units[unit].kind for unit in result.program.unit.tolist()]
    last_mac = max(done for kind, done in zip(kinds, result.timeline.done.tolist(), strict=True) if kind == "stream")
    assert result.cycles == last_mac + 8


def utilization_by_definition(result: Result, macs_per_cycle: Fraction | int) -> float:
    return float(Fraction(result.macs) / (macs_per_cycle * result.cycles))


@pytest.mark.parametrize(("dtype", "rate"), [("int8", Fraction(1)), ("fp32", Fraction(1, 4))])
@pytest.mark.parametrize("m", [1, 256])
def test_d08_utilization_is_macs_over_the_peak_of_the_dtype(dtype: str, rate: Fraction, m: int) -> None:
    result = accelsim.gemm(accelsim.load_arch("tpu_like", IDEAL), m, 256, 768, dtype=dtype)
    assert result.utilization == pytest.approx(utilization_by_definition(result, rate * 128 * 128), rel=1e-12)
    assert 0 < result.utilization <= 1


def test_d08_one_row_costs_less_than_many_and_cannot_fill_the_array() -> None:
    """On 128 x 128 weights of 768 x 256 are 12 folds, of which each takes 128 cycles to shift in."""
    whole, vector = (gemm_on_ideal(128, 128, "ws", m, 256, 768) for m in (256, 1))
    assert whole.macs == 50_331_648
    assert whole.cycles >= 3072
    assert 1536 <= vector.cycles < whole.cycles
    assert vector.utilization <= 0.0078


EDGES = [(7, 7, 7), (1, 1, 1), (1, 8, 8), (8, 1, 8), (8, 8, 1), (9, 9, 9), (8, 8, 8)]


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("shape", EDGES, ids=str)
def test_d09_sizes_around_the_array_run(dataflow: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    result = gemm_on_ideal(8, 8, dataflow, m, n, k)
    assert result.macs == m * n * k
    assert result.cycles >= ceiling(m * n * k, 64)
    assert result.utilization <= 1


def test_d09_seven_cubed_on_eight_by_eight_takes_one_fold() -> None:
    for dataflow in DATAFLOWS:
        result = gemm_on_ideal(8, 8, dataflow, 7, 7, 7)
        assert result.utilization <= 49 / 64
        assert 6 <= result.cycles <= 29, dataflow


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (8, 1), (2, 2), (4, 4), (16, 4), (3, 5)], ids=str)
def test_d10_arrays_of_any_shape_come_to_an_end(dataflow: str, shape: tuple[int, int]) -> None:
    result = gemm_on_ideal(*shape, dataflow, 16, 16, 16)
    assert result.cycles >= ceiling(16**3, shape[0] * shape[1])
    assert result.macs == 16**3


def test_d10_one_multiplier_takes_a_cycle_a_multiplication() -> None:
    assert gemm_on_ideal(1, 1, "ws", 16, 16, 16).cycles >= 4096


def test_d11_heads_are_one_row_of_a_batched_matmul() -> None:
    """The scores of twelve heads, 128 x 128 x 64 each."""
    machine = accelsim.load_arch("tpu_like", IDEAL)
    heads, one = (accelsim.gemm(machine, 128, 128, 64, batch=batch) for batch in (12, 1))
    (row,) = heads.operators
    assert row["macs"] == heads.macs == 12_582_912
    assert 768 <= heads.cycles <= 12 * one.cycles


def test_d11_the_report_of_a_batch_counts_its_matmuls(capsys: Capture) -> None:
    stdout = command(capsys, "gemm", "128", "128", "64", "--batch", "12")
    assert "batch 12: " in stdout
    assert "gemm_128x128x64_b12" in stdout
