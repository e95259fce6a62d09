"""The closed forms against the per-cycle array, over sequences of tiles run as close as the closed forms allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelsim.hardware import pe_array, systolic
from accelsim.hardware.pe_array import Fold, PeRun
from accelsim.hardware.systolic import ArrayParameters

property_test = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Chain:
    """Tiles back to back on one array: folds, when their weights and inputs start, and to which tile they belong."""

    p: ArrayParameters
    tiles: list[tuple[int, int, int]]
    folds: list[Fold]
    tile_of: list[int]
    weight_starts: list[int]
    stream_starts: list[int]
    tile_starts: list[int]

    def run(self) -> PeRun:
        if self.p.dataflow == "os":
            second_output = self.p.output_double_buffer
            return pe_array.run_output_stationary(
                self.p.rows, self.p.cols, self.folds, self.stream_starts, second_output
            )
        shadow = self.p.weight_double_buffer
        return pe_array.run_weight_stationary(
            self.p.rows, self.p.cols, self.folds, self.weight_starts, self.stream_starts, shadow
        )

    def folds_of(self, tile: int) -> list[Fold]:
        return [fold for fold, owner in zip(self.folds, self.tile_of, strict=True) if owner == tile]

    def is_right(self, run: PeRun) -> bool:
        """Every accumulator element equals the sum of the folds that add to it."""
        expected = np.zeros_like(run.accumulator)
        used = np.zeros(expected.shape, dtype=bool)
        for fold in self.folds:
            block = np.s_[fold.address : fold.address + fold.a.shape[0], : fold.b.shape[1]]
            expected[block] += fold.a @ fold.b
            used[block] = True
        return bool(np.array_equal(run.accumulator[used], expected[used]))

    def one_cycle_earlier_from(self, fold: int) -> Chain:
        def moved(starts: list[int]) -> list[int]:
            return starts[:fold] + [start - 1 for start in starts[fold:]]

        return replace(self, weight_starts=moved(self.weight_starts), stream_starts=moved(self.stream_starts))


def chain(p: ArrayParameters, tiles: list[tuple[int, int, int]]) -> Chain:
    """The tiles' tasks as the Program's rules start them: weights and streams, each as early as its lags allow."""
    folds: list[Fold] = []
    tile_of: list[int] = []
    weight_starts: list[int] = []
    stream_starts: list[int] = []
    tile_starts: list[int] = []
    weights_free = stream_free = address = 0
    for index, (m, k, n) in enumerate(tiles):
        cut = folds_of_tile(p, index, (m, k, n), address)
        address = cut[-1].address + max(p.rows, len(cut[-1].a))
        shift = int(systolic.weights_times(p, m, k, n))
        start = max(weights_free + shift, stream_free)
        period = int(systolic.fold_period(p, m, k, n))
        next_weights = start + int(systolic.stream_times(p, m, k, n).next_weights_lag)
        starts = [start + number * period for number in range(len(cut))]
        weight_starts += [weights_free, *(next_start - shift for next_start in starts[1:])]
        stream_starts += starts
        tile_of += [index] * len(cut)
        folds += cut
        tile_starts.append(start)
        k_next = tiles[index + 1][1] if index + 1 < len(tiles) else 1
        weights_free, stream_free = next_weights, start + int(systolic.next_stream_lag(p, m, k, n, k_next))
    return Chain(p, tiles, folds, tile_of, weight_starts, stream_starts, tile_starts)


def folds_of_tile(p: ArrayParameters, seed: int, tile: tuple[int, int, int], address: int) -> list[Fold]:
    m, k, n = tile
    random = np.random.default_rng([seed, *tile])
    a, b = (2 * random.integers(-(2**19), 2**19, shape) + 1 for shape in ((m, k), (k, n)))
    if p.dataflow == "os":
        return pe_array.output_stationary_folds(a, b, p.rows, p.cols, address)
    if p.dataflow == "is":
        a, b = b.T, a.T
    return pe_array.weight_stationary_folds(a, b, p.rows, p.cols, address)


def times_of(chain_: Chain, run: PeRun, tile: int, times: np.ndarray) -> np.ndarray:
    """`times` (an array of the run) of the results of a tile, counted from its stream's start."""
    blocks = [times[f.address : f.address + f.a.shape[0], : f.b.shape[1]].ravel() for f in chain_.folds_of(tile)]
    return np.concatenate(blocks) - chain_.tile_starts[tile]


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
        early = tasks.one_cycle_earlier_from(fold)
        assert not early.is_right(early.run())


@property_test
@given(arrays, tile_lists)
def test_stream_latency_is_the_last_result(p, tiles):
    tasks = chain(p, tiles)
    run = tasks.run()
    for index, tile in enumerate(tiles):
        latency = systolic.stream_times(p, *tile).latency
        assert times_of(tasks, run, index, run.computed_at).max() + 1 == latency


@property_test
@given(stationary, tile_lists, st.one_of(st.none(), st.fractions(min_value="1/3", max_value=9, max_denominator=3)))
def test_drain_reads_no_row_before_it_is_complete_and_waits_no_longer(p, tiles, rate):
    p = replace(p, drain_elements_per_cycle=rate)
    tasks = chain(p, tiles)
    run = tasks.run()
    for index, tile in enumerate(tiles):
        drain = systolic.drain_times(p, *tile)
        slack, read_at = [], int(drain.lag)
        for fold in {fold.address: fold for fold in tasks.folds_of(index)}.values():
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
        top = tasks.folds_of(index)[0].address
        bottom = tasks.folds_of(index)[-1].address + p.rows
        assert run.written_at[top:bottom, 0].min() == start + drain.lag
        assert run.written_at[top:bottom, 0].max() + 1 == start + drain.lag + drain.occupy
        assert times_of(tasks, run, index, run.written_at).max() + 1 == drain.lag + drain.latency
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
