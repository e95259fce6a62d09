"""Closed forms of a buffer tile: known cases, rates, counts, ranges. (Equality with the array: test_systolic_truth.)"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelsim.errors import InputError, InternalError
from accelsim.hardware import systolic
from accelsim.hardware.systolic import ArrayParameters

DATAFLOWS = ("ws", "os", "is")
BUFFERING = ((True, True), (True, False), (False, False))  # fold_overlap, weight_double_buffer

property_test = settings(max_examples=60, deadline=None, derandomize=True)
sizes = st.integers(1, 300)
sides = st.integers(1, 130)
small = st.integers(1, 12)


@st.composite
def arrays(draw, rates):
    fold_overlap, weight_double_buffer = draw(st.sampled_from(BUFFERING))
    return ArrayParameters(
        rows=draw(sides),
        cols=draw(sides),
        dataflow=draw(st.sampled_from(DATAFLOWS)),
        weight_double_buffer=weight_double_buffer,
        output_double_buffer=draw(st.booleans()),
        fold_overlap=fold_overlap,
        rate=draw(rates),
        drain_elements_per_cycle=draw(st.none() | st.integers(1, 200).map(Fraction)),
    )


any_rate = st.fractions(min_value="1/8", max_value=4, max_denominator=8)


def test_tile_of_the_worked_example():
    p = ArrayParameters(128, 128, drain_elements_per_cycle=Fraction(128))
    stream, drain = systolic.stream_times(p, 256, 128, 128), systolic.drain_times(p, 256, 128, 128)
    assert systolic.weights_times(p, 256, 128, 128) == 128
    assert (stream.occupy, stream.latency, stream.next_weights_lag) == (256, 510, 0)
    assert (drain.occupy, drain.latency, drain.lag) == (256, 257, 254)


def test_short_streams_wait_for_the_weights_of_the_next_fold():
    stream = systolic.stream_times(ArrayParameters(128, 128), 32, 512, 128)
    assert (stream.occupy, stream.useful, stream.weights_in_stream) == (3 * 128 + 32, 4 * 32, 3 * 96)
    assert stream.next_weights_lag == 3 * 128


def test_without_shadow_registers_the_next_weights_wait_for_the_stream():
    stream = systolic.stream_times(ArrayParameters(16, 16, weight_double_buffer=False), 32, 64, 16)
    assert (stream.occupy, stream.weights_in_stream) == (4 * 32 + 3 * 16, 3 * 16)
    assert stream.next_weights_lag == stream.occupy


def test_slow_drain_takes_its_own_time_and_starts_with_the_first_row():
    p = ArrayParameters(8, 8, drain_elements_per_cycle=Fraction(2))
    drain = systolic.drain_times(p, 10, 8, 8 + 8 + 3)
    assert (drain.occupy, drain.latency, drain.lag) == (10 * (4 + 4 + 2), 10 * (4 + 4 + 2) + 1, 8 + 8 - 2)


def test_drain_of_a_ragged_column_fold_follows_whole_rows():
    p = ArrayParameters(4, 100, drain_elements_per_cycle=Fraction(100))
    stream, drain = systolic.stream_times(p, 10, 4, 101), systolic.drain_times(p, 10, 4, 101)
    last_row_of_the_full_fold = 4 + 100 - 2 + 9
    assert stream.latency == last_row_of_the_full_fold + 1
    assert drain.lag + drain.latency == last_row_of_the_full_fold + 1 + 10 + 1


def test_input_stationary_is_weight_stationary_with_m_and_n_exchanged():
    ws, inputs = ArrayParameters(8, 4, "ws"), ArrayParameters(8, 4, "is")
    for function in (systolic.stream_times, systolic.drain_times):
        assert function(ws, 30, 50, 9) == function(inputs, 9, 50, 30)
    assert systolic.stream_times(inputs, 9, 50, 30) != systolic.stream_times(ws, 9, 50, 30)


def test_output_stationary_next_stream_waits_for_registers():
    p = ArrayParameters(8, 8, "os")
    assert systolic.next_stream_lag(p, 8, 20, 8, np.array([1, 3, 8, 50])).tolist() == [27, 25, 20, 20]
    single = ArrayParameters(8, 8, "os", output_double_buffer=False)
    assert systolic.next_stream_lag(single, 8, 20, 8, np.array([1, 50])).tolist() == [27, 27]


def test_rate_stretches_every_step():
    slow = ArrayParameters(16, 16, rate=Fraction(1, 4), drain_elements_per_cycle=Fraction(16))
    unit = ArrayParameters(16, 16, drain_elements_per_cycle=Fraction(16))
    for name in ("occupy", "latency", "weights_in_stream", "next_weights_lag"):
        of_slow, of_unit = (getattr(systolic.stream_times(p, 10, 70, 40), name) for p in (slow, unit))
        assert of_slow == 4 * of_unit
    assert systolic.weights_times(slow, 10, 70, 40) == 64
    assert systolic.drain_times(slow, 10, 70, 40).lag == 4 * systolic.drain_times(unit, 10, 70, 40).lag


def test_drain_rate_is_in_cycles_whatever_the_array_s_rate():
    fast = ArrayParameters(16, 16, rate=Fraction(2), drain_elements_per_cycle=Fraction(16))
    assert systolic.drain_times(fast, 100, 16, 16).occupy == 100
    slow = ArrayParameters(16, 16, rate=Fraction(1, 4), drain_elements_per_cycle=Fraction(8))
    assert systolic.drain_times(slow, 100, 16, 16).occupy == 400


@property_test
@given(arrays(any_rate), sizes, sizes, sizes)
def test_times_are_sound(p, m, k, n):
    stream, drain = systolic.stream_times(p, m, k, n), systolic.drain_times(p, m, k, n)
    assert stream.useful + stream.weights_in_stream + stream.fill == stream.occupy
    assert min(stream.useful, stream.weights_in_stream, stream.fill, stream.next_weights_lag, drain.lag) >= 0
    assert stream.latency >= stream.occupy >= 1
    assert drain.latency >= drain.occupy >= 0
    assert drain.lag + drain.latency >= stream.latency
    assert systolic.next_stream_lag(p, m, k, n, k) >= stream.occupy


@property_test
@given(arrays(st.just(Fraction(1))), any_rate, sizes, sizes, sizes)
def test_no_time_is_early_at_any_rate(unit, rate, m, k, n):
    p = ArrayParameters(**{f.name: getattr(unit, f.name) for f in fields(unit)} | {"rate": rate})
    steps, cycles = systolic.stream_times(unit, m, k, n), systolic.stream_times(p, m, k, n)
    for name in ("occupy", "latency", "useful", "next_weights_lag"):
        assert 0 <= int(getattr(cycles, name)) * rate - int(getattr(steps, name)) < rate
    waited = systolic.next_stream_lag(p, m, k, n, 5) * rate - systolic.next_stream_lag(unit, m, k, n, 5)
    assert 0 <= waited < 2 * rate


@property_test
@given(small, small, st.booleans(), any_rate, st.tuples(small, small, small), small)
@example(3, 3, True, Fraction(2), (1, 1, 1), 2)
def test_output_shift_never_waits_at_any_rate(rows, cols, second_output, rate, tile, k_next):
    p = ArrayParameters(rows, cols, "os", output_double_buffer=second_output, rate=rate)
    drain, following = systolic.drain_times(p, *tile), systolic.drain_times(p, 1, k_next, 1)
    assert systolic.next_stream_lag(p, *tile, k_next) + following.lag >= drain.lag + drain.occupy


@property_test
@given(arrays(any_rate), sizes, sizes, sizes)
def test_total_is_not_below_the_multiply_accumulate_bound(p, m, k, n):
    assert systolic.isolated_cycles(p, m, k, n) * p.rate * p.rows * p.cols >= m * k * n


@property_test
@given(arrays(any_rate), st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=5))
def test_arrays_of_tiles_give_what_single_tiles_give(p, tiles):
    m, k, n = np.array(tiles).T
    for function in (systolic.stream_times, systolic.drain_times, systolic.operand_reads):
        together = function(p, m, k, n)
        for field in fields(together):
            alone = [getattr(function(p, *tile), field.name) for tile in tiles]
            assert getattr(together, field.name).tolist() == alone
    assert systolic.isolated_cycles(p, m, k, n).tolist() == [systolic.isolated_cycles(p, *tile) for tile in tiles]


def test_sizes_broadcast():
    p = ArrayParameters(8, 8)
    stream = systolic.stream_times(p, np.arange(1, 5)[:, None], 16, np.array([8, 9, 30]))
    assert stream.occupy.shape == stream.fill.shape == (4, 3)
    assert stream.occupy.dtype == np.int64
    assert systolic.accumulator_accesses(p, 8, 8, 8, first_k=np.array([True, False])).reads.tolist() == [0, 64]


def test_no_tiles_give_no_times():
    assert systolic.isolated_cycles(ArrayParameters(8, 8), np.array([], np.int64), 8, 8).shape == (0,)


def test_operand_reads_are_one_for_the_stationary_operand():
    m, k, n = 20, 30, 40
    for dataflow, a_passes, b_passes in (("ws", 5, 1), ("os", 5, 3), ("is", 1, 3)):
        reads = systolic.operand_reads(ArrayParameters(8, 8, dataflow), m, k, n)
        assert (reads.a, reads.b) == (a_passes * m * k, b_passes * k * n)


def test_output_stationary_uses_the_accumulator_only_for_a_split_reduction():
    p = ArrayParameters(8, 8, "os")
    accesses = systolic.accumulator_accesses(
        p, 8, 100, 8, first_k=np.array([True, True, False, False]), last_k=np.array([True, False, False, True])
    )
    assert accesses.writes.tolist() == [0, 64, 64, 64]
    assert accesses.reads.tolist() == [0, 0, 64, 64]


def test_later_k_tiles_read_what_the_first_one_wrote():
    p, first = ArrayParameters(8, 8, "ws"), np.array([True, False, False])
    accesses = systolic.accumulator_accesses(p, 10, np.array([24, 24, 16]), 8, first_k=first)
    assert accesses.writes.sum() == 8 * 80
    assert accesses.reads.sum() == 7 * 80


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("side", [1, 128])
def test_largest_matmul_as_one_tile_stays_exact(dataflow, side):
    p, size = ArrayParameters(side, side, dataflow), 65536
    per_side = size // side
    assert systolic.operand_reads(p, size, size, size).a == (1 if dataflow == "is" else per_side) * size**2
    assert systolic.stream_times(p, size, size, size).occupy == per_side**2 * size
    assert systolic.isolated_cycles(p, size, size, size) > per_side**2 * size


def test_counts_beyond_int64_are_an_internal_error():
    p, size = ArrayParameters(128, 128), 2**21
    with pytest.raises(InternalError, match="int64"):
        systolic.operand_reads(p, size, size, size)
    with pytest.raises(InternalError, match="int64"):
        systolic.stream_times(ArrayParameters(1, 1, rate=Fraction(1, 10**9)), 65536, 65536, 65536)
    with pytest.raises(InternalError, match="int64"):
        systolic.drain_times(ArrayParameters(128, 128, drain_elements_per_cycle=Fraction(1, 2**60)), 8, 8, 8)


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 1), (1, 3), (128, 128)])
@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 10**5)])
def test_counts_fit_says_which_tiles_are_taken(dataflow, rows, cols, rate):
    p = ArrayParameters(rows, cols, dataflow=dataflow, rate=rate)
    found = set()
    for exponents in product(range(5, 31, 5), repeat=3):
        sizes = [2**exponent for exponent in exponents]
        fits = systolic.counts_fit(p, *sizes)
        found.add(fits)
        if fits:
            systolic.stream_times(p, *sizes)
            continue
        with pytest.raises(InternalError, match="int64"):
            systolic.stream_times(p, *sizes)
    assert found == {True, False}


@pytest.mark.parametrize("size", [0, -1])
def test_size_below_one_is_an_internal_error(size):
    with pytest.raises(InternalError, match="below 1"):
        systolic.stream_times(ArrayParameters(8, 8), np.array([4, size]), 4, 4)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"rows": 0}, "array.rows"),
        ({"cols": -4}, "array.cols"),
        ({"rate": Fraction(0)}, "array.rate"),
        ({"drain_elements_per_cycle": Fraction(-1)}, "array.drain_elements_per_cycle"),
        ({"dataflow": "rs"}, "array.dataflow"),
        ({"fold_overlap": False}, "array.weight_double_buffer"),
    ],
)
def test_impossible_array_is_an_input_error(change, where):
    with pytest.raises(InputError) as caught:
        ArrayParameters(**{"rows": 8, "cols": 8, **change})
    assert caught.value.where == where
    assert caught.value.remedy


def every_array(rows: int, cols: int) -> list[ArrayParameters]:
    return [
        ArrayParameters(rows, cols, dataflow, shadow, second_output, overlap)
        for dataflow, second_output, (overlap, shadow) in product(DATAFLOWS, (True, False), BUFFERING)
    ]


def test_d03_small_matmuls_on_a_2_by_2_array():
    for p in every_array(2, 2):
        assert systolic.isolated_cycles(p, 4, 4, 4) >= 16
        assert systolic.isolated_cycles(p, 2, 2, 2) >= 4
    os = ArrayParameters(2, 2, "os")
    assert systolic.isolated_cycles(os, 4, 4, 4) <= 32
    assert systolic.isolated_cycles(os, 2, 2, 2) == 6


def test_d04_isolated_output_stationary_fold_includes_its_drain():
    os = ArrayParameters(8, 8, "os")
    assert systolic.stream_times(os, 8, 16, 8).latency == 30
    assert systolic.drain_times(os, 8, 16, 8).occupy == 8
    assert systolic.isolated_cycles(os, 8, 16, 8) == 38
    serial = ArrayParameters(8, 8, "os", weight_double_buffer=False, fold_overlap=False)
    assert systolic.isolated_cycles(serial, 8, 16, 8) == 30


def test_d08_a_vector_takes_fewer_cycles_than_a_matrix():
    for p in every_array(128, 128):
        matrix, vector = systolic.isolated_cycles(p, 256, 768, 256), systolic.isolated_cycles(p, 1, 768, 256)
        assert matrix >= 3072
        assert vector < matrix
    ws = ArrayParameters(128, 128)
    vector = systolic.isolated_cycles(ws, 1, 768, 256)
    assert vector >= 1536
    assert 768 * 256 / (128 * 128 * vector) <= 0.0078


@pytest.mark.parametrize("tile", [(7, 7, 7), (1, 1, 1), (1, 8, 8), (8, 1, 8), (8, 8, 1), (9, 9, 9), (8, 8, 8)])
def test_d09_sizes_around_the_array(tile):
    for p in every_array(8, 8):
        cycles = systolic.isolated_cycles(p, *tile)
        assert cycles * 64 >= np.prod(tile)
        if tile == (7, 7, 7):
            assert 6 <= cycles <= 29


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 8), (8, 1), (2, 2), (4, 4), (16, 4), (3, 5)])
def test_d10_small_arrays(rows, cols):
    for p in every_array(rows, cols):
        assert systolic.isolated_cycles(p, 16, 16, 16) * rows * cols >= 4096


def test_d20_partial_sums_are_read_back():
    accesses = systolic.accumulator_accesses(ArrayParameters(128, 128), 128, 512, 128)
    assert (accesses.writes, accesses.reads) == (65536, 49152)
