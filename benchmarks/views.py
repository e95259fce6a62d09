"""Where the sum of closed forms and the simulation differ: the same tasks added up operator by operator, and simulated.

For each machine two sums over the operators of a trace: of the largest of array, vector and DRAM time (as if each
operator overlapped perfectly within itself and never with another), and of all three (as if nothing overlapped).

    python benchmarks/views.py [TRACE]
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

import accelsim

MACHINES = ("tpu_like", "tpu_v1", "tpu_v4i", "edge_32", "gemmini_16")


def operator_times(result: accelsim.Result, machine: str) -> NDArray[np.float64]:
    """[3, operators] cycles of one array, of the vector unit, and of DRAM bytes over bandwidth."""
    arch, program = accelsim.load_arch(machine), result.program
    kinds = np.array([unit.kind for unit in program.units])[program.unit]
    operators = len(result.trace.ops)

    def summed(chosen: NDArray[np.bool_], values: NDArray[np.int64], per: float) -> NDArray[np.float64]:
        return np.bincount(program.op[chosen], weights=values[chosen], minlength=operators) / per

    return np.stack(
        [
            summed(kinds == "stream", program.occupy, arch.array.count),
            summed(kinds == "vector", program.occupy, 1),
            summed(program.is_memory, program.request_bytes, float(arch.dram_bytes_per_cycle())),
        ]
    )


def main() -> None:
    trace = accelsim.load_trace(sys.argv[1] if len(sys.argv) > 1 else "bert_base_fwd_b1_s128")
    print(f"| {trace.name} on | simulated cycles | sum of the largest | ratio | sum of all | ratio |")
    print("|---|---|---|---|---|---|")
    for machine in MACHINES:
        result = accelsim.simulate(machine, trace)
        times = operator_times(result, machine)
        sums = times.max(axis=0).sum(), times.sum()
        cells = " | ".join(f"{total:,.0f} | {result.cycles / total:.2f}" for total in sums)
        print(f"| {machine} | {result.cycles:,} | {cells} |")


if __name__ == "__main__":
    main()
