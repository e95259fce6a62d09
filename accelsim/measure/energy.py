"""Energy of a run: counts x energy per action + static power x time, by component and by operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import COUNTERS, Program
from accelsim.energy import Price
from accelsim.engine.timeline import Timeline
from accelsim.errors import InternalError
from accelsim.measure.dram_energy import Term, by_bytes, by_commands, has_own_standby
from accelsim.measure.operators import OperatorSums, operator_sums
from accelsim.measure.prices import PriceList, Spread, added, price_list
from accelsim.trace.model import DTYPE_BYTES, Op, Trace

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch

__all__ = ["ACCESSES", "EnergyReport", "PriceList", "bits_moved", "energy_from_sums", "energy_of", "price_list"]

Counts = Sequence[int | Fraction]  # one exact count an operator; not whole where several share what was counted once

# What an access counter costs: component, counters, entry of the energy table. Bytes, elements (accumulator: times its
# width) or lane operations, as COUNTERS says.
ACCESSES = (
    ("accumulator", ("accumulator_reads", "accumulator_drain_reads"), "accumulator_read_pj_per_byte"),
    ("accumulator", ("accumulator_writes",), "accumulator_write_pj_per_byte"),
    ("scratchpad", ("scratchpad_read_bytes",), "scratchpad_read_pj_per_byte"),
    ("scratchpad", ("scratchpad_write_bytes",), "scratchpad_write_pj_per_byte"),
    ("level2", ("level2_read_bytes",), "level2_read_pj_per_byte"),
    ("level2", ("level2_write_bytes",), "level2_write_pj_per_byte"),
    ("vector", ("vector_simple_ops",), "vector_simple_pj"),
    ("vector", ("vector_special_ops",), "vector_special_pj"),
    ("special", ("softmax_elements",), "softmax_pj_per_element"),
    ("special", ("layernorm_elements",), "layernorm_pj_per_element"),
    ("special", ("gelu_elements",), "gelu_pj_per_element"),
    ("special", ("special_input_ops",), "special_input_pj"),
    ("host", ("host_ops",), "host_op_pj"),
    ("host_dram", ("host_read_bytes",), "dram_read_pj_per_byte"),
    ("host_dram", ("host_write_bytes",), "dram_write_pj_per_byte"),
)


@dataclass(frozen=True)
class EnergyReport:
    """Energy of a run in pJ.

    `by_component` gives (low, nominal, high) of each component; `by_operator` [operators] is nominal, dynamic energy by
    the operator's own tasks and static energy by its share of the run's cycles; both sum to the same. `prices` are the
    entries of the table that counted, as charged, `sources` how each is known: published, measured, computed,
    interpolated, extrapolated or override.
    """

    by_component: Mapping[str, Spread]
    by_operator: NDArray[np.float64]
    prices: Mapping[str, Price]

    @property
    def sources(self) -> Mapping[str, str]:
        """For each entry that counted how its number is known."""
        return {key: price.kind for key, price in self.prices.items()}

    @property
    def total_pj(self) -> Spread:
        """(low, nominal, high) of all components together."""
        return added(self.by_component.values())


def energy_of(
    program: Program, timeline: Timeline, arch: Arch, trace: Trace, operator_cycles: NDArray[np.int64]
) -> EnergyReport:
    """Energy of a run. `operator_cycles` [operators] are critical-path cycles, by which static energy is shared.

    Raises InputError for what `price_list` refuses, and for MACs of a dtype that the table has no entry for.
    """
    return energy_from_sums(operator_sums(program, timeline, arch, trace), timeline.total, arch, trace, operator_cycles)


def energy_from_sums(
    sums: OperatorSums, total_cycles: int, arch: Arch, trace: Trace, operator_cycles: NDArray[np.int64]
) -> EnergyReport:
    """As `energy_of`, from the sums over each operator's tasks."""
    prices = price_list(arch)
    cycles = operator_cycles.tolist()
    terms = [*_array_terms(sums, trace, prices), *_access_terms(sums, prices), *_dram_terms(sums, cycles, prices)]
    terms += _static_terms(prices, total_cycles, cycles, has_own_standby(sums.dram))
    parts: dict[str, list[Spread]] = {"array_mac": [], "array_registers": []}
    for component, counts, price in terms:
        parts.setdefault(component, []).append(_times(price, sum(counts)))
    operators = zip(*(_charged(counts, price.nominal) for _, counts, price in terms), strict=True)
    return EnergyReport(
        by_component={component: added(charged) for component, charged in parts.items()},
        by_operator=np.array([fsum(row) for row in operators], np.float64),
        prices=prices.used,
    )


def _array_terms(sums: OperatorSums, trace: Trace, prices: PriceList) -> Iterator[Term]:
    """MACs by the dtypes of their operands, and the bits they move from register to register."""
    macs = _macs_by_kind(sums, trace, prices.arch.array.dataflows[0])
    bits: Counts = [0] * len(trace.ops)
    by_key: dict[str, list[int | Fraction]] = {}
    for (a, b, flow), counts in macs.items():
        key = prices.mac_key(a, b)
        by_key[key] = [x + y for x, y in zip(by_key.get(key, [0] * len(counts)), counts, strict=True)]
        moved = bits_moved(prices.arch, a, b, flow)
        bits = [total + count * moved for total, count in zip(bits, counts, strict=True)]
    for key, counts in by_key.items():
        yield "array_mac", counts, prices.price(key)
    if macs:
        yield "array_registers", bits, prices.price("array_register_pj_per_bit")


