"""The scratchpad's bandwidth divided among the units that use it, once for a run, so that durations stay fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from accelsim.arch.spec import Arch
from accelsim.arch.units import exact
from accelsim.compile.work import VECTOR_UNIT, MatmulWork, VectorPass, VectorWork
from accelsim.hardware.scratchpad import bandwidth_shares
from accelsim.hardware.vector import slots_per_vector


def scratchpad_shares(arch: Arch, works: Sequence[MatmulWork | VectorWork], level2_used: bool) -> dict[str, int]:
    """Bytes a cycle of each client (MODELS, Scratchpad): max-min fair over their declared peaks.

    Raises InputError when the scratchpad cannot give every client one byte a cycle.
    """
    peaks: dict[str, int | None] = {}
    matmuls = [work for work in works if isinstance(work, MatmulWork)]
    if matmuls:
        for index in range(arch.array.count):
            for kind, peak in _array_peaks(arch, matmuls).items():
                peaks[f"core0.array{index}.{kind}"] = peak
    if vector := _vector_peak(arch, works):
        peaks["core0.vector"] = vector
    peaks.update(_special_peaks(arch, works))
    if arch.dram.model != "ideal":
        rate = arch.dram_bytes_per_cycle()
        peaks["dma"] = None if rate is None else _ceil(rate)  # loads and stores share the DRAM's bandwidth
    if level2_used:
        read, write = arch.second_level_bytes_per_cycle(), arch.second_level_bytes_per_cycle(write=True)
        peaks["level2.load"] = None if read is None else _ceil(read)
        peaks["level2.store"] = None if write is None else _ceil(write)
    shares = bandwidth_shares(arch.scratchpad.bytes_per_cycle, peaks) if peaks else {}
    return _same_for_all_arrays(shares, arch.array.count)


def _array_peaks(arch: Arch, works: Sequence[MatmulWork]) -> dict[str, int]:
    """Most bytes a cycle that one array's units move in any dataflow that it may take: a row of operands and one of
    weights in, one of results out."""
    rows, cols, flows = arch.array.rows, arch.array.cols, arch.array.dataflows
    streamed, shifted, drained = 1, 1, 1
    for work in works:
        a, b, rate = rows * work.a_bytes, cols * work.b_bytes, work.array.rate
        moving = max({"ws": a, "is": rows * work.b_bytes, "os": a + b}[flow] for flow in flows)
        still = max({"ws": b, "is": cols * work.a_bytes, "os": 0}[flow] for flow in flows)
        streamed = max(streamed, _ceil(moving * rate))
        shifted = max(shifted, _ceil(still * rate))
        width = sum(work.out_bytes)
        leave = work.array.drain_elements_per_cycle
        drained = max(drained, _ceil((cols * rate if leave is None else min(leave, Fraction(cols))) * width))
    weights = {"weights": shifted} if set(flows) - {"os"} else {}
    return {"stream": streamed, **weights, "drain": drained}


def _vector_peak(arch: Arch, works: Sequence[MatmulWork | VectorWork]) -> int:
    """Most bytes a cycle that any pass moves when nothing but arithmetic limits it."""
    peak = 0
    for step in _passes(works):
        if step.unit != VECTOR_UNIT or arch.vector is None:
            continue
        moved = step.work.read_bytes_per_element + step.work.write_bytes_per_element
        slots = slots_per_vector(step.work.functions, arch.vector.rate)
        per_row = step.work.read_bytes_per_row + step.work.write_bytes_per_row
        peak = max(peak, _ceil(arch.vector.lanes * (moved + per_row) / (slots or Fraction(1))))
    return peak


def _special_peaks(arch: Arch, works: Sequence[MatmulWork | VectorWork]) -> dict[str, int]:
    """Most bytes a cycle that each dedicated unit moves while it takes elements at its rate."""
    peaks: dict[str, int] = {}
    for step in _passes(works):
        if (unit := arch.special_units.get(step.unit)) is not None:
            moved = step.work.read_bytes_per_element + step.work.write_bytes_per_element
            peak = _ceil(exact(unit.elements_per_cycle) * moved / unit.passes)
            peaks[f"core0.{step.unit}"] = max(peak, peaks.get(f"core0.{step.unit}", 1))
    return peaks


def _passes(works: Sequence[MatmulWork | VectorWork]) -> Iterator[VectorPass]:
    for work in works:
        yield from work.epilogue if isinstance(work, MatmulWork) else work.passes


def _same_for_all_arrays(shares: dict[str, int], arrays: int) -> dict[str, int]:
    """Left-over single bytes must not make equal arrays unequal: each gets what the poorest of them got."""
    for kind in ("stream", "weights", "drain"):
        names = [f"core0.array{index}.{kind}" for index in range(arrays)]
        if names[0] in shares:
            least = min(shares[name] for name in names)
            shares.update(dict.fromkeys(names, least))
    return shares


def _ceil(value: Fraction | int) -> int:
    return -(-value.numerator // value.denominator)
