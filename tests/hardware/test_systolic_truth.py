"""The closed forms against the per-cycle array, over sequences of tiles run as close as the closed forms allow."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelsim.hardware import systolic
from accelsim.hardware.pe_array import Fold
from accelsim.hardware.systolic import ArrayParameters
from accelsim.validation.pe_chain import Chain, chain

property_test = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def folds_of(tasks: Chain, tile: int) -> list[Fold]:
    return [fold for fold, owner in zip(tasks.folds, tasks.tile_of, strict=True) if owner == tile]


def one_cycle_earlier_from(tasks: Chain, fold: int) -> Chain:
    def moved(starts: list[int]) -> list[int]:
        return starts[:fold] + [start - 1 for start in starts[fold:]]

    return replace(tasks, weight_starts=moved(tasks.weight_starts), stream_starts=moved(tasks.stream_starts))


sides = st.integers(1, 7)
sizes = st.integers(1, 17)
tile_lists = st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=4)
stationary = st.builds(
    ArrayParameters, rows=sides, cols=sides, dataflow=st.sampled_from(["ws", "is"]), weight_double_buffer=st.booleans()
)
output_stationary = st.builds(
    ArrayParameters, rows=sides, cols=sides, dataflow=st.just("os"), output_double_buffer=st.booleans()
)
arrays = st.one_of(stationary, output_stationary)


@property_test
@given(arrays, tile_lists)
def test_tiles_back_to_back_give_the_right_product(p, tiles):
    tasks = chain(p, tiles)
    assert tasks.is_right(tasks.run())


@property_test
@given(arrays, tile_lists, st.data())
def test_any_fold_a_cycle_earlier_gives_a_wrong_product(p, tiles, data):
    tasks = chain(p, tiles)
    if len(tasks.folds) > 1:
        fold = data.draw(st.integers(1, len(tasks.folds) - 1))
        early = one_cycle_earlier_from(tasks, fold)
        assert not early.is_right(early.run())


@property_test
@given(arrays, tile_lists)
def test_stream_latency_is_the_last_result(p, tiles):
    tasks = chain(p, tiles)
    run = tasks.run()
    for index, tile in enumerate(tiles):
        latency = systolic.stream_times(p, *tile).latency
        assert tasks.last_of_tile(index, run.computed_at) == latency


@property_test
@given(stationary, tile_lists, st.one_of(st.none(), st.fractions(min_value="1/3", max_value=9, max_denominator=3)))
def test_drain_reads_no_row_before_it_is_complete_and_waits_no_longer(p, tiles, rate):
    p = replace(p, drain_elements_per_cycle=rate)
    tasks = chain(p, tiles)
    run = tasks.run()
    for index, tile in enumerate(tiles):
        drain = systolic.drain_times(p, *tile)
        slack, read_at = [], int(drain.lag)
        for fold in {fold.address: fold for fold in folds_of(tasks, index)}.values():
            n = fold.b.shape[1]
            row_cycles = 1 if rate is None else -(-n * rate.denominator // rate.numerator)
            complete = run.written_at[fold.address : fold.address + len(fold.a), :n].max(axis=1)
            for row in complete - tasks.tile_starts[index]:
                slack.append(read_at - row)
                read_at += row_cycles
        assert min(slack) == 0
        assert read_at == drain.lag + drain.occupy
        assert drain.latency == drain.occupy + 1


@property_test
@given(stationary, st.tuples(sizes, sizes, sizes))
def test_drain_at_the_rate_of_the_columns_ends_a_cycle_after_the_stream(p, tile):
    m, _, n = tile
    across = m if p.dataflow == "is" else n
    stream, drain = systolic.stream_times(p, *tile), systolic.drain_times(p, *tile)
    after = int(drain.lag + drain.latency - stream.latency)
    if across <= p.cols or across % p.cols == 0:
        assert after == 1
    else:
        assert 1 <= after <= 1 + p.cols - across % p.cols


@property_test
@given(output_stationary, tile_lists)
def test_output_shift_follows_the_array(p, tiles):
    tasks = chain(p, tiles)
    run = tasks.run()
    free = 0
    for index, (start, tile) in enumerate(zip(tasks.tile_starts, tiles, strict=True)):
        drain = systolic.drain_times(p, *tile)
        top = folds_of(tasks, index)[0].address
        bottom = folds_of(tasks, index)[-1].address + p.rows
        assert run.written_at[top:bottom, 0].min() == start + drain.lag
        assert run.written_at[top:bottom, 0].max() + 1 == start + drain.lag + drain.occupy
        assert tasks.last_of_tile(index, run.written_at) == drain.lag + drain.latency
        assert start + drain.lag >= free
        free = start + drain.lag + drain.occupy


@property_test
@given(stationary, st.tuples(sizes, sizes, sizes))
def test_accumulator_writes_are_those_of_the_array(p, tile):
    tasks = chain(p, [tile])
    run = tasks.run()
    written = {
        fold.address: run.writes[fold.address : fold.address + len(fold.a), : fold.b.shape[1]] for fold in tasks.folds
    }
    accesses = systolic.accumulator_accesses(p, *tile)
    assert accesses.writes == sum(block.sum() for block in written.values())
    assert accesses.reads == sum((block - 1).sum() for block in written.values())
