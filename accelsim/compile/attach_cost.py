"""Whether a matmul does better with a unit at its output that wants whole rows, or apart from it."""

from __future__ import annotations

from accelsim.arch.spec import Arch
from accelsim.arch.units import exact
from accelsim.compile.fuse import elements
from accelsim.compile.mapper import MatmulCosts, best_mapping
from accelsim.compile.place import RESIDENT_SHARE
from accelsim.compile.plan import MatmulWork
from accelsim.compile.views import is_blocked
from accelsim.errors import InputError
from accelsim.hardware.special import SpecialUnit, special_times


def why_apart(arch: Arch, apart: MatmulWork, together: MatmulWork) -> str:
    """Why the matmul is estimated to do better apart from the unit of `together`, "" where it does not.

    Apart the two follow one another; together tiles must hold whole rows of the result, which may be few, and then
    weights are loaded again and again. Both are estimated by the mapper's closed forms, with operands from DRAM and the
    part of the scratchpad that is free for tiles.
    """
    unit, view = arch.special_units[str(together.unit)], together.view
    shape = SpecialUnit(exact(unit.elements_per_cycle), unit.passes)
    cycles = int(special_times(view.batch * view.m, view.n, 0, shape).occupy)
    try:
        whole = _estimate(arch, together, cycles)
    except InputError:
        return f"no tile of whole rows of {view.n} results fits the buffers"
    alone = _estimate(arch, apart, 0)
    if whole <= alone + cycles:
        return ""
    return f"tiles of whole rows: about {whole:,} cycles; apart {alone:,}, and {cycles:,} of the {together.unit} unit"


def _estimate(arch: Arch, work: MatmulWork, epilogue_cycles: int) -> int:
    capacity = arch.scratchpad.capacity_bytes
    kept = [i for i in work.further if i.role == "whole" and not is_blocked(i.view, i.bytes, capacity)]
    streamed = sum(item.bytes for item in work.further if item not in kept)
    whole = sum(elements(item.view) * item.bytes for item in kept)
    free = int(capacity * (1 - RESIDENT_SHARE))
    rate = arch.dram_bytes_per_cycle()
    costs = MatmulCosts(
        scratchpad_bytes=free, accumulator_bytes=arch.accumulator.capacity_bytes,
        accumulator_width=arch.accumulator.width_bytes, arrays=arch.array.count, a_on_chip=False, b_on_chip=False,
        staged_bytes=sum(work.out_bytes) + streamed, stored_bytes=0,
        bias_bytes=work.bias_bytes * work.view.n + whole, load_rate=rate, store_rate=rate,
        latency=arch.dram_latency_cycles(), issue=arch.dma.issue_cycles, epilogue_cycles=epilogue_cycles,
        stream_share=None, weights_share=None,
    )  # fmt: skip
    return best_mapping(work, costs, "scratchpad.capacity_kib")[1]
