"""What the `pattern` model charges, on streams whose time is known or can be compared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accelsim.hardware.dram import preset
from accelsim.hardware.dram.pattern import MOST_TRANSACTIONS, PLACES, TICKS, Int64, Stream, service_ticks
from accelsim.hardware.dram.system import DramSystem

HBM = DramSystem(preset("hbm2_2000", channels=8), 1000, outstanding=2048, path_clocks=70)
PEAK = 256  # bytes a cycle


def stream(addresses: list[int], rows: int = 1, row_bytes: int = 4096, pitch: int = 4096, queues: int = 1) -> Stream:
    count = len(addresses)
    requests = np.array([addresses, [rows] * count, [row_bytes] * count, [pitch] * count], np.int64)
    return Stream(np.arange(count) % queues, np.zeros(count, bool), requests)


def ticks_of(work: Stream, system: DramSystem = HBM, queues: int = 1) -> Int64:
    (ticks,) = service_ticks(system, queues, [work])
    return ticks


def share(work: Stream, system: DramSystem = HBM, queues: int = 1) -> float:
    """Of the peak."""
    useful = (work.requests[1] * work.requests[2]).sum()
    return float(useful / (ticks_of(work, system, queues).sum() / TICKS * PEAK))


def sequence(count: int = 100) -> Stream:
    return stream([4096 * number for number in range(count)])


def tiles(step: int, count: int = 16, queues: int = 1) -> Stream:
    """Tiles of 128 x 256 bytes in rows of 1536, `step` bytes apart."""
    return stream([step * number for number in range(count)], 128, 256, 1536, queues)


def test_sequence_is_near_the_peak_and_costs_refresh() -> None:
    assert 0.85 < share(sequence()) < 0.95
    still = replace(HBM.device, timing=replace(HBM.device.timing, refi=0))
    assert share(sequence(), replace(HBM, device=still)) / share(sequence()) == pytest.approx(3900 / 3516, abs=0.05)


def test_time_goes_by_transactions_and_never_below_the_peak() -> None:
    work = sequence(4)
    work.requests[2, 3] = 33  # two transactions of the 128 that the others have
    ticks = ticks_of(work)
    assert ticks[0] == ticks[1] == ticks[2] == pytest.approx(64 * ticks[3], rel=0.02)
    assert ticks[0] >= 4096 * TICKS / PEAK


def test_rows_of_one_bank_in_turn_are_slow() -> None:
    """Runs that lie a DRAM row apart close each other's rows; by the mean over shapes they would cost the same."""
    assert share(stream([number << 23 for number in range(500)], row_bytes=64)) < 0.1 < share(tiles(196608))


def test_queues_do_not_stay_in_step() -> None:
    """Two queues whose tiles want other rows of the same banks are not much slower than one."""
    assert share(tiles(1 << 19, queues=2), queues=2) > 0.8 * share(tiles(1 << 19))


def test_streams_alike_take_the_mean_of_their_places() -> None:
    alike = [tiles(196608) for _ in range(PLACES + 2)]
    for number, each in enumerate(alike):
        each.requests[0] += 70144 * number
    apart = [int(ticks_of(each)[0]) for each in alike]
    together = service_ticks(HBM, 1, alike)
    assert {int(ticks[0]) for ticks in together} == {int(together[0][0])}
    assert int(together[0][0]) == pytest.approx(sum(apart[:PLACES]) / PLACES, abs=1)
    assert len(set(apart)) > 1


def test_issue_counts_where_it_is_not_hidden() -> None:
    small = stream([64 * number for number in range(500)], row_bytes=64)
    ticks = ticks_of(small, replace(HBM, issue_cycles=40))
    assert ticks[0] / TICKS > 40
    assert ticks_of(small)[0] / TICKS < 5


def test_writes_among_reads_cost_turns_of_the_bus() -> None:
    work = sequence()
    far = work.requests.copy()
    far[0] += 1 << 24
    mixed = Stream(
        np.tile([0, 1], 100), np.tile([False, True], 100), np.stack([work.requests, far], axis=2).reshape(4, -1)
    )
    assert share(mixed, queues=2) < 0.98 * share(work)


def test_narrow_way_sets_the_time() -> None:
    narrow = replace(HBM, bytes_per_clock=Fraction(64))  # 64 of 256 bytes a cycle
    assert 0.2 < share(sequence(), narrow) <= 0.25


def test_few_in_flight_wait_for_their_data() -> None:
    assert share(sequence(), replace(HBM, outstanding=64)) < 0.12


def test_request_of_any_length_is_run_in_part() -> None:
    huge = stream([0], row_bytes=1 << 40)
    assert 0.8 < share(huge) < 1
    wide = stream([0], rows=1 << 20, row_bytes=1 << 20, pitch=1 << 21)
    assert wide.requests[1, 0] * wide.requests[2, 0] > 32 * MOST_TRANSACTIONS
    assert 0.8 < share(wide) < 1
