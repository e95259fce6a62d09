"""The Python interface takes what scripts and notebooks hand it, and refuses the rest with one message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.trace.builder import TraceBuilder


def test_sizes_may_be_numpy_integers() -> None:
    plain, numpy = (accelsim.gemm("gemmini_16", *sizes) for sizes in ((20, 30, 40), np.array([20, 30, 40])))
    assert plain.to_json() == numpy.to_json()


def test_residency_is_a_switch_in_words_or_values() -> None:
    runs = [accelsim.simulate("tpu_like", "bert_tiny_fwd_b1_s128", residency=value) for value in ("off", False, True)]
    assert runs[0].to_json() == runs[1].to_json()
    assert runs[1].dram_bytes > runs[2].dram_bytes


@pytest.mark.parametrize(
    ("option", "value"),
    [("residency", "of"), ("residency", 1), ("layers", 1), ("layers", (0, 1)), ("mapping", 5), ("mapping", {0: 5})],
)
def test_an_option_of_the_wrong_kind_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(accelsim.InputError, match=option):
        accelsim.simulate("tpu_like", "bert_tiny_fwd_b1_s128", **{option: value})


@pytest.mark.parametrize(
    ("table", "indices", "out", "axis", "read_bytes"),
    [
        ((7,), 3, (3,), 0, 3 * 2 + 3 * 4),  # single elements
        ((130,), 1000, (1000,), 0, 1000 * 2 + 1000 * 4),
        ((50, 64), 9, (9, 64), 0, 9 * 128 + 9 * 4),
        ((2, 3, 4, 64), 7, (7, 3, 4, 64), 0, 7 * 3 * 4 * 128 + 7 * 4),
    ],
)
def test_gather_reads_what_it_picks_and_each_index_once(
    table: tuple[int, ...], indices: int, out: tuple[int, ...], axis: int, read_bytes: int
) -> None:
    b = TraceBuilder("gather")
    source, index = b.tensor("table", table, "bf16", "weight"), b.tensor("index", (indices,), "int32", "input")
    b.op("gather", [source, index], [b.tensor("out", out, "bf16")], {"axis": axis})
    result = accelsim.simulate("tpu_like", b.build())
    assert result.to_dict()["dram"]["read_bytes"] == read_bytes


def test_a_faster_array_never_loses_to_its_drain() -> None:
    cycles = [
        accelsim.simulate(accelsim.load_arch("tpu_like", {"array.rate.int8": rate}), "bert_tiny_fwd_b1_s128").cycles
        for rate in (1, 4, 16)
    ]
    assert max(cycles[1:]) < cycles[0]
