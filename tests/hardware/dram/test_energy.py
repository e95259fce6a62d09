from dataclasses import replace

import numpy as np
import pytest

from accelsim.errors import InternalError
from accelsim.hardware.dram import preset, simulate_requests
from accelsim.hardware.dram.energy import command_energies_pj, energy_pj

DDR4 = preset("ddr4_2400")
COUNTS = {"activate": 3, "read": 5, "write": 7, "refresh": 2, "active": 100}


def test_energy_of_a_command_follows_from_currents() -> None:
    """DDR4-2400: a read burst takes (135 - 43) mA x 1.2 V x 4 clocks of 0.833 ns in 8 devices."""
    each = command_energies_pj(DDR4)
    assert each["read"] == pytest.approx((135 - 43) * 1.2 * 4 * 0.833 * 8)
    assert each["activate"] == pytest.approx((48 * 55 - (43 * 39 + 34 * 16)) * 1.2 * 0.833 * 8)
    assert each["active_standby"] > each["precharge_standby"] > 0


@pytest.mark.parametrize("name", ["activate", "read", "write", "refresh"])
def test_energy_scales_with_its_own_counter_only(name: str) -> None:
    once = energy_pj(DDR4, COUNTS, 1000)
    twice = energy_pj(DDR4, {**COUNTS, name: 2 * COUNTS[name]}, 1000)
    assert twice[name] == 2 * once[name]
    assert {key: value for key, value in twice.items() if key != name} == {
        key: value for key, value in once.items() if key != name
    }


def test_standby_energy_splits_the_time_between_open_and_closed() -> None:
    each, got = command_energies_pj(DDR4), energy_pj(DDR4, COUNTS, 1000)
    assert got["active_standby"] == each["active_standby"] * 100
    assert got["precharge_standby"] == each["precharge_standby"] * 900


def test_energy_per_bit_is_charged_for_data_alone() -> None:
    hbm = preset("hbm2_2000", channels=8)
    stats = simulate_requests(hbm, np.arange(100) * 32, False)
    assert stats.energy_by_component_pj == {"read": pytest.approx(100 * 256 * 3.92), "write": 0.0}


def test_unknown_energy_is_not_made_up() -> None:
    unknown = replace(DDR4, power=None)
    assert simulate_requests(unknown, [0], False).energy_pj is None
    with pytest.raises(InternalError, match="no currents"):
        command_energies_pj(unknown)
