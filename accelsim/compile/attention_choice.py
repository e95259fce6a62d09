"""The form and the blocks of fused attention: a few by estimate, the best of those by running them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelsim.compile.attention import ONLINE, SPILLED, AttentionWork
from accelsim.compile.attention_op import AttentionTiling, lower_attention
from accelsim.compile.machine import Machine
from accelsim.compile.points import MOST_TILES
from accelsim.compile.template import Ports, Template
from accelsim.compile.unit_times import unit_times
from accelsim.compile.work import MatmulWork, VectorPass
from accelsim.hardware import systolic

_AHEAD = (3, 2, 1, 0)
_TRIED = 4  # candidates that are run
_LEAST_ROWS = 8  # of a block, where there are as many


@dataclass(frozen=True)
class AttentionChoice:
    """A tiling, its lowered tasks, and the cycles that it was estimated to take."""

    tiling: AttentionTiling
    template: Template
    estimate: int


def choose_attention(
    machine: Machine,
    work: AttentionWork,
    ports: Ports,
    free_bytes: int,
    forms: Sequence[str],
    rank: Callable[[AttentionChoice], tuple[float, float]],
) -> AttentionChoice | None:
    """The best way to run the group in `free_bytes` of scratchpad, None where no block fits.

    Candidates are lowered in the order of their estimates until a few of different blocks fit; `rank` tells the best
    of those.
    """
    fitting: dict[tuple[str, int, int], AttentionChoice] = {}
    for estimate, tiling in sorted(_estimated(machine, work, forms), key=lambda item: item[0]):
        kind = tiling.form, tiling.rows, tiling.keys
        if kind in fitting:
            continue
        template = lower_attention(machine, work, tiling, ports)
        if template.chunks["scratchpad"] <= free_bytes:
            fitting[kind] = AttentionChoice(tiling, template, estimate)
        if len(fitting) == _TRIED:
            break
    return min(fitting.values(), key=rank, default=None)


def _estimated(machine: Machine, work: AttentionWork, forms: Sequence[str]) -> Iterator[tuple[int, AttentionTiling]]:
    """Tilings whose sums fit the accumulator and whose tiles can be kept, with their estimated cycles."""
    arch = machine.arch
    for form in forms:
        for tiling in _tilings(form, work, arch.array.cols, arch.array.count):
            sums = tiling.accumulator_bytes(work, arch.array.count, arch.accumulator.width_bytes)
            if sums <= arch.accumulator.capacity_bytes and _tiles(work, tiling) <= MOST_TILES:
                yield _estimate(machine, work, tiling), tiling


def _tiles(work: AttentionWork, tiling: AttentionTiling) -> int:
    """Tiles of scores and of the context's sums."""
    view = work.scores.view
    steps = view.batch * -(-view.m // tiling.rows) * -(-view.n // tiling.keys)
    return steps * (1 + -(-tiling.keys // tiling.score_keys))


def _tilings(form: str, work: AttentionWork, cols: int, arrays: int) -> Iterator[AttentionTiling]:
    view = work.scores.view
    for rows in _halves(view.m, min(_LEAST_ROWS, view.m)):
        for keys in _halves(view.n // 2, cols) or (view.n,) if form == ONLINE else (view.n,):
            for score_keys in _halves(keys, min(cols, keys)) if form == SPILLED else (keys,):
                for ahead in _AHEAD:
                    tiling = AttentionTiling(form, rows, keys, score_keys, ahead)
                    yield tiling
                    if score_keys < view.n and -(-view.m // rows) >= arrays * tiling.together:
                        yield replace(tiling, held=True)


def _halves(most: int, least: int) -> tuple[int, ...]:
    """`most`, then powers of two below it, down to `least`."""
    powers = [2**power for power in range(most.bit_length()) if least <= 2**power < most]
    return (*([most] if most >= least else []), *reversed(powers))


def _estimate(machine: Machine, work: AttentionWork, tiling: AttentionTiling) -> int:
    """The busiest of array, softmax, DRAM and the steps' turns, and the first step, which nothing hides."""
    view, context = work.scores.view, work.context.view
    array, arrays = work.scores.array, machine.arch.array.count
    steps = view.batch * -(-view.m // tiling.rows) * -(-view.n // tiling.keys)
    shift = 0 if array.dataflow == "os" else array.rows  # weights of the next tile, which hide behind a stream
    scores = _stream(array, tiling.rows, view.k, tiling.score_keys) * -(-tiling.keys // tiling.score_keys)
    sums = _stream(array, tiling.rows, tiling.keys, context.n)
    passes = _occupy(machine, _passes(work, tiling), tiling.rows, tiling.keys)
    scaling = 0
    if tiling.form == ONLINE and work.online is not None:
        scaling = _occupy(machine, [work.online[1]], tiling.rows, context.n)
    chain = scores + array.rows + array.cols + passes  # from a step's scores to its context
    turns = [chain // (tiling.ahead + 1), max(scores, shift) + max(sums, shift)]
    if scaling:  # from a step's context to that of the next on the same block
        turns.append((sums + array.rows + array.cols + scaling) // tiling.together)
    busy = max(steps * max(turns) // arrays, steps * (passes + scaling), _transfer(machine, work, tiling))
    return busy + chain


def _occupy(machine: Machine, passes: Sequence[VectorPass], rows: int, cols: int) -> int:
    return sum(int(unit_times(machine, step, rows, cols).occupy) for step in passes)


def _stream(array: systolic.ArrayParameters, rows: int, k: int, n: int) -> int:
    sizes = (np.array([size], np.int64) for size in (rows, k, n))
    return int(systolic.stream_times(array, *sizes).occupy[0])


def _passes(work: AttentionWork, tiling: AttentionTiling) -> Sequence[VectorPass]:
    form: MatmulWork | None = work.online[0] if tiling.form == ONLINE and work.online else work.two_pass
    return work.softmax.passes if tiling.form == SPILLED or form is None else form.epilogue


def _transfer(machine: Machine, work: AttentionWork, tiling: AttentionTiling) -> int:
    """Cycles of the operands' way from DRAM: keys and values again for every block of rows where they are neither held
    nor a single tile."""
    rate = machine.memory.load_bytes_per_cycle
    if rate is None:
        return 0
    view, context = work.scores.view, work.context.view
    blocks = 1 if tiling.held else -(-view.m // tiling.rows)
    keys = view.n * view.k * work.scores.b_bytes * (blocks if tiling.score_keys < view.n else 1)
    values = context.k * context.n * work.context.b_bytes * (blocks if tiling.keys < view.n else 1)
    return int(view.batch * (view.m * view.k * work.scores.a_bytes + keys + values) / rate)
