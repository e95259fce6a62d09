from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import InputError
from accelsim.hardware.dram import Controller, Device, preset, simulate_requests

PER_BANK = Controller(front_end="per_bank", merge_reads=True)
DDR4 = preset("ddr4_2400", mapping="RoBaRaCoCh")
BY_BANK = preset("ddr4_2400", controller=PER_BANK)
HBM2 = preset("hbm2_2000", channels=2)
LPDDR5 = preset("lpddr5_6400")
LPDDR4 = preset("lpddr4_2400", controller=PER_BANK)
DEVICES = [DDR4, BY_BANK, HBM2, LPDDR5, LPDDR4]

requests = st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=200)


def run(device: Device, drawn: list[tuple[int, bool]], interval: int = 0, window: int = 0):
    addresses = [block * 4096 // 3 // 128 * 128 for block, _ in drawn]
    return simulate_requests(device, addresses, [is_write for _, is_write in drawn], interval, window)


def test_no_requests_take_no_time() -> None:
    stats = simulate_requests(DDR4, [], [])
    assert stats.end_cycle == 0
    assert stats.mean_read_latency is None
    assert stats.bandwidth_share(DDR4) == 0.0


def test_first_read_waits_for_activate_and_burst() -> None:
    t = DDR4.timing
    stats = simulate_requests(DDR4, [0], False)
    assert stats.end_cycle == stats.mean_read_latency == 1 + t.rcd_rd + t.cl + t.burst
    assert stats.commands == Counter(ACT=1, RD=1, WR=0, PREpb=0, PREab=0, REFab=0)


def test_second_read_of_the_row_follows_at_the_burst_gap() -> None:
    t = DDR4.timing
    one, two = (simulate_requests(DDR4, np.arange(count) * 64, False).end_cycle for count in (1, 2))
    assert two - one == t.ccd_l  # both in one bank group


def test_conflict_stream_runs_at_the_row_cycle() -> None:
    """Each request needs the next row of one bank: tRC apart; refresh off."""
    device = preset("ddr4_2400", mapping="RoBaRaCoBgCh")
    device = replace(device, timing=replace(device.timing, refi=0))
    row_stride = device.geometry.columns * 64 * device.geometry.banks_per_channel
    few, many = (simulate_requests(device, np.arange(n) * row_stride, False).end_cycle for n in (100, 200))
    assert many - few == 100 * device.timing.rc


def test_random_reads_run_at_four_activates_a_window() -> None:
    device = replace(DDR4, timing=replace(DDR4.timing, refi=0))
    addresses = np.random.default_rng(1).integers(0, 2**22, 4000) * 64
    clocks_per_read = simulate_requests(device, addresses, False).end_cycle / 4000
    assert device.timing.faw / 4 <= clocks_per_read < 1.05 * device.timing.faw / 4


def test_refresh_takes_its_share() -> None:
    addresses = np.arange(40_000) * 64
    with_refresh = simulate_requests(DDR4, addresses, False)
    without = simulate_requests(replace(DDR4, timing=replace(DDR4.timing, refi=0)), addresses, False)
    t = DDR4.timing
    assert with_refresh.commands["REFab"] == with_refresh.end_cycle // t.refi
    assert with_refresh.end_cycle / without.end_cycle == pytest.approx(1 + t.rfc / t.refi, rel=0.02)


def test_a_read_of_a_waiting_write_needs_no_command() -> None:
    for device in (DDR4, BY_BANK):
        stats = simulate_requests(device, [0, 0], [True, False])
        assert (stats.forwarded, stats.mean_read_latency, stats.commands["RD"]) == (1, 1.0, 0)


def test_a_write_to_a_waiting_write_is_absorbed() -> None:
    for device in (DDR4, BY_BANK):
        stats = simulate_requests(device, [0, 0], True)
        assert (stats.coalesced, stats.commands["WR"]) == (1, 1)


def test_equal_reads_share_a_command_only_if_merged() -> None:
    assert simulate_requests(DDR4, [0, 0], False).commands["RD"] == 2
    stats = simulate_requests(BY_BANK, [0, 0, 0], False)
    assert (stats.merged, stats.commands["RD"]) == (2, 1)
    assert stats.mean_read_latency == stats.end_cycle  # all three from clock 0


def test_paced_requests_are_not_offered_early() -> None:
    stats = simulate_requests(DDR4, np.arange(50) * 64, False, interval=100)
    assert stats.end_cycle >= 49 * 100
    assert stats.mean_read_latency < 30


def test_window_of_one_serves_one_at_a_time() -> None:
    stats = simulate_requests(DDR4, np.arange(20) * 64, False, window=1)
    assert stats.end_cycle == pytest.approx(20 * stats.mean_read_latency)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: f"{device.name}-{device.controller.front_end}")
def test_all_writes_are_sent_in_the_end(device: Device) -> None:
    for count in (1, 7, 9, 40):
        stats = simulate_requests(device, np.arange(count) * 128, True)
        assert (stats.commands["WR"], stats.unsent_writes) == (count, 0)


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: f"{device.name}-{device.controller.front_end}")
def test_write_after_read_with_a_full_write_queue_ends(device: Device) -> None:
    """Every address is read, then written at once: the writes may not overtake the reads, and nothing hangs."""
    addresses = np.repeat(np.arange(300) * 128 * 65, 2)
    is_write = np.tile([False, True], 300)
    stats = simulate_requests(device, addresses, is_write)
    assert stats.commands["RD"] + stats.forwarded + stats.merged == 300
    assert stats.commands["WR"] + stats.coalesced == 300


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(DEVICES), requests, st.sampled_from([0, 1, 7, 300]), st.sampled_from([0, 1, 3, 40]))
def test_every_request_is_accounted_for(device: Device, drawn: list, interval: int, window: int) -> None:
    stats = run(device, drawn, interval, window)
    moved = stats.commands["RD"] + stats.commands["WR"]
    assert moved + stats.forwarded + stats.coalesced + stats.merged == len(drawn)
    assert stats.bus_bytes == moved * device.geometry.transaction_bytes
    assert 0 <= stats.bandwidth_share(device) <= 1
    assert 0 <= stats.row_hits <= moved
    assert stats.end_cycle >= max(0, len(drawn) - 1) * interval


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(DEVICES), requests)
def test_rows_are_opened_and_closed_in_turn(device: Device, drawn: list) -> None:
    """No bank is activated while open: precharges never exceed activates, and each opened row serves a request."""
    stats = run(device, drawn)
    activates = stats.commands["ACT"] + stats.commands["ACT1"]
    assert stats.commands["PREpb"] + stats.commands["PRE"] <= activates <= max(1, len(drawn)) * 2
    assert stats.commands["ACT2"] in (0, activates)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(DEVICES), requests)
def test_same_stream_gives_the_same_answer(device: Device, drawn: list) -> None:
    assert run(device, drawn) == run(device, drawn)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-64], False), "addresses: must not be negative; got -64"),
        (([0], False, -1), "interval: must not be negative; got -1"),
        (([0], False, 0, -2), "window: must not be negative; got -2"),
        (([0, 64], [True]), "is_write: expected one entry per address"),
        (([[0]], False), "addresses: expected a list of addresses"),
    ],
)
def test_bad_requests_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate_requests(DDR4, *arguments)
