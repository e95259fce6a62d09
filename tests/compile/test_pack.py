"""Packing and placement against exhaustive search on small graphs, and against their own promises on larger ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compile import compile_program
from accelsim.compile.fuse import Group
from accelsim.compile.pack import NOWHERE, Items, items_of, pack
from accelsim.compile.place import Candidate, candidates, packing_items, place, saved_bytes
from accelsim.compile.program import LOAD, STORE
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import Operand, Trace
from tests.compile.exhaustive_packing import Value, best_value, first_fit, value_of
from tests.compile.machines import chain, encoder, groups_of, placement_of, shipped_arch, shipped_trace, small


@dataclass(frozen=True)
class Case:
    """Items, and orders to try them in: by accesses and life first, as the oldest heuristic did."""

    items: Items
    orders: np.ndarray[Any, np.dtype[np.int64]]


def random_case(rng: np.random.Generator, count: int, spaces: int = 1, required: float = 0) -> Case:
    """Items of few sizes or of many, with short lives or long ones, where a part of them fits."""
    groups = int(rng.integers(3, 12))
    first = np.sort(rng.integers(0, groups, count))
    last = first + rng.integers(1, int(rng.choice([3, groups])) + 1, count)
    plain = 64 * rng.choice([[1, 2, 4, 8, 16], [3, 4, 5, 6, 7]][rng.integers(2)], count)
    padded = plain + 64 * rng.integers(0, 2, count) * (rng.random() < 0.3)
    readers = rng.integers(1, 4, count)
    worth = plain * (readers + (rng.random(count) < 0.85)) - rng.integers(0, 64, count)
    most = max(int(plain[(first <= group) & (group <= last)].sum()) for group in range(groups))
    room = [int(most * rng.uniform(0.2, 1)) for _ in range(spaces)]
    must = (rng.random(count) < required).astype(np.int64)
    limit = np.array([[room[0], 2 * room[0]], *([size, size] for size in room[1:])])
    items = items_of(first, last, np.stack([padded, plain][:spaces]), worth, must, limit)
    life = last - first + 1
    keys = ((1 + readers) / life, worth / (plain * life), worth, -life)
    return Case(items, np.stack([np.lexsort((np.arange(count), -plain, -key, -must)) for key in keys]))


def random_trace(rng: np.random.Generator, ops: int) -> Trace:
    """Matmuls between odd widths, activations and residual connections to any earlier tensor of the same width."""
    b = TraceBuilder("random")
    rows = int(rng.choice([3, 8, 13]))
    tensors = [b.tensor("x", (rows, 24), "bf16", "input")]
    for index in range(ops):
        x = tensors[-1]
        alike = [t for t in tensors[:-1] if t.shape == x.shape]
        kind = rng.choice(["matmul", "gelu", "add"] if alike else ["matmul", "gelu"])
        width = int(rng.choice([24, 40, 50])) if kind == "matmul" else x.shape[1]
        final = [None, "dram", "on_chip"][int(rng.choice(3, p=[0.75, 0.2, 0.05]))]
        y = b.tensor(f"y{index}", (rows, width), "bf16", final=final)
        if kind == "matmul":
            b.op("matmul", [x, b.tensor(f"w{index}", (x.shape[1], width), "bf16", "weight")], [y])
        elif kind == "gelu":
            b.op("gelu", [x], [y], {"approximate": "none"})
        else:
            other = alike[int(rng.integers(len(alike)))]
            b.op("elementwise", [x, other], [y], {"function": "add", "arity": 2})
        tensors.append(y)
    return b.build()


def packed_value(case: Case) -> Value:
    return value_of(case.items, pack(case.items, case.orders)[0])


def first_fit_value(items: Items, order: np.ndarray[Any, np.dtype[np.int64]]) -> Value:
    space = np.full(items.first.size, NOWHERE)
    for number, placed in enumerate(first_fit(items, order.tolist())):
        space[list(placed)] = number
    return value_of(items, space)


def loses(found: list[Value], best: list[Value]) -> list[float]:
    """The part of the worth that was lost, where some was."""
    assert all(one[0] <= other[0] for one, other in zip(found, best, strict=True)), "better than all there is"
    return [1 - one[0] / other[0] for one, other in zip(found, best, strict=True) if one[0] < other[0]]


def check_no_overlap(items: Items, space: Any, address: Any) -> None:
    for one in range(items.first.size):
        for other in range(one):
            meet = items.first[one] <= items.last[other] and items.first[other] <= items.last[one]
            if meet and space[one] == space[other] != NOWHERE:
                low, high = sorted((one, other), key=lambda item: int(address[item]))
                assert address[low] + items.size[space[low], low] <= address[high]


@pytest.mark.parametrize(("spaces", "required"), [(1, 0), (2, 0), (1, 0.1), (2, 0.1)])
def test_packing_equals_exhaustive_search_on_nearly_all_small_cases(spaces: int, required: float) -> None:
    rng = np.random.default_rng(11)
    cases = [random_case(rng, int(rng.integers(3, 10)), spaces, required) for _ in range(80)]
    cases = [case for case in cases if _holds_required(case)]
    assert len(cases) > 50
    losses = loses([packed_value(case) for case in cases], [best_value(case.items) for case in cases])
    assert len(losses) <= 0.05 * len(cases)
    assert max(losses, default=0) < 0.1


def _holds_required(case: Case) -> bool:
    space, _ = pack(case.items, case.orders)
    return bool((space[case.items.required > 0] != NOWHERE).all())


@settings(max_examples=150)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from((1, 2)), st.sampled_from((0.0, 0.1)),
)  # fmt: skip
def test_packing_keeps_its_promises(seed: int, count: int, spaces: int, required: float) -> None:
    case = random_case(np.random.default_rng(seed), count, spaces, required)
    items = case.items
    space, address = pack(items, case.orders)
    check_no_overlap(items, space, address)
    for item in np.flatnonzero(space != NOWHERE):
        end = address[item] + items.size[space[item], item]
        assert 0 <= address[item] <= end <= items.limit[space[item], items.required[item]]
    if required == 0:  # of required ones as many as possible come first, whatever the others are worth
        assert all(value_of(items, space) >= first_fit_value(items, order) for order in case.orders)


@pytest.mark.parametrize("spaces", [1, 2])
def test_more_room_never_packs_less(spaces: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(8):
        case = random_case(rng, 13, spaces)
        values = []
        for room in range(64, int(1.5 * case.items.limit[0, 0]), 64):
            limit = case.items.limit.copy()
            limit[0] = room, 2 * room
            values.append(packed_value(Case(case.items._replace(limit=limit), case.orders)))
        assert values == sorted(values)


def fallback_case() -> Case:
    """One item of all but the whole room, met by two that are worth more together; both orders take the large first."""
    first, last, size = np.array([0, 0, 2]), np.array([3, 1, 3]), np.array([[640, 576, 576]])
    items = items_of(first, last, size, np.array([1000, 600, 600]), np.zeros(3, np.int64), np.array([[640, 640]]))
    return Case(items, np.array([[0, 1, 2]]))


def test_a_move_takes_two_in_for_one_out() -> None:
    assert first_fit_value(fallback_case().items, np.array([0, 1, 2])) == (1000, 1000)
    assert packed_value(fallback_case()) == best_value(fallback_case().items) == (1200, 1200)


def movable(groups: tuple[Group, ...], trace: Trace) -> list[Candidate]:
    return sorted(candidates(groups, trace), key=lambda c: (c.first, c.tensor.id))


@pytest.mark.parametrize("second", ["none", {"capacity_kib": 1, "bandwidth_gbps": 100}])
def test_placement_equals_exhaustive_search_on_nearly_all_small_graphs(second: Any) -> None:
    rng = np.random.default_rng(5)
    found, best = [], []
    for _ in range(60):
        trace = random_trace(rng, int(rng.integers(3, 9)))
        arch = small(scratchpad__capacity_kib=float(rng.choice([1.5, 2.5, 4, 6])), second_level=second)
        groups = groups_of(trace, arch, "none")
        try:
            placement = place(groups, trace, arch, True)
        except InputError:
            continue  # what must be on chip does not fit
        best.append(best_value(packing_items(movable(groups, trace), arch)))
        found.append((saved_bytes(placement, groups, trace), 0))
    assert len(found) > 40
    losses = loses(found, best)
    assert len(losses) <= 0.05 * len(found)
    assert max(losses, default=0) < 0.1


@pytest.mark.parametrize("transpose", ["buffer", "padding"])
@pytest.mark.parametrize("kib", [0.75, 1, 1.5, 3])
def test_placement_of_an_encoder_equals_exhaustive_search(kib: float, transpose: str) -> None:
    trace, arch = encoder(5, 12, 2, 20), small(scratchpad__capacity_kib=kib, scratchpad__transpose=transpose)
    groups = groups_of(trace, arch)
    items = packing_items(movable(groups, trace), arch)
    assert saved_bytes(place(groups, trace, arch, True), groups, trace) == best_value(items)[0]


def test_more_scratchpad_never_saves_less_of_bert() -> None:
    trace = shipped_trace("tinybert4_fwd_b1_s128")
    archs = [shipped_arch("edge_32", scratchpad__capacity_kib=kib) for kib in range(64, 2048, 96)]
    groups = groups_of(trace, archs[0])
    saved = [saved_bytes(place(groups, trace, arch, True), groups, trace) for arch in archs]
    assert saved == sorted(saved)
    assert saved[0] < saved[-1]


def dram_bytes(trace: Trace, **how: Any) -> int:
    program = compile_program(_wide(), trace, **how)
    return int(program.request_bytes[np.isin(program.kind, (LOAD, STORE))].sum())


def _wide() -> Any:
    return small(scratchpad__capacity_kib=1024, accumulator__capacity_kib=1024)


def kept(final: str | None) -> Trace:
    """A tensor that three operators read: a part of it, the whole, and the whole twice."""
    b = TraceBuilder("kept")
    x, y = b.tensor("x", (8, 6), "bf16", "input"), b.tensor("y", (8, 6), "bf16", final=final)
    half, both, twice = (b.tensor(name, (size, 6), "bf16") for name, size in (("half", 4), ("both", 8), ("twice", 8)))
    b.op("gelu", [x], [y], {"approximate": "none"})
    b.op("gelu", [Operand(y.id, (4, 6), (6, 1), 24)], [half], {"approximate": "none"})
    b.op("elementwise", [x, y], [both], {"function": "add", "arity": 2})
    b.op("elementwise", [y, y], [twice], {"function": "add", "arity": 2})
    return b.build()


@pytest.mark.parametrize(("final", "expected"), [(None, 96 + 48 + 96 + 2 * 96), ("dram", 48 + 96 + 2 * 96)])
def test_saved_bytes_counts_the_write_and_what_each_group_reads(final: str | None, expected: int) -> None:
    trace, arch = kept(final), _wide()
    groups = groups_of(trace, arch, "none")
    assert saved_bytes(placement_of(trace, arch, "none"), groups, trace) == expected


@pytest.mark.parametrize("trace", [kept(None), kept("dram"), chain((8, 12, 5, 7), 6), encoder(5, 12, 2, 20)])
def test_saved_bytes_are_the_dram_bytes_that_programs_save(trace: Trace) -> None:
    """Where each operator is one tile, and so fetches an operand once."""
    arch = _wide()
    groups = groups_of(trace, arch, "none")
    saved = dram_bytes(trace, fusion="none", residency=False) - dram_bytes(trace, fusion="none")
    assert saved == saved_bytes(placement_of(trace, arch, "none"), groups, trace) > 0
