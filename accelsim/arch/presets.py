"""The DRAM devices a machine description may name: from the table of the hardware, without loading its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import yaml

_TABLE = Path(__file__).parents[1] / "hardware" / "dram" / "presets.yaml"


@dataclass(frozen=True, slots=True)
class DramPreset:
    """One speed grade of one DRAM interface."""

    name: str
    family: str
    data_rate_mtps: int  # million transfers a second on one pin
    channel_bits: int
    latency_ns: float  # closed-row read of the device alone: activate, column command, burst

    @property
    def channel_gbps(self) -> Fraction:
        """Peak bandwidth of one channel in 1e9 bytes a second: data rate x width / 8."""
        return Fraction(self.data_rate_mtps * self.channel_bits, 8000)


@cache
def dram_presets() -> Mapping[str, DramPreset]:
    """All presets by name, in the order of the table."""
    table = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return {
        name: DramPreset(
            name, entry["family"], entry["data_rate_mtps"], entry["channel_bits"], _closed_row_ns(entry["timing"])
        )
        for name, entry in table.items()
    }


def _closed_row_ns(timing: Mapping[str, int]) -> float:
    """(tRCD + CL + burst) x tCK, to the nanosecond."""
    return float(round((timing["rcd_rd"] + timing["cl"] + timing["burst"]) * timing["clock_ps"] / 1000))
