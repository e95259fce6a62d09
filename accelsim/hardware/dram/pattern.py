"""The `pattern` model: the time that a transaction takes, measured once for each stream of requests by its commands.

A stream is what an operator loads and stores, in order. Its beginning is run by command, each DMA queue presenting one
request after the other, and the time that its transactions take on average is charged to all of them: row conflicts
between neighbouring tiles, queues that meet in a bank and writes among reads are in it. Streams that differ in nothing
but their place are run at a few places. Kept out and put back by formula: refresh, which takes the same part of the
time from everybody. Left out: waiting for data, which spreads a stream or lets it meet another operator's.

Queues begin a request's time apart. Tiles often lie so that two queues in step want other rows of the same banks all
the time (up to three times slower); in a run they wait for different things and do not stay in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware.dram.dma import DONE, Memory, advance, drain, last_cycle, submit
from accelsim.hardware.dram.state import NOBODY
from accelsim.hardware.dram.system import DramSystem, new_memory, transactions
from accelsim.jit import inner, kernel

Int64 = NDArray[np.int64]

TICKS = 1024  # of a core cycle
MOST_TRANSACTIONS = 1 << 13  # of a stream that are run
PLACES = 4  # of streams that differ in nothing else, at which they are run
LONGEST_RUN = 1 << 15  # bytes of a run, where a single request has more transactions than that


@dataclass(frozen=True, slots=True)
class Stream:
    """n requests in the order in which they are presented.

    queue [n]: DMA queue of each. is_write [n]. requests [4, n]: address, rows, bytes of a row and pitch, in bytes.
    """

    queue: Int64
    is_write: NDArray[np.bool_]
    requests: Int64


def service_ticks(system: DramSystem, queues: int, streams: Sequence[Stream]) -> list[Int64]:
    """Of each stream, [n] time that its requests take from a DRAM with `queues` DMA queues, in ticks of a core cycle.

    A queue presents `issue_cycles` after its last request was accepted: the time of a transaction includes the issue
    where that is not hidden. Never less than the useful bytes take at the most that the DRAM can move.
    """
    size = system.device.geometry.transaction_bytes
    asked = [transactions(stream.requests, size) for stream in streams]
    beginnings = [_beginning(*each, size) for each in zip(streams, asked, strict=True)]
    places: dict[bytes, list[Stream]] = {}
    for each in beginnings:
        places.setdefault(_likeness(each), []).append(each)
    means = {likeness: _mean_cycles(system, queues, some[:PLACES]) for likeness, some in places.items()}
    return [
        _ticks(system, stream, count, means[_likeness(each)])
        for stream, count, each in zip(streams, asked, beginnings, strict=True)
    ]


def _mean_cycles(system: DramSystem, queues: int, beginnings: Sequence[Stream]) -> Fraction:
    each = [_cycles_of_a_transaction(system, queues, *_as_bytes(beginning)) for beginning in beginnings]
    return sum(each, Fraction(0)) / len(each)


def _ticks(system: DramSystem, stream: Stream, asked: Int64, each: Fraction) -> Int64:
    """[n] ticks of requests of `asked` transactions, which take `each` core cycles."""
    useful, most = stream.requests[1] * stream.requests[2], _most(system)
    pairs, place = np.unique(np.stack([asked, useful]), axis=1, return_inverse=True)
    ticks = [ceil(max(count * each, size / most) * TICKS) for count, size in pairs.T.tolist()]
    return np.array(ticks, np.int64)[place.ravel()]


def _most(system: DramSystem) -> Fraction:
    """Bytes a core cycle of the channels, or of the way to them if that is narrower."""
    peak, way = system.peak_bytes_per_cycle, system.bytes_per_clock
    return peak if way is None else min(peak, way * system.clocks_per_cycle)


def _beginning(stream: Stream, asked: Int64, size: int) -> Stream:
    """The first MOST_TRANSACTIONS of a stream, transactions of `size` bytes; a part of the first request if need be."""
    count = max(1, int(np.searchsorted(np.cumsum(asked), MOST_TRANSACTIONS, side="right")))
    requests = stream.requests[:, :count].copy()
    if asked[0] > MOST_TRANSACTIONS:
        requests[2] = np.minimum(requests[2], LONGEST_RUN)
        requests[1] = np.minimum(requests[1], np.maximum(1, MOST_TRANSACTIONS * size // requests[2]))
    return Stream(stream.queue[:count], stream.is_write[:count], requests)


def _as_bytes(stream: Stream) -> tuple[bytes, bytes, bytes]:
    return stream.queue.tobytes(), stream.is_write.tobytes(), stream.requests.tobytes()


def _likeness(stream: Stream) -> bytes:
    """What streams have in common that differ in nothing but their place."""
    requests = stream.requests.copy()
    requests[0] -= requests[0].min()
    return b"".join(_as_bytes(Stream(stream.queue, stream.is_write, requests)))


@lru_cache(maxsize=1024)
def _cycles_of_a_transaction(
    system: DramSystem, queues: int, queue: bytes, is_write: bytes, requests: bytes
) -> Fraction:
    """Core cycles that a transaction of this stream takes on average, with refresh."""
    queue_of, shapes = np.frombuffer(queue, np.int64), np.frombuffer(requests, np.int64).reshape(4, -1)
    still = replace(system.device, timing=replace(system.device.timing, refi=0))
    memory = new_memory(replace(system, device=still), queues)
    first, following = _next_of_queue(queue_of, queues)
    apart = ceil(shapes[1, 0] * shapes[2, 0] / _most(system))
    last_datum = _run(
        memory, queue_of, np.frombuffer(is_write, np.bool_), shapes, first, following, system.issue_cycles, apart
    )
    taken = max(last_datum - system.path_clocks / system.clocks_per_cycle, Fraction(int(drain(memory))))
    count = int(transactions(shapes, system.device.geometry.transaction_bytes).sum())
    return max(taken - _first_datum(system), Fraction(1)) / count * _refresh(system)


def _next_of_queue(queue: Int64, queues: int) -> tuple[Int64, Int64]:
    """The first request of each queue [queues], and the one that follows each in its queue [n]; NOBODY for none."""
    first, following = np.full(queues, NOBODY, np.int64), np.full(queue.size, NOBODY, np.int64)
    for number in np.unique(queue):
        own = np.flatnonzero(queue == number)
        first[number], following[own[:-1]] = own[0], own[1:]
    return first, following


def _first_datum(system: DramSystem) -> Fraction:
    """Core cycles until the first burst has ended, in which nothing is carried: activate, column command, burst."""
    t = system.device.timing
    return (t.rcd_rd + t.cl + t.burst) / system.clocks_per_cycle


def _refresh(system: DramSystem) -> Fraction:
    """Time with refresh over time without: in each interval the rank is closed, refreshed, and opened again."""
    t = system.device.timing
    taken = t.rfc + (t.rp if t.rp_all is None else t.rp_all) + t.rcd_rd
    return Fraction(t.refi, t.refi - taken) if t.refi > taken else Fraction(1)


@kernel
def _run(
    memory: Memory, queue: Int64, is_write: NDArray[np.bool_], requests: Int64, first: Int64, following: Int64,
    issue: int, apart: int,
) -> int:  # fmt: skip
    """Each queue presents its requests one after the other; returns the cycle of the last datum read, or 0.

    Queue q begins in cycle q x `apart`, and presents each request `issue` cycles after the last one was accepted.
    """
    dma, last = memory.dma[0], 0
    for number in range(first.size):
        if first[number] != NOBODY:
            _present(memory, queue, is_write, requests, first[number], number * apart)
    while dma.pending > 0:
        for place in range(advance(memory, last_cycle(dma))):
            event = dma.due[place]
            if event.what == DONE:
                last = last if is_write[event.task] else max(last, event.cycle)
            elif following[event.task] != NOBODY:
                _present(memory, queue, is_write, requests, following[event.task], event.cycle + issue)
    return int(last)


@inner
def _present(memory: Memory, queue: Int64, is_write: NDArray[np.bool_], requests: Int64, task: int, cycle: int) -> None:
    submit(
        memory, queue[task], task, cycle, is_write[task], requests[0, task], requests[1, task], requests[2, task],
        requests[3, task],
    )  # fmt: skip
