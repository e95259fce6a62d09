"""Serial folds against what SCALE-Sim v2 and v3 measured on 1512 matmuls (oracles/scalesim_gemm.csv).

Differences that are theirs: they report the index of the last cycle, F L - 1, where we report F L cycles; and their os
output writes count the rows and columns of the trace as well, M N + F (R + C), where M N elements are written.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from accelsim.hardware import systolic
from accelsim.hardware.systolic import ArrayParameters

TABLE = Path(__file__).parents[1] / "oracles" / "scalesim_gemm.csv"


def serial_array(rows: int, cols: int, dataflow: systolic.Dataflow) -> ArrayParameters:
    return ArrayParameters(rows, cols, dataflow, weight_double_buffer=False, fold_overlap=False)


@pytest.fixture(scope="module")
def table() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def mismatches(table: list[dict[str, str]], ours, theirs) -> list[str]:
    """Rows whose value differs; `ours(p, (m, k, n))` against `theirs(row)`."""
    wrong = []
    for row in table:
        p = serial_array(int(row["rows"]), int(row["cols"]), row["dataflow"])
        mine, peer = ours(p, (int(row["M"]), int(row["K"]), int(row["N"]))), theirs(row)
        if mine != peer:
            wrong.append(f"{row}: {mine}, not {peer}")
    return wrong


def test_table_is_whole(table):
    assert len(table) == 1512
    assert {row["dataflow"] for row in table} == {"ws", "os", "is"}


def test_cycles_of_every_row(table):
    def stall_free_cycles(row):
        return int(row["total_cycles"]) - int(row["stall_cycles"]) + 1

    assert mismatches(table, lambda p, tile: systolic.isolated_cycles(p, *tile), stall_free_cycles) == []


def test_operand_reads_of_every_row(table):
    def ours(p, tile):
        reads = systolic.operand_reads(p, *tile)
        return int(reads.a), int(reads.b)

    assert mismatches(table, ours, lambda row: (int(row["ifmap_sram_reads"]), int(row["filter_sram_reads"]))) == []


def test_accumulator_writes_of_every_stationary_row(table):
    rows = [row for row in table if row["dataflow"] != "os"]
    writes = mismatches(
        rows,
        lambda p, tile: systolic.accumulator_accesses(p, *tile).writes,
        lambda row: int(row["ofmap_sram_writes"]),
    )
    assert writes == []


def test_output_writes_of_every_os_row_but_for_their_surplus(table):
    rows = [row for row in table if row["dataflow"] == "os"]

    def with_their_surplus(p, tile):
        m, _, n = tile
        return m * n + systolic.fold_count(p, *tile) * (p.rows + p.cols)

    assert mismatches(rows, with_their_surplus, lambda row: int(row["ofmap_sram_writes"])) == []


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_serial_tasks_add_up_to_folds_times_fold_length(dataflow):
    m, k, n = np.meshgrid([1, 7, 33], [1, 16, 50], [3, 8, 40])
    p = serial_array(8, 16, dataflow)
    stream, drain = systolic.stream_times(p, m, k, n), systolic.drain_times(p, m, k, n)
    streamed = {"ws": m + 8, "os": k, "is": n + 8}[dataflow]
    length = systolic.fold_count(p, m, k, n) * (streamed + 8 + 16 - 2)
    assert np.array_equal(systolic.weights_times(p, m, k, n) + stream.latency, length)
    assert np.array_equal(stream.occupy, stream.latency)
    assert np.array_equal(stream.useful + stream.weights_in_stream + stream.fill, stream.occupy)
    assert not drain.occupy.any()
    assert not drain.latency.any()
    assert np.array_equal(drain.lag, stream.latency)
    if dataflow != "os":
        assert np.array_equal(stream.next_weights_lag, stream.latency)
