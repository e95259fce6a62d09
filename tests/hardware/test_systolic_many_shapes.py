"""The closed forms against the per-cycle array on thousands of drawn tiles, arrays up to 16x16."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.hardware import systolic
from accelsim.hardware.systolic import ArrayParameters
from accelsim.validation.pe_chain import chain
from tests.hardware.test_systolic_truth import one_cycle_earlier_from

PAIRS = 350


def drawn_array(random: np.random.Generator, dataflow: systolic.Dataflow, doubled: bool) -> ArrayParameters:
    """Sides of 1 to 16, small ones more often than large ones."""
    rows, cols = (int(2 ** random.uniform(0, 4.08)) for _ in range(2))
    return ArrayParameters(rows, cols, dataflow, weight_double_buffer=doubled, output_double_buffer=doubled)


def drawn_tile(random: np.random.Generator, p: ArrayParameters) -> tuple[int, int, int]:
    """One fold to about four in each direction; whole multiples of the array, ragged and single elements alike."""
    side = max(p.rows, p.cols)
    sizes = [1, p.rows, p.cols, 2 * side, *random.integers(1, 2 * side + 2, 6)]
    m, k, n = (int(size) for size in random.choice(sizes, 3))
    return m, k, n


@pytest.mark.parametrize("doubled", [True, False], ids=["double", "single"])
@pytest.mark.parametrize("dataflow", ["ws", "is", "os"])
def test_two_tiles_in_a_row(dataflow, doubled):
    random = np.random.default_rng([ord(dataflow[0]), doubled])
    for _ in range(PAIRS):
        p = drawn_array(random, dataflow, doubled)
        tiles = [drawn_tile(random, p), drawn_tile(random, p)]
        tasks = chain(p, tiles)
        run = tasks.run()
        assert tasks.is_right(run), (p, tiles)
        early = one_cycle_earlier_from(tasks, int(random.integers(1, len(tasks.folds))))
        assert not early.is_right(early.run()), (p, tiles)
        for index, tile in enumerate(tiles):
            stream, drain = systolic.stream_times(p, *tile), systolic.drain_times(p, *tile)
            assert tasks.last_of_tile(index, run.computed_at) == stream.latency, (p, tile)
            if dataflow == "os":
                last = tasks.last_of_tile(index, run.written_at)
                assert last == drain.lag + drain.latency, (p, tile)
