"""The systolic array's closed forms against its PEs cycle by cycle, and against SCALE-Sim."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np

from accelsim.hardware import systolic
from accelsim.hardware.systolic import ArrayParameters, Dataflow
from accelsim.shipped import shipped
from accelsim.validation.model import Part, Progress, ReferenceSet, Row
from accelsim.validation.pe_chain import Chain, Tile, chain

PAIRS, PAIRS_FAST = 40, 8  # of tiles, for each dataflow and kind of register
EVERY_FAST = 20  # of SCALE-Sim's rows one is taken

PRODUCT, LATENCY, SHIFTED, DISTANCE = "product", "latency_cycles", "shifted_out_cycles", "distance_cycles"
READS, WRITES = "accumulator_reads", "accumulator_writes"
CYCLES, A_READS, B_READS, OUTPUTS = "cycles", "a_reads", "b_reads", "output_writes"


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """Pairs of drawn tiles on drawn arrays, then SCALE-Sim's table."""
    for dataflow in ("ws", "is", "os"):
        for doubled in (True, False):
            yield from _drawn_pairs(dataflow, doubled, PAIRS_FAST if fast else PAIRS)
    progress("array: SCALE-Sim")
    with (shipped("tests/oracles") / "scalesim_gemm.csv").open(newline="", encoding="utf-8") as file:
        for index, row in enumerate(csv.DictReader(file)):
            if not fast or index % EVERY_FAST == 0:
                yield from _scalesim_rows(row, index + 1)


def _drawn_pairs(dataflow: Dataflow, doubled: bool, pairs: int) -> Iterator[Row]:
    registers = "output" if dataflow == "os" else "weight"
    assumption = f"{'two' if doubled else 'one'} {registers} register{'s' * doubled} a PE; operands are there; rate 1"
    name = f"PEs: {dataflow} {'double' if doubled else 'single'}-buffered"
    reference_set = ReferenceSet(name, f"PEs, {dataflow}", assumption)
    random = np.random.default_rng([ord(dataflow[0]), doubled])
    for _ in range(pairs):
        rows, cols = (int(2 ** random.uniform(0, 4.08)) for _ in range(2))
        p = ArrayParameters(rows, cols, dataflow, weight_double_buffer=doubled, output_double_buffer=doubled)
        tiles = [_drawn_tile(random, p) for _ in range(2)]
        yield from _rows_of_pair(reference_set, p, tiles)


def _drawn_tile(random: np.random.Generator, p: ArrayParameters) -> Tile:
    """One fold to about four in each direction; whole multiples of the array, ragged and single elements alike."""
    side = max(p.rows, p.cols)
    sizes = [1, p.rows, p.cols, 2 * side, *random.integers(1, 2 * side + 2, 6)]
    m, k, n = (int(size) for size in random.choice(sizes, 3))
    return m, k, n


def _rows_of_pair(reference_set: ReferenceSet, p: ArrayParameters, tiles: list[Tile]) -> Iterator[Row]:
    tasks = chain(p, tiles)
    run = tasks.run()
    pair = " then ".join("x".join(map(str, tile)) for tile in tiles) + f" on {p.rows}x{p.cols}"
    yield Row(reference_set, pair, PRODUCT, "NumPy's", "NumPy's" if tasks.is_right(run) else "another")
    distance = int(systolic.next_stream_lag(p, *tiles[0], tiles[1][1]))
    if p.dataflow != "os":  # the next tile's weights may hold its stream back
        distance = tasks.tile_starts[1] - tasks.tile_starts[0]
    yield Row(reference_set, pair, DISTANCE, tasks.least_distance(), distance)
    for index, tile in enumerate(tiles):
        case = f"{pair} #{index + 1}"
        latency = int(systolic.stream_times(p, *tile).latency)
        yield Row(reference_set, case, LATENCY, tasks.last_of_tile(index, run.computed_at), latency)
        if p.dataflow == "os":
            drain = systolic.drain_times(p, *tile)
            shifted = tasks.last_of_tile(index, run.written_at)
            yield Row(reference_set, case, SHIFTED, shifted, int(drain.lag + drain.latency))
        else:
            yield from _accesses(reference_set, case, tasks, index, tile)


