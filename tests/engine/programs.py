"""Programs written by hand, for the tests of the engines."""

from __future__ import annotations

from fractions import Fraction

from accelsim.compile.program import DONE, RELEASED, START, Memory, Program
from accelsim.engine.random_programs import ProgramBuilder


def bandwidth(load: object, store: object = "same", latency: int = 0, issue: int = 0) -> Memory:
    """`bandwidth` memory with rates given as anything Fraction takes, None for unlimited."""
    rates = [load, load if store == "same" else store]
    exact = [None if rate is None else Fraction(rate) for rate in rates]  # type: ignore[arg-type]
    return Memory("bandwidth", exact[0], exact[1], latency_cycles=latency, issue_cycles=issue)


def core(memory: Memory) -> tuple[ProgramBuilder, dict[str, int]]:
    """A builder with the units of a core with one array, and their indices by kind."""
    builder = ProgramBuilder(memory)
    names = {"load": "load0", "weights": "array0.weights", "stream": "array0.stream", "drain": "array0.drain"}
    names |= {"vector": "vector", "store": "store0"}
    return builder, {kind: builder.unit(f"core0.{name}", kind) for kind, name in names.items()}


def worked_example() -> Program:
    """Two N tiles of a 256 x 128 x 256 int8 matmul on a 128 x 128 weight-stationary array (docs: engines)."""
    builder, unit = core(bandwidth(64, latency=100))
    weights0 = builder.request(unit["load"], 16384)
    a = builder.request(unit["load"], 32768)
    weights1 = builder.request(unit["load"], 16384)
    shift0 = builder.task(unit["weights"], 128, edges=[(weights0, DONE, 0)])
    stream0 = builder.task(unit["stream"], 256, 510, edges=[(shift0, DONE, 0), (a, DONE, 0)])
    shift1 = builder.task(unit["weights"], 128, edges=[(weights1, DONE, 0), (stream0, START, 0)])
    drain0 = builder.task(unit["drain"], 256, 257, edges=[(stream0, START, 254)])
    builder.request(unit["store"], 32768, edges=[(drain0, DONE, 0)])
    stream1 = builder.task(unit["stream"], 256, 510, edges=[(shift1, DONE, 0)])
    drain1 = builder.task(unit["drain"], 256, 257, edges=[(stream1, START, 254)])
    builder.request(unit["store"], 32768, edges=[(drain1, DONE, 0)])
    return builder.program()


def tile_chain(tiles: int, memory: Memory) -> Program:
    """A chain of double-buffered tiles: two loads, weights, stream, drain, store each (ids 6 i .. 6 i + 5)."""
    builder, unit = core(memory)
    for tile in range(tiles):
        first = 6 * tile
        slot = [(first - 12 + 3, RELEASED, 0)] if tile >= 2 else []
        loads = [builder.request(unit["load"], size, edges=slot) for size in (1000, 2345)]
        shadow = [(first - 6 + 3, START, 0)] if tile >= 1 else []
        shift = builder.task(unit["weights"], 16, edges=[(loads[0], DONE, 0), *shadow])
        stream = builder.task(unit["stream"], 40, 72, edges=[(shift, DONE, 0), (loads[1], DONE, 0)])
        drained = [(first - 12 + 5, RELEASED, 0)] if tile >= 2 else []
        drain = builder.task(unit["drain"], 40, 41, edges=[(stream, START, 31), *drained])
        builder.request(unit["store"], 640, edges=[(drain, DONE, 0)])
    return builder.program()