def _access_terms(sums: OperatorSums, prices: PriceList) -> Iterator[Term]:
    """Accesses to accumulator, scratchpad and second level, operations of the vector lanes, and what dedicated units
    and a host do."""
    there = components_of(prices.arch)
    width = prices.arch.accumulator.width_bytes
    for component, counters, key in ACCESSES:
        counts = sums.counters[:, [COUNTERS.index(name) for name in counters]].tolist()
        per_count = width if component == "accumulator" else 1
        totals = [sum(row) * per_count for row in counts]
        if not there.get(component, True):
            if any(totals):
                raise InternalError(f"{counters} counted on a machine without {_WORDS.get(component, component)}")
            continue
        yield component, totals, prices.price(key)


_WORDS = {"level2": "a second level"}


def components_of(arch: Arch) -> dict[str, bool]:
    """Whether the machine has what not every machine has."""
    host = arch.vector is None
    return {
        "level2": arch.second_level is not None,
        "vector": not host,
        "special": bool(arch.special_units),
        "host": host,
        "host_dram": host,
    }


def _dram_terms(sums: OperatorSums, operator_cycles: Sequence[int], prices: PriceList) -> Iterator[Term]:
    if sums.dram is None:
        yield from by_bytes(sums.read_bytes.tolist(), sums.write_bytes.tolist(), prices)
    else:
        yield from by_commands(sums.dram, operator_cycles, prices)


def _static_terms(
    prices: PriceList, total_cycles: int, operator_cycles: Sequence[int], without_dram: bool
) -> Iterator[Term]:
    """Static power x time, each operator for its own cycles; mW x ns = pJ. Nothing for a run that takes no time."""
    if sum(operator_cycles) != total_cycles:
        raise InternalError(f"operators take {sum(operator_cycles)} cycles, the run {total_cycles}")
    nanoseconds = 10**9 / prices.arch.clock_hz
    for component, key, units in static_parts(prices.arch):
        if component == "static_dram" and without_dram:
            continue
        yield component, operator_cycles, prices.price(key).times(float(nanoseconds * units))


def static_parts(arch: Arch) -> Iterator[tuple[str, str, Fraction]]:
    """Component, entry and number (PEs, lanes, KiB, channels) of everything that draws power all the time."""
    array = arch.array
    yield "static_array", "array_leakage_mw_per_pe", Fraction(array.count * array.rows * array.cols)
    yield "static_accumulator", "accumulator_leakage_mw_per_kib", Fraction(arch.accumulator.capacity_bytes, 1024)
    yield "static_scratchpad", "scratchpad_leakage_mw_per_kib", Fraction(arch.scratchpad.capacity_bytes, 1024)
    if arch.second_level is not None:
        yield "static_level2", "level2_leakage_mw_per_kib", Fraction(arch.second_level.capacity_bytes, 1024)
    if arch.vector is not None:
        yield "static_vector", "vector_leakage_mw_per_lane", Fraction(arch.vector.lanes)
    if units := arch.special_units.values():
        rate = sum((Fraction(unit.elements_per_cycle) for unit in units), Fraction(0))
        yield "static_special", "special_leakage_mw_per_element", rate
    yield "static_dram", "dram_background_mw_per_channel", Fraction(arch.dram.channels)


def _macs_by_kind(sums: OperatorSums, trace: Trace, usual: str) -> dict[tuple[str, str, str], list[int | Fraction]]:
    """For each pair of operand dtypes and dataflow the MACs that the Program runs, by operator.

    usual: the dataflow where no plan tells one.

    Where matmuls of several dtypes are fused, recomputed MACs are shared in proportion to their own.
    """
    found: dict[tuple[str, str, str], list[int | Fraction]] = {}
    for op in trace.ops:
        if op.macs:
            head = sums.head[op.id]
            kind = (*_dtypes(op, trace), sums.dataflow[head] or usual)
            counts = found.setdefault(kind, [0] * len(trace.ops))
            share = Fraction(op.macs, sums.macs[head])
            counts[head] += sums.placed_macs[head] * (1 if share == 1 else share)
    stray = [op for op, placed in enumerate(sums.placed_macs) if placed and not sums.macs[op]]
    if stray:
        raise InternalError(f"operator {stray[0]} runs MACs, but no matmul of the trace belongs to it")
    return found


def _dtypes(op: Op, trace: Trace) -> tuple[str, str]:
    a, b = (trace.tensors[operand.tensor].dtype for operand in op.inputs[:2])
    return a, b


def bits_moved(arch: Arch, a: str, b: str, dataflow: str) -> int:
    """Bits that move into a register for each MAC: the operands that flow through the array, and the sum.

    Weight-stationary arrays move a, input-stationary ones b, output-stationary ones both.
    """
    flowing = {"ws": (a,), "is": (b,), "os": (a, b)}[dataflow]
    return 8 * (sum(DTYPE_BYTES[dtype] for dtype in flowing) + arch.accumulator.width_bytes)


def _charged(counts: Counts, price: float) -> list[float]:
    return [float(count) * price for count in counts]


def _times(price: Price, count: int | Fraction) -> Spread:
    low, nominal, high = (float(count) * each for each in price.spread)
    return low, nominal, high
