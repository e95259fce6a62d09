"""Every measured stream gives the same end, commands, latency and energy as the simulator that it was measured on."""

import pytest

from accelsim.hardware.dram import device_from_oracle
from tests.hardware.dram.oracle import cases, config, oracle, simulated, stream
from tests.hardware.dram.stimuli import sha256_16

CONFIGS = sorted(oracle()["configs"])


def of_config(name: str) -> list[dict]:
    return [case for case in cases() if case["config"] == name]


@pytest.mark.parametrize("name", CONFIGS)
def test_streams_are_the_measured_ones(name: str) -> None:
    for case in of_config(name):
        assert sha256_16(stream(case)) == case["sha256_16"], case["stimulus"]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_case_is_exact(name: str) -> None:
    """To the clock and the command. DRAMsim3's last writes, which it never sends, are kept as it keeps them."""
    for case in of_config(name):
        stats = simulated(case)
        assert stats.end_cycle == case["end_cycle"], case["stimulus"]
        assert {name: count for name, count in stats.commands.items() if count} == case["commands"], case["stimulus"]
        assert stats.unsent_writes == case.get("undrained_tail_writes", 0), case["stimulus"]
        if case["mean_read_latency"] is not None:  # given to four digits after the point
            assert stats.mean_read_latency == pytest.approx(case["mean_read_latency"], abs=1e-4), case["stimulus"]
        if "total_energy_pj" in case:
            assert stats.energy_pj == pytest.approx(case["total_energy_pj"], rel=1e-9), case["stimulus"]


def test_peak_and_row_stride_are_those_of_the_configuration() -> None:
    for case in cases():
        device, given = device_from_oracle(config(case)), config(case)
        assert device.peak_bytes_per_clock == given["peak_bytes_per_cycle"]
        geometry = device.geometry
        assert geometry.transaction_bytes == given["tx_bytes"]
        row_bytes = geometry.columns * geometry.transaction_bytes
        stride = row_bytes * geometry.banks_per_channel * geometry.channels
        assert stride == given["row_stride_bytes"]