def _accesses(reference_set: ReferenceSet, case: str, tasks: Chain, index: int, tile: Tile) -> Iterator[Row]:
    writes = tasks.of_tile(index, tasks.run().writes)
    ours = systolic.accumulator_accesses(tasks.p, *tile)
    yield Row(reference_set, case, WRITES, int(writes.sum()), int(ours.writes))
    yield Row(reference_set, case, READS, int((writes - 1).sum()), int(ours.reads))


def _scalesim_rows(row: Mapping[str, str], number: int) -> Iterator[Row]:
    m, n, k, rows, cols = (int(row[name]) for name in ("M", "N", "K", "rows", "cols"))
    dataflow = cast(Dataflow, row["dataflow"])
    p = ArrayParameters(rows, cols, dataflow, weight_double_buffer=False, fold_overlap=False)
    reference_set = _scalesim_set(row["version"], dataflow)
    reads = systolic.operand_reads(p, m, k, n)
    case = f"{m}x{k}x{n} on {rows}x{cols} row {number}"
    stall_free = int(row["total_cycles"]) - int(row["stall_cycles"]) + 1
    yield Row(reference_set, case, CYCLES, stall_free, int(systolic.isolated_cycles(p, m, k, n)))
    yield Row(reference_set, case, A_READS, int(row["ifmap_sram_reads"]), int(reads.a))
    yield Row(reference_set, case, B_READS, int(row["filter_sram_reads"]), int(reads.b))
    writes, ours = int(row["ofmap_sram_writes"]), int(systolic.accumulator_accesses(p, m, k, n).writes)
    if dataflow == "os":
        writes, ours = writes - int(systolic.fold_count(p, m, k, n)) * (rows + cols), m * n
    yield Row(reference_set, case, OUTPUTS, writes, ours)


def _scalesim_set(version: str, dataflow: Dataflow) -> ReferenceSet:
    surplus = ", F(R+C) output writes less" if dataflow == "os" else ""
    assumption = f"strictly serial folds, no memory stalls; theirs: one cycle more{surplus}"
    return ReferenceSet(f"SCALE-Sim {version}: {dataflow}", f"SCALE-Sim {version}", assumption)


COMPARES = """\
The closed forms of accelsim/hardware/systolic.py against two references. **PEs**: a model that moves operands from
register to register, cycle by cycle (accelsim/hardware/pe_array.py). Its result is NumPy's product bit by bit, so it
cannot have the right cycles by luck; and the least distance between two tiles is found by trying: a cycle earlier the
product is wrong. The PE model itself is held against a register-transfer description in Amaranth, too slow for this
command: `pytest tests/rtl`. **SCALE-Sim** v2 and v3: cycles and SRAM accesses of the 1,512 matmuls in
tests/oracles/scalesim_gemm.csv, by row, against `fold_overlap: false`, its convention. Shapes are m x k x n.
`latency_cycles`: from a stream's first operand to its last multiply-accumulate; `shifted_out_cycles`: to the last
result out of an os array; `distance_cycles`: between the first operands of two tiles.
"""
DIFFERENCES = """\
None from the PEs. SCALE-Sim's own faults are taken off its values: it prints the index of the last cycle, F·L − 1,
where F·L cycles have passed; and its os output writes count the trace's rows and columns too, MN + F(R+C) where MN
elements are written. Its stalls are its memory model's and are subtracted. Serial folds are a choice: a pipelined
array, the default here, needs as little as a quarter of these cycles.
"""

PART = Part(
    name="array",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out=f"all but {PAIRS_FAST} of {PAIRS} pairs of tiles each, and 19 of 20 matmuls of SCALE-Sim",
    rows=rows,
    plotted={
        LATENCY: "PEs: latency of a stream (cycles)",
        DISTANCE: "PEs: distance of two tiles (cycles)",
        CYCLES: "SCALE-Sim: matmul (cycles)",
    },
)
