"""The compiler's small parts against slow and obvious ones: requests, producers of tiles, buffer addresses, shares."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compile.deal import least_loaded
from accelsim.compile.plan import Planner
from accelsim.compile.produced import Finishers, Produced, Span, produced_by
from accelsim.compile.requests import Tiles, tile_requests
from accelsim.compile.shares import scratchpad_shares
from accelsim.compile.spaces import Space
from accelsim.errors import InputError, InternalError
from accelsim.trace.matmul import Layout
from tests.compile.machines import bert_tiny, encoder, groups_of, shipped_arch, small

INDEX = st.integers(0, 4)
SIZE = st.integers(1, 5)


def one(value: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([value], np.int64)


# ---- requests --------------------------------------------------------------------------------------------------------


@given(INDEX, INDEX, SIZE, INDEX, SIZE, st.booleans(), st.sampled_from((1, 2, 4)), st.integers(0, 3), st.integers(0, 2))
def test_request_covers_exactly_the_bytes_of_its_tile(
    batch: int, row: int, rows: int, column: int, columns: int, transposed: bool, width: int, offset: int, gap: int
) -> None:
    pitch = (row + rows if transposed else column + columns) + gap
    strides = (1, pitch) if transposed else (pitch, 1)
    layout = Layout(100, *strides, offset)
    found = tile_requests(Tiles(one(batch), one(row), one(rows), one(column), one(columns)), layout, width)
    first, count, length, step = (int(part[0]) for part in (found.address, found.rows, found.row_bytes, found.pitch))
    covered = [first + i * step + byte for i in range(count) for byte in range(length)]
    wanted = {
        (offset + batch * 100 + (row + i) * strides[0] + (column + j) * strides[1]) * width + byte
        for i in range(rows)
        for j in range(columns)
        for byte in range(width)
    }
    assert len(covered) == len(set(covered)) == found.bytes[0]
    assert set(covered) == wanted


def test_whole_rows_that_touch_are_one_run() -> None:
    found = tile_requests(Tiles(one(0), one(2), one(3), one(0), one(8)), Layout(0, 8, 1, 0), 2)
    assert (found.address[0], found.rows[0], found.row_bytes[0], found.pitch[0]) == (32, 1, 48, 48)


def test_operand_without_a_contiguous_dimension_is_not_one_run() -> None:
    found = tile_requests(Tiles(one(0), one(0), one(3), one(0), one(4)), Layout(0, 10, 2, 0), 1)
    assert found.bytes[0] == 12
    assert (int(found.rows[0]), int(found.row_bytes[0])) == (12, 1)


# ---- producers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Writer:
    """A task that finishes block (row, col); it is released `occupy` after its start and done `tail` later."""

    row: int
    col: int
    unit: int
    task: int
    occupy: int
    tail: int


@st.composite
def producers(draw: st.DrawFn) -> tuple[Produced, list[Writer], int]:
    """A Produced, its writers, and the rows of the tensor."""
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    starts = [sorted({0, *draw(st.lists(st.integers(0, size - 1), max_size=3))}) for size in (rows, cols)]
    blocks = draw(st.permutations([(r, c) for r in range(len(starts[0])) for c in range(len(starts[1]))]))
    small = st.integers(0, 5)
    writers = [
        Writer(r, c, draw(st.integers(0, 2)), 3 * number + 7, draw(small), draw(st.integers(0, 20)))
        for number, (r, c) in enumerate(blocks)
    ]
    row, col, unit, task, occupy, tail = (
        np.array([getattr(w, f.name) for w in writers], np.int64) for f in fields(Writer)
    )
    tasks = Finishers(unit, task, occupy, occupy + tail)
    return produced_by(cols, np.array(starts[0]), np.array(starts[1]), row, col, tasks), writers, rows


@st.composite
def views(draw: st.DrawFn, total: int, cols: int) -> tuple[int, list[Span], set[int]]:
    """Offset and index ranges of a tile of a two-dimensional view, and the elements it covers."""
    strides = draw(st.sampled_from([(cols, 1), (1, cols), (0, 1), (2, 1), (cols + 1, 1)]))
    offset = reach = draw(st.integers(0, total - 1))
    spans, elements = [], {offset}
    for stride in strides:
        most = (total - 1 - reach) // stride if stride else 3
        low = draw(st.integers(0, most))
        high = draw(st.integers(low, most)) + 1
        reach += stride * (high - 1)
        spans.append(Span(stride, one(low), one(high)))
        elements = {element + stride * index for element in elements for index in range(low, high)}
    return offset, spans, elements


@settings(max_examples=100)
@given(producers(), st.data())
def test_edges_to_a_tile_wait_for_every_writer_of_its_elements(
    made: tuple[Produced, list[Writer], int], data: st.DataObject
) -> None:
    produced, writers, rows = made
    offset, spans, elements = data.draw(views(rows * produced.cols, produced.cols))
    rows_touched = np.searchsorted(produced.row_starts, [e // produced.cols for e in elements], "right") - 1
    cols_touched = np.searchsorted(produced.col_starts, [e % produced.cols for e in elements], "right") - 1
    touched = set(zip(rows_touched.tolist(), cols_touched.tolist(), strict=True))
    ids, lags = produced.writers(offset, spans)
    for index, unit in enumerate(sorted({writer.unit for writer in writers})):
        own = {writer.task: writer for writer in writers if writer.unit == unit}
        for needed in own.values():
            if (needed.row, needed.col) in touched:
                waited = own[int(ids[index, 0])]
                assert waited.task >= needed.task
                if waited.task > needed.task:  # it starts when the needed one is released, or later
                    assert waited.occupy + waited.tail + int(lags[index, 0]) >= needed.tail


@settings(max_examples=60)
@given(producers())
def test_whole_blocks_name_exactly_their_own_writer(made: tuple[Produced, list[Writer], int]) -> None:
    produced, writers, rows = made
    row_ends, col_ends = [*produced.row_starts[1:].tolist(), rows], [*produced.col_starts[1:].tolist(), produced.cols]
    units = sorted({writer.unit for writer in writers})
    for w in writers:
        spans = [
            Span(produced.cols, one(int(produced.row_starts[w.row])), one(row_ends[w.row])),
            Span(1, one(int(produced.col_starts[w.col])), one(col_ends[w.col])),
        ]
        ids, _ = produced.writers(0, spans)
        assert ids[:, 0].tolist() == [w.task if unit == w.unit else -1 for unit in units]


# ---- buffer addresses ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 19), st.integers(1, 8), st.integers(0, 2)), max_size=20), st.data())
def test_claim_waits_for_the_last_users_of_each_of_its_bytes(
    claims: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    space, owner = Space("scratchpad", 32), [-1] * 32
    holders, last = [], []
    for task, (address, size, unit) in enumerate(claims):
        holder, blockers = space.claim(f"c{task}", address, size)
        users = [last[owner[byte]] for byte in range(address, address + size) if owner[byte] >= 0]
        expected: dict[int, int] = {}
        for used in users:
            for who, when in used.items():
                expected[who] = max(expected.get(who, -1), when)
        assert blockers == expected
        holders.append(holder)
        last.append({unit: 10 * task})
        holder.first_writer = 10 * task
        holder.touch({unit: 10 * task})
        owner[address : address + size] = [task] * size
        late = data.draw(st.integers(0, task))  # a holder may still be read after others took part of its bytes
        holders[late].touch({2: 10 * task + 1})
        last[late][2] = max(last[late].get(2, -1), 10 * task + 1)
    assert [a.bytes for a in space.allocations()] == [size for _, size, _ in claims]


def test_claim_outside_the_space_is_our_fault() -> None:
    with pytest.raises(InternalError, match=r"'late' at 30\+3 is outside 32 bytes"):
        Space("scratchpad", 32).claim("late", 30, 3)


def test_buffers_are_taken_in_turn_above_the_residents() -> None:
    space = Space("scratchpad", 100)
    assert [space.take(30, 10) for _ in range(4)] == [10, 40, 70, 10]
    assert space.take(20, 60) == 60


# ---- shares ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("banks", [1, 2, 4, 16, 256])
@pytest.mark.parametrize("arrays", [1, 3])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_shares_fit_the_scratchpad_and_are_equal_for_equal_arrays(banks: int, arrays: int, dataflow: str) -> None:
    arch, trace = small(scratchpad__banks=banks, array__count=arrays, array__dataflow=dataflow), encoder(5, 8, 2, 12)
    planner = Planner(trace, arch, {})
    works = [planner.work(group) for group in groups_of(trace, arch)]
    shares = scratchpad_shares(arch, works, False)
    assert sum(shares.values()) <= arch.scratchpad.bytes_per_cycle
    assert min(shares.values()) >= 1
    for kind in ("stream", "drain") if dataflow == "os" else ("stream", "weights", "drain"):
        assert len({shares[f"core0.array{index}.{kind}"] for index in range(arrays)}) == 1
    wide = scratchpad_shares(small(scratchpad__banks=4096, array__count=arrays, array__dataflow=dataflow), works, False)
    assert set(wide) == set(shares)
    assert all(wide[client] >= share for client, share in shares.items())
    assert wide["core0.array0.stream"] == {"ws": 4, "is": 4, "os": 8}[dataflow]  # a row of int8 each cycle
    assert wide["dma"] == 8


def test_scratchpad_that_cannot_give_a_byte_to_everyone_is_refused() -> None:
    arch, trace = small(scratchpad__banks=1, scratchpad__bank_width_bytes=2), encoder(5, 8, 2, 12)
    planner = Planner(trace, arch, {})
    with pytest.raises(InputError, match="scratchpad"):
        scratchpad_shares(arch, [planner.work(group) for group in groups_of(trace, arch)], False)


def test_shipped_default_feeds_everyone_at_full_rate() -> None:
    arch = shipped_arch()
    planner = Planner(bert_tiny(), arch, {})
    shares = scratchpad_shares(arch, [planner.work(g) for g in groups_of(bert_tiny(), arch)], False)
    assert (shares["core0.array0.stream"], shares["core0.array0.weights"], shares["dma"]) == (128, 128, 256)


# ---- dealing ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 4))
def test_each_output_goes_to_the_array_with_the_least_work_so_far(work: list[int], arrays: int) -> None:
    dealt = least_loaded(np.array(work, np.int64), arrays).tolist()
    load = [0] * arrays
    for cycles, array in zip(work, dealt, strict=True):
        assert array == load.index(min(load))
        load[array] += cycles
