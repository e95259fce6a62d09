"""dram.weights: blocked. A weight lies in DRAM tile after tile, so that each tile is one run."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelsim.compile import compile_program
from accelsim.compile.program import LOAD
from accelsim.compile.requests import Tiles, packed_requests
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Trace
from tests.compile.machines import entry, small

sizes = st.integers(1, 20)


@given(st.integers(1, 3), sizes, sizes, sizes, sizes, st.sampled_from((1, 2, 4)))
def test_packed_tiles_lie_one_after_another_and_fill_the_tensor(
    batch: int, rows: int, columns: int, tile_rows: int, tile_columns: int, width: int
) -> None:
    corners = [
        (b, row, column)
        for b in range(batch)
        for row in range(0, rows, tile_rows)
        for column in range(0, columns, tile_columns)
    ]
    number, row, column = (np.array(each, np.int64) for each in zip(*corners, strict=True))
    tiles = Tiles(number, row, np.minimum(tile_rows, rows - row), column, np.minimum(tile_columns, columns - column))
    requests = packed_requests(tiles, rows, columns, width)
    assert requests.address[0] == 0
    assert (requests.address[1:] == requests.address[:-1] + requests.bytes[:-1]).all()
    assert requests.address[-1] + requests.bytes[-1] == batch * rows * columns * width
    assert (requests.rows == 1).all()


def two_matmuls(*, shared: bool) -> Trace:
    """x w, then the result times w again if `shared`, else times another weight."""
    builder = TraceBuilder("two")
    x = builder.tensor("x", (9, 8), "int8", "input")
    w, v = (builder.tensor(name, (8, 8), "int8", "weight") for name in "wv")
    y, z = (builder.tensor(name, (9, 8), "int8") for name in "yz")
    builder.op("matmul", [x, w], [y])
    builder.op("matmul", [y, w if shared else v], [z])
    return builder.build()


def loads(weights: str, *, shared: bool) -> dict[str, list[tuple[int, int, int]]]:
    """Of each operand in DRAM the (address from its start, rows, row_bytes) of its loads, in tiles of 4 x 4."""
    tiles = entry((4, 4, 4)) | entry((4, 4, 4), operator=1)
    program = compile_program(small(dram__weights=weights), two_matmuls(shared=shared), mapping=tiles)
    chosen = np.flatnonzero(program.kind == LOAD)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for task in chosen:
        address = int(program.address[task])
        found.setdefault("xwv"[address // 128], []).append(
            (address % 128, int(program.rows[task]), int(program.row_bytes[task]))
        )
    return found


def test_a_packed_weight_is_fetched_a_tile_a_run() -> None:
    plain, packed = loads("row_major", shared=False), loads("blocked", shared=False)
    assert set(plain["w"]) == {(0, 4, 4), (4, 4, 4), (32, 4, 4), (36, 4, 4)}
    assert set(packed["w"]) == {(0, 1, 16), (16, 1, 16), (32, 1, 16), (48, 1, 16)}
    assert packed["x"] == plain["x"]


def test_a_weight_that_two_operators_read_stays_as_it_is() -> None:
    assert loads("blocked", shared=True) == loads("row_major", shared=True)
