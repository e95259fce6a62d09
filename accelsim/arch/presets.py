"""The DRAM devices a machine description may name: read from the table dram_presets.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class DramPreset:
    """One speed grade of one DRAM interface."""

    name: str
    family: str
    data_rate_mtps: int  # million transfers a second on one pin
    channel_bits: int
    latency_ns: float  # closed-row read of the device alone

    @property
    def channel_gbps(self) -> Fraction:
        """Peak bandwidth of one channel in 1e9 bytes a second: data rate x width / 8."""
        return Fraction(self.data_rate_mtps * self.channel_bits, 8000)


@cache
def dram_presets() -> Mapping[str, DramPreset]:
    """All presets by name, in the order of the table."""
    table = yaml.safe_load(Path(__file__).with_name("dram_presets.yaml").read_text(encoding="utf-8"))
    return {name: DramPreset(name=name, **entry) for name, entry in table.items()}
