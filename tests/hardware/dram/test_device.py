from dataclasses import replace

import pytest

from accelsim.arch.presets import dram_presets
from accelsim.errors import InputError
from accelsim.hardware.dram import Controller, Device, device_from_oracle, preset, preset_names
from tests.hardware.dram.oracle import oracle

DDR4 = preset("ddr4_2400")


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ddr4_2400", "r2_DDR4_2400R_8Gbx8_1ch_RoBaRaCoCh"),
        ("ddr4_3200", "r2_DDR4_3200AA_8Gbx8_1ch_RoBaRaCoCh"),
        ("hbm2_2000", "r2_HBM2_2000_8Gb_1ch_MOP4CLXOR"),
        ("hbm2_2400", "r2_HBM2_2400_8Gb_8ch_MOP4CLXOR"),
        ("lpddr5_6400", "r2_LPDDR5_6400_16Gbx16_1ch_RoBaRaCoCh"),
        ("lpddr4_2400", "d3_LPDDR4_8Gb_x16_2400_default"),
    ],
)
def test_preset_is_the_measured_device(name: str, config: str) -> None:
    measured = device_from_oracle({"name": config, **oracle()["configs"][config]})
    mine = preset(name, channels=measured.geometry.channels)
    assert mine.geometry == measured.geometry
    assert mine.timing == replace(measured.timing, rank_switch=mine.timing.rank_switch)
    if measured.power:
        assert mine.power == measured.power


def test_presets_have_the_peak_bandwidth_of_their_standard() -> None:
    assert preset_names() == list(dram_presets())
    devices = {name: preset(name) for name in preset_names()}
    gigabytes = {name: each.peak_bytes_per_clock * 1000 / each.timing.clock_ps for name, each in devices.items()}
    assert gigabytes["ddr4_3200"] == pytest.approx(25.6)
    assert gigabytes["hbm2_2000"] == pytest.approx(32)
    assert gigabytes["lpddr5_6400"] == pytest.approx(12.8)
    for name, nominal in dram_presets().items():  # the standards round a clock to the picosecond
        assert gigabytes[name] == pytest.approx(float(nominal.channel_gbps), rel=5e-3)


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown DRAM preset; got 'ddr5'; one of ddr3_2133"):
        preset("ddr5")


def test_unknown_peer_is_refused() -> None:
    with pytest.raises(InputError, match="unknown simulator; got 'dramsys'"):
        device_from_oracle({"peer": "dramsys"})


def geometry(**changes: int) -> Device:
    return replace(DDR4, geometry=replace(DDR4.geometry, **changes))


def controller(**changes: object) -> Device:
    return replace(DDR4, controller=replace(DDR4.controller, **changes))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: geometry(channels=3), "geometry.channels: must be a power of two; got 3"),
        (lambda: geometry(rows=0), "geometry.rows: must be a power of two; got 0"),
        (lambda: geometry(banks=64), "a channel may have 64 banks; got 256"),
        (lambda: geometry(ranks=16), "a channel may have 8 ranks; got 16"),
        (lambda: geometry(columns=64), "the mapping gives column 7 bits in 2 parts, the geometry needs 6"),
        (lambda: controller(front_end="fast"), "front_end: expected one of unified, per_bank; got 'fast'"),
        (lambda: controller(scheduler="fcfs"), "scheduler: expected one of frfcfs, frfcfs_row_hit; got 'fcfs'"),
        (lambda: controller(read_queue=0), "read_queue: must be 1 or more; got 0"),
        (lambda: controller(read_queue=1000), "a channel's queues may hold 640; got 1048"),
        (lambda: controller(write_low=30.0), "expected 0 <= write_low <= write_high < write_queue"),
        (lambda: replace(DDR4, timing=replace(DDR4.timing, cl=-1)), "timing.cl: must be from 0 to 100000; got -1"),
        (lambda: replace(DDR4, timing=replace(DDR4.timing, burst=0)), "timing.burst: must be from 1"),
    ],
)
def test_impossible_devices_are_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_default_controller_serves_hbm_with_two_command_buses() -> None:
    assert preset("hbm2_2000").controller == Controller(dual_command=True)
