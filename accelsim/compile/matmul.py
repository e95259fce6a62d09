"""Lowers a matmul group: weights, stream and drain (or epilogue) tasks of all its tiles, with their edges."""

from __future__ import annotations

import numpy as np

from accelsim.compile.array_tasks import MatmulTasks, template_of
from accelsim.compile.candidates import Tiling
from accelsim.compile.machine import Machine
from accelsim.compile.points import points_of
from accelsim.compile.template import Block, Ports, Template
from accelsim.compile.work import MatmulWork


def lower_matmul(machine: Machine, work: MatmulWork, tiling: Tiling, ports: Ports) -> Template:
    """The tasks of a matmul group."""
    points = points_of(work.view, tiling, work.array, machine.arch.array.count)
    block, inputs = Block(), tuple(range(len(ports.inputs)))
    tasks = MatmulTasks(machine, work, points, ports, block, inputs=inputs, numbers=np.arange(points.size))
    return template_of(machine, block, [tasks], tasks.feeds(), tasks.stream, tasks.scratch())
