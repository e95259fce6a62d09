"""`simulate_requests`: a stream of reads and writes through the DRAM, command by command."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.errors import InputError, InternalError
from accelsim.hardware.dram.device import Device
from accelsim.hardware.dram.energy import energy_pj
from accelsim.hardware.dram.state import State, new_state
from accelsim.hardware.dram.stream import run_stream


@dataclass(frozen=True)
class DramStats:
    """What became of a stream of requests. Times in DRAM clocks.

    end_cycle: the larger of the last datum's arrival and the end of the last write burst.
    commands: how many of each; PREpb and PREab of one bank and of a rank (`per_bank` devices: PRE alone); LPDDR5's
    activate is ACT1 and ACT2. A command that never issued counts 0.
    mean_read_latency: from acceptance to the arrival of the datum, None without reads.
    forwarded, coalesced, merged: requests that cost no command: reads answered by a waiting write, writes absorbed by
    one, reads that shared another read's command. unsent_writes: still in the write queue at the end (only a device
    that reproduces DRAMsim3).
    active_clocks, clocks: rank-clocks with a row open, and DRAM clocks in all.
    bus_overlaps: bursts that began before the last one on their data bus had ended. No preset has any; Ramulator 2.1's
    two ranks on one bus have, because its table leaves out one of the gaps between ranks.
    energy_by_component_pj: see module energy; None if the device has no figures.
    """

    end_cycle: int
    commands: Counter[str]
    mean_read_latency: float | None
    forwarded: int
    coalesced: int
    merged: int
    unsent_writes: int
    bus_bytes: int
    row_hits: int
    bus_overlaps: int
    active_clocks: int
    clocks: int
    energy_by_component_pj: dict[str, float] | None

    @property
    def energy_pj(self) -> float | None:
        """Sum of the components."""
        return None if self.energy_by_component_pj is None else sum(self.energy_by_component_pj.values())

    def bandwidth_share(self, device: Device) -> float:
        """Bytes moved over what the data buses could have moved until `end_cycle`."""
        return self.bus_bytes / (self.end_cycle * device.peak_bytes_per_clock) if self.end_cycle else 0.0


def simulate_requests(
    device: Device, addresses: ArrayLike, is_write: ArrayLike, interval: int = 0, window: int = 0
) -> DramStats:
    """Send requests in order, each as soon as its queue accepts it, and count what happens.

    addresses: [n] byte addresses, each one transaction; is_write: [n] bool, or one bool for all. Request i is not
    offered before clock i x `interval`, nor while `window` requests are outstanding (0: no limit). A request that is
    refused holds up all later ones. A read is outstanding until its datum is there, a write until its command issues
    (`per_bank`: for one clock). Raises InputError for a negative address, interval or window, or lengths that differ.
    """
    flat, writes = _checked(addresses, is_write, interval, window)
    state = new_state(device)
    last_clock = run_stream(state, flat, writes, interval, window)
    stats = collect(device, state, last_clock)
    _conserve(stats, flat.size)
    return stats


def _checked(
    addresses: ArrayLike, is_write: ArrayLike, interval: int, window: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    flat = np.ascontiguousarray(addresses, np.int64)
    writes = np.asarray(is_write, np.bool_)
    if flat.ndim != 1:
        raise InputError("expected a list of addresses", where="addresses", value=flat.shape)
    if writes.ndim == 0:
        writes = np.full(flat.size, writes)
    if writes.shape != flat.shape:
        raise InputError("expected one entry per address", where="is_write", value=writes.shape)
    for name, value in (("addresses", int(flat.min(initial=0))), ("interval", interval), ("window", window)):
        if value < 0:
            raise InputError("must not be negative", where=name, value=value)
    return flat, np.ascontiguousarray(writes)


def collect(device: Device, state: State, last_clock: int) -> DramStats:
    """The statistics of a state in which nothing is under way any more."""
    total = {name: int(state.channels[name].sum()) for name in _COUNTERS}
    last_write = int(state.channels["last_write"].max())
    end_write = last_write + device.timing.write_latency if last_write >= 0 else 0
    reads, columns = total["read_count"], total["rd"] + total["wr"]
    clocks = last_clock + (device.controller.front_end == "per_bank")  # that one counts clocks from 0
    counts = _energy_counts(state, total, clocks)
    return DramStats(
        end_cycle=max(0, int(state.channels["last_read"].max()), end_write),
        commands=_commands(device, total),
        mean_read_latency=total["latency_sum"] / reads if reads else None,
        forwarded=total["forwarded"],
        coalesced=total["coalesced"],
        merged=total["merged"],
        unsent_writes=total["writes"],
        bus_bytes=columns * device.geometry.transaction_bytes,
        row_hits=columns - total["act"],
        bus_overlaps=total["overlaps"],
        active_clocks=counts["active"],
        clocks=clocks,
        energy_by_component_pj=energy_pj(device, counts, clocks),
    )


_COUNTERS = (
    "writes", "act", "pre", "prea", "rd", "wr", "ref", "act2", "cas_rd", "cas_wr", "forwarded", "coalesced", "merged",
    "latency_sum", "read_count", "overlaps",
)  # fmt: skip


def _commands(device: Device, total: dict[str, int]) -> Counter[str]:
    commands = Counter(RD=total["rd"], WR=total["wr"], REFab=total["ref"])
    if device.timing.aad:
        commands.update(ACT1=total["act"], ACT2=total["act2"], CAS_RD=total["cas_rd"], CAS_WR=total["cas_wr"])
    else:
        commands.update(ACT=total["act"])
    if device.controller.front_end == "per_bank":
        commands.update(PRE=total["pre"])
    else:
        commands.update(PREpb=total["pre"], PREab=total["prea"])
    return commands


def _energy_counts(state: State, total: dict[str, int], clocks: int) -> dict[str, int]:
    ranks: NDArray[Any] = state.channels["ranks"]
    still_open = np.where(ranks["open"] > 0, clocks - ranks["active_since"], 0)
    return {
        "activate": total["act"],
        "read": total["rd"],
        "write": total["wr"],
        "refresh": total["ref"],
        "active": int((ranks["active_clocks"] + still_open).sum()),
    }


def _conserve(stats: DramStats, requests: int) -> None:
    """Every request was served by a command, answered without one, or still waits."""
    served = stats.commands["RD"] + stats.commands["WR"]
    accounted = served + stats.forwarded + stats.coalesced + stats.merged + stats.unsent_writes
    if accounted != requests:
        raise InternalError(f"{requests} requests were sent to the DRAM, {accounted} are accounted for: {stats}")
