"""Lowers a group that goes to the host: one kernel, which finds its operands in DRAM and leaves its results there.

The stores before it and the loads after it are the accelerator's own requests. What the host itself moves is part of
the kernel's time, at the DRAM's bandwidth, and does not meet the accelerator's requests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.fuse import elements
from accelsim.compile.machine import Machine
from accelsim.compile.produced import Finishers, produced_by
from accelsim.compile.program import HOST
from accelsim.compile.template import Block, Ports, Read, Template
from accelsim.compile.views import whole_access
from accelsim.compile.work import HOST_UNIT, VectorWork
from accelsim.hardware.host import kernel_times

Int64 = NDArray[np.int64]


def lower_host(machine: Machine, work: VectorWork, ports: Ports) -> Template:
    """The kernel of a group. All its operands are in DRAM."""
    read = sum(elements(item.view) * item.bytes for item in work.inputs)
    outputs = work.group.outputs
    written = sum(elements(view) * width for view, width in zip(outputs, work.out_bytes, strict=True))
    steps = [step.work for step in work.passes]
    times = kernel_times(work.rows, work.cols, steps, read + written, machine.host)
    unit, cycles = machine.unit_index[f"core0.{HOST_UNIT}"], times.call + times.work
    block, task = Block(), np.zeros(1, np.int64)
    block.add(
        HOST, unit, task, occupy=cycles, latency=cycles, useful=times.work, fill=times.call,
        host_ops=times.operations, host_read_bytes=read, host_write_bytes=written,
    )  # fmt: skip
    _, columns, edges = block.close()
    done = Finishers(task + unit, task, task, task)
    last = {unit: 0}
    return Template(
        size=1, columns=columns, edges=edges, claims=[], chunks={"scratchpad": 0}, loads=task[:0], served=task[:0],
        reads=[
            Read(number, item.view.offset, whole_access(item.view, item.bytes, 1).spans, task)
            for number, item in enumerate(work.inputs)
        ],
        touched_inputs=[(number, last) for number in range(len(ports.inputs))],
        dram_stores=[(number, last, last) for number in range(len(outputs))],
        produced=tuple(produced_by(max(1, elements(view)), task, task, task, task, done) for view in outputs),
        stores=0,
    )  # fmt: skip
