"""Order on the arrays: what a tile's weights, in output-stationary its stream, wait for of the tile before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from accelsim.compile.program import DONE, RELEASED, START
from accelsim.compile.template import ArrayBegin, ArrayEnd, Block
from accelsim.hardware import systolic
from accelsim.hardware.systolic import ArrayParameters

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class ArrayQueue:
    """Tiles [n] in the order in which arrays compute them.

    array: the array of each. weights, stream, drain: positions of its tasks, -1 for none. next_weights_lag: from the
    stream's start to the earliest start of the next tile's weights. shift_extra: in os, cycles that the scratchpad adds
    before its results find the output registers free.
    """

    array: Int64
    weights: Int64
    stream: Int64
    drain: Int64
    next_weights_lag: Int64
    shift_extra: Int64
    tm: Int64
    tk: Int64
    tn: Int64

    @classmethod
    def merged(cls, queues: Sequence[ArrayQueue], numbers: Sequence[Int64]) -> ArrayQueue:
        """Several queues as one, in the order of their tiles' numbers."""
        order = np.argsort(np.concatenate(numbers), kind="stable")
        columns = {f.name: np.concatenate([getattr(queue, f.name) for queue in queues])[order] for f in fields(cls)}
        return cls(**columns)

    def take(self, index: Int64) -> ArrayQueue:
        """Only the tiles at `index`."""
        return ArrayQueue(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


def connect_arrays(
    block: Block, params: ArrayParameters, queue: ArrayQueue
) -> tuple[dict[int, ArrayBegin], dict[int, ArrayEnd]]:
    """Edges from weights to their streams, and between the tiles of each array. Returns, by array, its first and last
    tasks, by positions."""
    at = np.flatnonzero(queue.weights >= 0)
    block.edge(queue.stream[at], queue.weights[at], DONE)
    begins: dict[int, ArrayBegin] = {}
    ends: dict[int, ArrayEnd] = {}
    for array in map(int, np.unique(queue.array)):
        own = queue.take(np.flatnonzero(queue.array == array))
        connect = _connect_streams if params.dataflow == "os" else _connect_weights
        begins[array], ends[array] = connect(block, params, own)
    return begins, ends


def _connect_weights(block: Block, params: ArrayParameters, own: ArrayQueue) -> tuple[ArrayBegin, ArrayEnd]:
    """The next weights wait for the stream that frees the registers: the first one on the current weights where there
    are shadow registers, the last one where there are none."""
    shadow = params.fold_overlap and params.weight_double_buffer
    event = START if shadow else RELEASED if params.fold_overlap else DONE
    needs = np.flatnonzero(own.weights >= 0)
    frees = needs[:-1] if shadow else needs[1:] - 1
    lag = own.next_weights_lag if shadow else np.zeros_like(own.next_weights_lag)
    block.edge(own.weights[needs[1:]], own.stream[frees], event, lag[frees])
    last = int(needs[-1] if shadow else own.stream.size - 1)
    begin = ArrayBegin(int(own.weights[needs[0]]), 0, params)
    return begin, ArrayEnd(int(own.stream[last]), event, int(lag[last]), int(own.stream[-1]), params, (1, 1, 1))


def _connect_streams(block: Block, params: ArrayParameters, own: ArrayQueue) -> tuple[ArrayBegin, ArrayEnd]:
    """os: the next stream waits until its results will find the output registers free."""
    lag = systolic.next_stream_lag(params, own.tm[:-1], own.tk[:-1], own.tn[:-1], own.tk[1:])
    block.edge(own.stream[1:], own.stream[:-1], START, lag + own.shift_extra[:-1])
    tile = (int(own.tm[-1]), int(own.tk[-1]), int(own.tn[-1]))
    end = ArrayEnd(int(own.stream[-1]), START, int(own.shift_extra[-1]), int(own.drain[-1]), params, tile)
    return ArrayBegin(int(own.stream[0]), int(own.tk[0]), params), end
