from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import InputError, InternalError
from accelsim.hardware.vector import PassTimes, PassWork, VectorUnit, pass_times

RATES = {"exp": Fraction(1, 4), "rsqrt": Fraction(1, 2), "div": Fraction(2, 7)}
EXP_SUM = PassWork({"add": 2, "exp": 1}, reduce=True, read_bytes_per_element=2, write_bytes_per_element=2)

sizes = st.integers(1, 300)
counts = st.dictionaries(st.sampled_from(["add", "mul", "max", *RATES]), st.integers(1, 4), max_size=3)
shares = st.none() | st.integers(1, 300)


@st.composite
def works(draw: st.DrawFn) -> PassWork:
    """Any pass; one that reduces applies a simple function to each element, as recipes must."""
    reduce = draw(st.booleans())
    functions = draw(counts) | ({"add": draw(st.integers(1, 3))} if reduce else {})
    return PassWork(functions, draw(counts), reduce, *(draw(st.integers(0, 8)) for _ in range(4)))


units = st.builds(VectorUnit, sizes, st.just(RATES), st.integers(0, 20), shares)


def slow_times(rows: int, cols: int, work: PassWork, unit: VectorUnit) -> tuple[int, int, int]:
    """useful, tail and transfer cycles, vector by vector."""

    def slots(functions: dict[str, int]) -> Fraction:
        return sum((Fraction(count) / RATES.get(name, 1) for name, count in functions.items()), Fraction(0))

    vectors = 0
    if not work.reduce:
        vectors = len(range(0, rows * cols, unit.lanes))
    elif cols >= unit.lanes:
        vectors = sum(len(range(0, cols, unit.lanes)) for _ in range(rows))
    else:
        vectors = len(range(0, rows, unit.lanes // cols))
    groups = len(range(0, rows, unit.lanes))
    spread = ceil(cols / ceil(cols / unit.lanes))
    tail = ceil(log2(spread)) * groups if work.reduce else 0
    moved = rows * cols * (work.read_bytes_per_element + work.write_bytes_per_element)
    moved += rows * (work.read_bytes_per_row + work.write_bytes_per_row)
    transfer = ceil(Fraction(moved, unit.share_bytes_per_cycle)) if unit.share_bytes_per_cycle else 0
    return ceil(vectors * slots(work.functions) + groups * slots(work.row_functions)), tail, transfer


def occupy(rows: int, cols: int, work: PassWork, unit: VectorUnit) -> int:
    return int(pass_times(rows, cols, work, unit).occupy)


@given(sizes, sizes, works(), units)
def test_closed_form_equals_counting_vectors(rows: int, cols: int, work: PassWork, unit: VectorUnit) -> None:
    times = pass_times(rows, cols, work, unit)
    useful, tail, transfer = slow_times(rows, cols, work, unit)
    assert (times.useful, times.reduction_tail) == (useful, tail)
    assert times.occupy == max(useful + tail, transfer)


@given(sizes, sizes, works(), units)
def test_breakdown_sums_to_occupy_and_latency_adds_the_pipeline(
    rows: int, cols: int, work: PassWork, unit: VectorUnit
) -> None:
    times = pass_times(rows, cols, work, unit)
    assert times.occupy == times.useful + times.reduction_tail + times.scratchpad
    assert times.latency == times.occupy + unit.pipeline_depth
    assert min(times.useful, times.reduction_tail, times.scratchpad) >= 0


@given(sizes, sizes, works(), units, st.integers(1, 300))
def test_more_lanes_never_cost_cycles(rows: int, cols: int, work: PassWork, unit: VectorUnit, more: int) -> None:
    wider = VectorUnit(unit.lanes + more, RATES, unit.pipeline_depth, unit.share_bytes_per_cycle)
    assert occupy(rows, cols, work, wider) <= occupy(rows, cols, work, unit)


@given(sizes, sizes, works(), units, st.fractions(1, 9), st.integers(0, 50))
def test_higher_rates_and_bandwidth_never_cost_cycles(
    rows: int, cols: int, work: PassWork, unit: VectorUnit, faster: Fraction, more: int
) -> None:
    rates = {name: rate * faster for name, rate in RATES.items()}
    share = unit.share_bytes_per_cycle
    better = VectorUnit(unit.lanes, rates, unit.pipeline_depth, None if share is None else share + more)
    assert occupy(rows, cols, work, better) <= occupy(rows, cols, work, unit)


@given(sizes, sizes, works(), units)
def test_no_pass_beats_lanes_or_bandwidth(rows: int, cols: int, work: PassWork, unit: VectorUnit) -> None:
    times = pass_times(rows, cols, work, unit)
    simple = sum(count for name, count in work.functions.items() if name not in RATES)
    assert times.occupy * unit.lanes >= rows * cols * simple
    if unit.share_bytes_per_cycle is not None:
        assert times.occupy * unit.share_bytes_per_cycle >= times.read_bytes + times.write_bytes


@given(st.lists(sizes, min_size=1, max_size=5), sizes, works(), units)
def test_arrays_of_rows_give_what_each_gives_alone(
    rows: list[int], cols: int, work: PassWork, unit: VectorUnit
) -> None:
    together = pass_times(np.array(rows), cols, work, unit)
    for field in PassTimes.__slots__:
        values = getattr(together, field)
        assert values.dtype == np.int64
        assert values.tolist() == [int(getattr(pass_times(row, cols, work, unit), field)) for row in rows]


@pytest.mark.parametrize(
    ("rows", "cols", "least"), [(12 * 128, 128, 1536), (2 * 128, 768, 1536), (128, 3072, 3072), (1, 196_608, 1536)]
)
@pytest.mark.parametrize("reduce", [False, True])
def test_bert_base_layer_on_128_lanes_takes_its_elements_over_lanes(
    rows: int, cols: int, least: int, reduce: bool
) -> None:
    assert pass_times(rows, cols, PassWork({"add": 1}, reduce=reduce), VectorUnit(128, {})).useful == least


def test_special_functions_take_slots_by_their_rate() -> None:
    times = pass_times(128, 128, EXP_SUM, VectorUnit(128, RATES, 6))
    assert (times.useful, times.reduction_tail, times.scratchpad, times.latency) == (128 * 6, 7, 0, 128 * 6 + 7 + 6)
    assert (times.simple_ops, times.special_ops) == (2 * 128 * 128, 128 * 128)


def test_rounding_happens_once_a_pass() -> None:
    unit = VectorUnit(1, {"exp": Fraction(3), "log": Fraction(3, 2)})
    assert pass_times(1, 4, PassWork({"exp": 1}), unit).useful == 2
    assert pass_times(1, 4, PassWork({"exp": 1, "log": 1}), unit).useful == 4
    assert pass_times(1, 1, PassWork({"exp": 1}, {"exp": 2}), unit).useful == 1


def test_short_rows_share_a_vector_and_ragged_rows_do_not() -> None:
    work = PassWork({"max": 1}, reduce=True)
    assert pass_times(10, 33, work, VectorUnit(100, {})).useful == 4  # three rows of 33 a vector
    assert pass_times(10, 51, work, VectorUnit(100, {})).useful == 10
    assert pass_times(10, 101, work, VectorUnit(100, {})).useful == 20
    assert pass_times(10, 101, PassWork({"max": 1}), VectorUnit(100, {})).useful == 11


def test_tree_is_exposed_once_a_group_of_rows() -> None:
    work = PassWork({"max": 1}, reduce=True)
    assert pass_times(128, 768, work, VectorUnit(128, {})).reduction_tail == 7
    assert pass_times(129, 768, work, VectorUnit(128, {})).reduction_tail == 14
    assert pass_times(128, 1, work, VectorUnit(128, {})).reduction_tail == 0
    assert pass_times(1, 128, work, VectorUnit(65, {})).reduction_tail == 6  # two vectors of 64


def test_row_functions_are_packed_and_counted_per_row() -> None:
    times = pass_times(129, 768, PassWork({}, {"rsqrt": 1, "mul": 3}), VectorUnit(128, RATES))
    assert (times.useful, times.simple_ops, times.special_ops) == (2 * 5, 3 * 129, 129)


def test_bytes_over_the_share_are_charged_to_the_scratchpad() -> None:
    times = pass_times(128, 128, EXP_SUM, VectorUnit(128, RATES, share_bytes_per_cycle=64))
    assert (times.read_bytes, times.write_bytes) == (32_768, 32_768)
    assert (times.occupy, times.scratchpad) == (1024, 1024 - 128 * 6 - 7)


def test_bytes_per_row_are_added_once_a_row() -> None:
    times = pass_times(10, 7, PassWork({"add": 1}, {}, True, 1, 0, 4, 8), VectorUnit(8, {}, 0, 1))
    assert (times.read_bytes, times.write_bytes, times.occupy) == (10 * 7 + 10 * 4, 80, 190)


def test_function_without_a_rate_names_the_key() -> None:
    with pytest.raises(InputError, match=r"vector\.rate\.erf.*'erf'"):
        pass_times(1, 1, PassWork({"erf": 1}), VectorUnit(8, RATES))


def test_decimal_rates_stay_exact_beyond_int64() -> None:
    rate = Fraction("0.1234567890123456789")
    elements = 2**40
    times = pass_times(1, elements, PassWork({"exp": 1}), VectorUnit(1, {"exp": rate}))
    assert int(times.useful) == ceil(elements / rate)
    assert times.useful.dtype == np.int64


def test_sizes_that_overflow_are_refused() -> None:
    with pytest.raises(InternalError, match="overflows"):
        pass_times(2**32, 2**32, PassWork({"add": 1}), VectorUnit(8, {}))
    with pytest.raises(InternalError, match="overflows"):
        pass_times(2**31, 2**31, PassWork({"exp": 1}), VectorUnit(1, {"exp": Fraction(1, 1000)}))


@pytest.mark.parametrize(("rows", "cols", "lanes", "share"), [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)])
def test_empty_sizes_are_refused(rows: int, cols: int, lanes: int, share: int) -> None:
    with pytest.raises(InternalError, match=">= 1"):
        pass_times(rows, cols, PassWork({"add": 1}), VectorUnit(lanes, {}, 0, share))
