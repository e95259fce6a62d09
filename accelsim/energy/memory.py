"""Energy, leakage and area of a machine's memory: CACTI's figures for its organisation, held to published chips.

CACTI (accelsim.energy.sram) says how a memory's figures change with capacity, width and cell; it computes bare arrays.
Published energies of a 64 bit access say what such an access costs in a chip, with its wires, clock and control. The
nominal energy is therefore CACTI's times what a published access costs over CACTI's figure for it; the bare array is
the low end (docs/sram.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accelsim.energy.sram import Sram, sram_table
from accelsim.energy.value import Price

Published = Mapping[float, Mapping[float, float]]  # nm -> KiB -> pJ of one access of PUBLISHED_BITS, both ascending

PUBLISHED_BITS = 64
HIGH = 1.3  # independent estimates of one thing differ by about this much
LEAKAGE_SPREAD = 2.0  # CACTI's leakage between the nodes that it computes is good to this factor (docs/sram.md)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as it is built: `banks` alike, each of `capacity_bytes` and `width_bits` an access, of one cell type."""

    capacity_bytes: float
    width_bits: float
    cell: str
    banks: int = 1

    def computed(self, technology_nm: float, *, capacity_bytes: float = 0, width_bits: float = 0) -> Sram:
        """CACTI's figures of one bank, or of a bank of another capacity or width; a bank has a byte at least."""
        capacity = max(capacity_bytes or self.capacity_bytes, 1.0)
        return _look_up(capacity, width_bits or self.width_bits, technology_nm, self.cell)


@lru_cache(maxsize=4096)  # a sweep asks for the same few memories thousands of times
def _look_up(capacity_bytes: float, width_bits: float, technology_nm: float, cell: str) -> Sram:
    return sram_table().look_up(capacity_bytes, width_bits, technology_nm, cell)


def memory_price(figure: str, memory: Memory, technology_nm: float, published: Published) -> Price:
    """`read_pj` or `write_pj` of a byte, `leakage_mw` or bare `area_mm2` of a KiB of the memory at a node."""
    if figure in ("read_pj", "write_pj"):
        return _per_byte(figure, memory, technology_nm, published)
    found = memory.computed(technology_nm)
    per_kib = float(getattr(found.figures, figure)) / max(memory.capacity_bytes, 1.0) * 1024
    spread = LEAKAGE_SPREAD if figure == "leakage_mw" else 1.0
    return Price(per_kib / spread, per_kib, per_kib * spread, _kind(found))


def _per_byte(figure: str, memory: Memory, technology_nm: float, published: Published) -> Price:
    """Energy of a byte. Low is the bare array; high takes the published energy per bit at any width, and more."""
    in_a_chip = _in_a_chip(memory.capacity_bytes / 1024, technology_nm, published)
    own, narrow = memory.computed(technology_nm), memory.computed(technology_nm, width_bits=PUBLISHED_BITS)
    bare = float(getattr(own.figures, figure)) / (memory.width_bits / 8)
    as_narrow = float(getattr(narrow.figures, figure)) / (PUBLISHED_BITS / 8) * in_a_chip
    nominal = bare * in_a_chip
    kind = _energy_kind(figure, memory, own, technology_nm, published)
    return Price(min(bare, nominal), nominal, HIGH * max(bare, nominal, as_narrow), kind)


def _in_a_chip(size_kib: float, technology_nm: float, published: Published) -> float:
    """Published energy of an access over CACTI's, both for PUBLISHED_BITS and the nearest published size.

    Between the published nodes the ratio is linear in logarithms, but an access costs no less than at the finer node.
    """
    known = [_published_pj(sizes, size_kib) for sizes in published.values()]
    ratios = [energy / _computed_pj(published, size_kib, node) for node, energy in zip(published, known, strict=True)]
    ratio = float(np.exp(np.interp(np.log(technology_nm), np.log(list(published)), np.log(ratios))))
    finer = [energy for node, energy in zip(published, known, strict=True) if node <= technology_nm]
    return max(ratio, max(finer, default=0.0) / _computed_pj(published, size_kib, technology_nm))


def _published_pj(sizes: Mapping[float, float], size_kib: float) -> float:
    """Energy of an access to a memory of this size, linear in logarithms, constant beyond the published sizes."""
    return float(np.exp(np.interp(np.log(size_kib), np.log(list(sizes)), np.log(list(sizes.values())))))


def _computed_pj(published: Published, size_kib: float, technology_nm: float) -> float:
    """CACTI's energy of reading PUBLISHED_BITS from an hp memory of the nearest published size."""
    sizes = next(iter(published.values()))
    nearest_kib = min(max(size_kib, min(sizes)), max(sizes))
    return Memory(nearest_kib * 1024, PUBLISHED_BITS, "hp").computed(technology_nm).figures.read_pj


def _energy_kind(figure: str, memory: Memory, own: Sram, technology_nm: float, published: Published) -> str:
    """How an energy is known; the rule by which CACTI's figures reach a node cancels out in the ratio."""
    sizes, nodes, size_kib = next(iter(published.values())), list(published), memory.capacity_bytes / 1024
    is_the_access = (figure, memory.width_bits, memory.cell) == ("read_pj", PUBLISHED_BITS, "hp")
    if is_the_access and technology_nm in nodes and size_kib in sizes:
        return "published"
    inside = min(sizes) <= size_kib <= max(sizes) and nodes[0] <= technology_nm <= nodes[-1]
    return "interpolated" if inside and not set(own.rules) - {"node_power"} else "extrapolated"


def _kind(found: Sram) -> str:
    return "computed" if found.kind == "measured" else found.kind
