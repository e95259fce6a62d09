"""Area of a machine by component, from the table of areas (docs/area.md): no run is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING

from accelsim.energy import Price
from accelsim.measure.prices import PriceList, Spread, added, area_prices, memories
from accelsim.trace.model import DTYPE_BYTES

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch, Vector

UM2_PER_MM2 = 1e6
# The array's entry for a MAC of dtypes that have no multiplier of their own.
_MAC_DTYPE = {"bool": "int8"}


@dataclass(frozen=True)
class AreaReport:
    """Area of a machine in mm2: (low, nominal, high) of each component, and the entries that counted, as charged."""

    by_component: Mapping[str, Spread]
    prices: Mapping[str, Price]

    @property
    def sources(self) -> Mapping[str, str]:
        """For each entry that counted how its number is known."""
        return {key: price.kind for key, price in self.prices.items()}

    @property
    def total_mm2(self) -> Spread:
        """(low, nominal, high) of all components together."""
        return added(self.by_component.values())


def area_of(arch: Arch) -> AreaReport:
    """Area of the machine's arrays, vector unit, dedicated units and memories. A host has none here.

    Raises InputError, with the nearest valid name, for an override of no entry, and for a technology that the table
    does not scale to.
    """
    prices = area_prices(arch)
    parts = {component: price.times(count).spread for component, count, price in _terms(prices)}
    return AreaReport(parts, prices.used)


def special_area(prices: PriceList, kind: str, elements_per_cycle: float) -> Spread:
    """(low, nominal, high) in mm2 of a dedicated `softmax`, `layernorm` or `gelu` unit of that rate, on the die."""
    return _special_element(prices, kind).times(elements_per_cycle).spread


def _special_element(prices: PriceList, kind: str) -> Price:
    """A dedicated unit of one element a cycle, in mm2."""
    placed = prices.price(f"{kind}_um2_per_element").combined(prices.price("logic_placement"), mul)
    return placed.times(1 / UM2_PER_MM2)


def _terms(prices: PriceList) -> Iterator[tuple[str, float, Price]]:
    """Component, how many, mm2 of one."""
    arch, array = prices.arch, prices.arch.array
    processing_elements = array.count * array.rows * array.cols
    element = prices.made("array_pe_um2", lambda: _processing_element(prices))
    yield "array", processing_elements, element.times(1 / UM2_PER_MM2)
    if (vector := arch.vector) is not None:
        lane = prices.made("vector_lane_um2", lambda: _lane(prices, vector))
        yield "vector", vector.lanes, lane.times(1 / UM2_PER_MM2)
    for kind, unit in arch.special_units.items():
        yield f"{kind}_unit", unit.elements_per_cycle, _special_element(prices, kind)
    for memory, built in memories(arch).items():
        yield memory, built.banks * built.capacity_bytes / 1024, _memory(prices, memory)


def _memory(prices: PriceList, name: str) -> Price:
    """A KiB of a memory on the die."""

    def placed() -> Price:
        return prices.price(f"{name}_bare_mm2_per_kib").combined(prices.price("sram_placement"), mul)

    return prices.made(f"{name}_mm2_per_kib", placed)


def _processing_element(prices: PriceList) -> Price:
    """The dearest MAC of the dtypes it takes, each times its rate (they share one multiplier), and its registers."""
    rates = {tuple(pair.split(" x ")): float(rate) for pair, rate in prices.arch.array.rate.items()}
    macs = [prices.price(_mac_key(prices, pair)).times(rate) for pair, rate in rates.items()]
    registers = prices.price("register_um2_per_bit").times(register_bits(prices.arch))
    return _placed(prices, reduce(lambda a, b: a.combined(b, max), macs), registers)


def register_bits(arch: Arch) -> float:
    """Bits that a processing element holds: operands and sum, what stays in it twice if double-buffered.

    An array that may take several dataflows has the registers of the one that needs most: each uses the same ones.

    An operand is as wide as the dtypes need in one step: fp32 at a rate of 1/4 passes in four steps of 8 bits.
    """
    pairs = [(pair.split(" x "), float(rate)) for pair, rate in arch.array.rate.items()]
    operand = max(8 * max(DTYPE_BYTES[dtype] for dtype in dtypes) * rate for dtypes, rate in pairs)
    total = 8 * arch.accumulator.width_bytes
    flows = arch.array.dataflows
    outputs = 2 * operand + total * (1 + arch.array.output_double_buffer) if "os" in flows else 0.0
    operands = operand * (2 + arch.array.weight_double_buffer) + total if set(flows) - {"os"} else 0.0
    return max(outputs, operands)


def _lane(prices: PriceList, vector: Vector) -> Price:
    """Arithmetic and registers of a lane, and special functions at the rate of its fastest."""
    special = prices.price("vector_special_um2").times(float(max(vector.rate.values())))
    return _placed(prices, prices.price("vector_alu_um2_per_lane"), special)


def _placed(prices: PriceList, *synthesised: Price) -> Price:
    return reduce(lambda a, b: a.combined(b, add), synthesised).combined(prices.price("logic_placement"), mul)


def _mac_key(prices: PriceList, dtypes: Sequence[str]) -> str:
    return prices.mac_key(*(_MAC_DTYPE.get(dtype, dtype) for dtype in dtypes))
