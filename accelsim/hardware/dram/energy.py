"""Energy of the DRAM devices from counts of commands: data-sheet currents, or an average per bit.

From currents (Micron TN-40-07, as DRAMsim3 applies it): a current above the standby current, times the supply voltage,
times the time it flows. mA x V x ns = pJ. I/O, termination, VPP and power-down are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from accelsim.errors import InternalError
from accelsim.hardware.dram.device import Device

COMPONENTS = ("activate", "read", "write", "refresh", "active_standby", "precharge_standby")


def command_energies_pj(device: Device) -> dict[str, float]:
    """Energy of one command, and of one rank for one clock of standby, by COMPONENTS."""
    power, t = device.power, device.timing
    if power is None:
        raise InternalError(f"the energy of {device.name} was asked for, but it has no currents")
    activate = power.idd0 * t.rc - (power.idd3n * t.ras + power.idd2n * t.rp)
    charges = (  # mA x clocks
        activate,
        (power.idd4r - power.idd3n) * t.burst,
        (power.idd4w - power.idd3n) * t.burst,
        (power.idd5ab - power.idd3n) * t.rfc,
        power.idd3n,
        power.idd2n,
    )
    scale = power.vdd * power.devices * t.clock_ps / 1000
    return {name: charge * scale for name, charge in zip(COMPONENTS, charges, strict=True)}


def energy_pj(device: Device, counts: Mapping[str, int], clocks: int) -> dict[str, float] | None:
    """Energy by component over `clocks` DRAM clocks, None if the device has neither currents nor energy per bit.

    `counts`: activate, read, write and refresh commands, and `active`, the rank-clocks with a row open. With an energy
    per bit the components are read and write alone, all the rest being part of that average.
    """
    if device.power is not None:
        each = command_energies_pj(device)
        ranks = device.geometry.channels * device.geometry.ranks
        times = dict(counts)
        times["active_standby"] = times.pop("active")
        times["precharge_standby"] = ranks * clocks - times["active_standby"]
        return {name: each[name] * times[name] for name in COMPONENTS}
    if device.energy_pj_per_bit is not None:
        bits = 8 * device.geometry.transaction_bytes
        return {name: counts[name] * bits * device.energy_pj_per_bit for name in ("read", "write")}
    return None
