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


@pytest.fixture(scope="module")
def run() -> accelsim.Result:
    return accelsim.gemm("gemmini_16", 16, 16, 16)


def test_results_and_names_may_come_one_after_another(run: accelsim.Result) -> None:
    listed = accelsim.compare([run, run], ["first", "second"])
    assert accelsim.compare(iter([run, run]), iter(["first", "second"])).to_json() == listed.to_json()


@pytest.mark.parametrize("results", [None, 3, "ab.json", {"format": "accelsim-result/1"}, "run"])
def test_what_is_no_list_of_results_is_refused(run: accelsim.Result, results: Any) -> None:
    with pytest.raises(accelsim.InputError, match="results: not a list"):
        accelsim.compare(run if results == "run" else results)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (3, "names: not a list"),
        ("ab", "names: not a list"),
        ([1, 2], "0.: not a text"),
        (["a", None], "1.: not a text"),
    ],
)
def test_names_that_are_none_are_refused(run: accelsim.Result, names: Any, message: str) -> None:
    with pytest.raises(accelsim.InputError, match=message):
        accelsim.compare([run, run], names)


@pytest.mark.parametrize("width", [0, -1, 5, "80", None, 80.0, True])
def test_a_comparison_in_no_width_is_refused(run: accelsim.Result, width: Any) -> None:
    with pytest.raises(accelsim.InputError, match="width: not a number of characters"):
        accelsim.compare([run, run]).text(width)


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
