"""Reads across rows: what a machine without a transposing buffer pays, task by task, and what padding saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.api import simulate
from accelsim.arch.spec import Arch
from accelsim.compile import compile_program
from accelsim.compile.program import BREAKDOWN, STREAM, VECTOR, WEIGHTS, Program
from accelsim.engine import run
from accelsim.errors import InputError
from accelsim.hardware.scratchpad import padded_pitch
from accelsim.trace.builder import TraceBuilder
from accelsim.trace.model import DTYPE_BYTES, Operand, Trace
from tests.compile.bank_walk import MatmulWalk, padded
from tests.compile.checker import check
from tests.compile.machines import (
    ORDERS,
    SIZES,
    encoder,
    entry,
    mapped,
    placement_of,
    shipped_arch,
    shipped_trace,
    small,
)

SCRATCHPAD = BREAKDOWN.index("scratchpad")
MODES = ("buffer", "padding", "none")


def product(
    m: int, n: int, k: int, batch: int = 1, turned: str = "", on_chip: str = "", gap: int = 0, dtype: str = "int8"
) -> Trace:
    """A matmul whose `turned` operands lie transposed; rows of a and b are `gap` elements longer than what is read."""
    builder = TraceBuilder("product", run={"batch": batch, "precision": dtype})
    views = []
    for name, (rows, columns) in {"a": (m, k), "b": (k, n)}.items():
        lie = (columns, rows + gap) if name in turned else (rows, columns + gap)
        tensor = builder.tensor(name, (batch, *lie), dtype, "input", initial="on_chip" if name in on_chip else "dram")
        strides = (lie[0] * lie[1], *((1, lie[1]) if name in turned else (lie[1], 1)))
        views.append(Operand(tensor.id, (batch, rows, columns), strides))
    builder.op("matmul", views, [builder.tensor("out", (batch, m, n), dtype)])
    return builder.build()


def scratchpad_part(program: Program, kind: int) -> int:
    return int(program.breakdown[program.kind == kind, SCRATCHPAD].sum())


def compare(arch: Arch, trace: Trace, program: Program) -> int:
    """Every task's `scratchpad` part with that of the walk; how many of them are more than nothing."""
    charged = 0
    for kind, name in ((WEIGHTS, "weights"), (STREAM, "stream")):
        for task in np.flatnonzero(program.kind == kind).tolist():
            batch, m, n, k = program.tile[task].tolist()
            added = int(program.breakdown[task, SCRATCHPAD])
            walk = MatmulWalk(arch, trace, program, (batch, m, n, k))
            assert added == walk.longer(name, int(program.occupy[task]) - added)
            charged += added > 0
    return charged


operands = st.sampled_from(("", "a", "b", "ab"))
sizes_of_some = st.tuples(*(st.sampled_from((16, 13, 12, 8, 5, 2)) for _ in range(3)))
machines = st.fixed_dictionaries(  # with bandwidth to spare, mostly, so that it does not hide the conflicts
    {
        "array__rows": st.sampled_from((4, 3, 2, 1)), "array__cols": st.sampled_from((4, 5, 2, 1)),
        "array__dataflow": st.sampled_from(("ws", "os", "is")), "array__count": st.integers(1, 2),
        "array__rate": st.sampled_from(({"int8": 1, "fp32": 1}, {"int8": "1/2", "fp32": "1/3"})),
        "scratchpad__banks": st.sampled_from((4, 3, 6, 8, 1)),
        "scratchpad__bank_width_bytes": st.sampled_from((4, 2, 16)),
        "scratchpad__ports": st.integers(1, 2), "scratchpad__transpose": st.sampled_from(("none", "padding", "buffer")),
        "dram__model": st.just("ideal"), "accumulator__drain_elements_per_cycle": st.just(5),
    }
)  # fmt: skip


@settings(max_examples=60)
@given(
    sizes_of_some, st.data(), st.sampled_from(ORDERS), st.integers(1, 2), operands, operands,
    st.sampled_from((0, 1, 5, 16)), st.sampled_from(("int8", "fp32")), machines,
)  # fmt: skip
def test_scratchpad_part_of_every_task_is_that_of_a_walk_through_the_banks(
    sizes: tuple[int, int, int], data: st.DataObject, order: tuple[str, ...], batch: int, turned: str, on_chip: str,
    gap: int, dtype: str, machine: dict[str, Any],
) -> None:  # fmt: skip
    tile = tuple(-(-size // data.draw(st.integers(1, 3))) for size in sizes)
    trace, arch = product(*sizes, batch, turned, on_chip, gap, dtype), small(**machine)
    try:
        program = mapped(arch, trace, tile, order=order)
    except InputError:
        assume(False)
        raise
    compare(arch, trace, program)
    assert check(arch, trace, program, run(program)) > 0 or on_chip == "ab"


@pytest.mark.parametrize("mode", ["padding", "none"])
@pytest.mark.parametrize("array", [(3, 6), (6, 3), (5, 5)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_conflicts_of_all_kinds_are_those_of_a_walk(
    dataflow: str, turned: str, array: tuple[int, int], mode: str
) -> None:
    """Seven banks whose lines rows of 14 elements fill twice over, in slots and on chip."""
    arch = small(
        array__rows=array[0], array__cols=array[1], array__dataflow=dataflow, dram__model="ideal",
        accumulator__drain_elements_per_cycle=6, scratchpad__banks=7, scratchpad__bank_width_bytes=2,
        scratchpad__ports=1, scratchpad__transpose=mode,
    )  # fmt: skip
    charged = 0
    for on_chip, tile in (("", (14, 14, 14)), ("ab", (5, 9, 7)), ("a", (14, 4, 14))):
        trace = product(14, 14, 14, turned=turned, on_chip=on_chip)
        charged += compare(arch, trace, mapped(arch, trace, tile))
    across = {"ws": turned != "", "is": turned != "ab", "os": turned != "a"}[dataflow]
    assert charged > 0 or mode == "padding" or not across


@pytest.mark.parametrize("row_bytes", [1, 16, 17, 32, 48, 64, 100, 768])
@pytest.mark.parametrize("banks", [1, 3, 4, 12, 16, 20])
def test_padding_walks_all_banks(row_bytes: int, banks: int) -> None:
    assert int(padded_pitch(row_bytes, banks, 16)) == padded(row_bytes, banks, 16)


# ---- a machine with few banks ----------------------------------------------------------------------------------------


def few_banks(**changes: Any) -> dict[str, Any]:
    """4x4 PEs on 4 banks of 4 bytes: rows of 16 bytes all start in the same bank."""
    return {"scratchpad__banks": 4, "scratchpad__bank_width_bytes": 4, "scratchpad__ports": 2, **changes}


@pytest.mark.parametrize(
    ("dataflow", "turned", "kind"),
    [("ws", "b", WEIGHTS), ("ws", "a", STREAM), ("is", "", WEIGHTS), ("os", "", STREAM), ("os", "ab", STREAM)],
)
def test_four_rows_in_one_bank_take_its_two_ports_two_cycles(dataflow: str, turned: str, kind: int) -> None:
    trace = product(16, 16, 16, turned=turned, on_chip="ab")
    added = {}
    for mode in MODES:
        arch = small(**few_banks(array__dataflow=dataflow, scratchpad__transpose=mode, dram__model="ideal"))
        added[mode] = scratchpad_part(mapped(arch, trace, (16, 16, 16)), kind)
    assert added["buffer"] == added["padding"]  # what bandwidth adds
    assert added["none"] > added["buffer"]


def test_first_fold_of_weights_shifts_in_half_as_fast() -> None:
    arch = small(**few_banks(scratchpad__transpose="none", scratchpad__ports=2, dram__model="ideal"))
    program = mapped(arch, product(4, 4, 16, turned="b", on_chip="b"), (4, 4, 4))
    assert program.occupy[program.kind == WEIGHTS].tolist() == [8] * 4
    assert program.breakdown[program.kind == WEIGHTS, SCRATCHPAD].tolist() == [4] * 4


@pytest.mark.parametrize(("ports", "occupy"), [(1, 8), (2, 4), (4, 2)])
def test_first_fold_is_as_many_vectors_as_the_array_has_rows(ports: int, occupy: int) -> None:
    arch = small(**few_banks(array__rows=2, scratchpad__transpose="none", scratchpad__ports=ports, dram__model="ideal"))
    program = mapped(arch, product(4, 4, 16, turned="b", on_chip="b"), (4, 4, 4))
    assert program.occupy[program.kind == WEIGHTS].tolist() == [occupy] * 4


def test_what_waits_for_conflicts_is_charged_to_the_scratchpad() -> None:
    trace = product(4, 4, 64, turned="b", on_chip="ab")
    stalls = {}
    for mode in MODES:
        arch = small(**few_banks(scratchpad__transpose=mode, scratchpad__ports=2, dram__model="ideal"))
        result = simulate(arch, trace, mapping=entry((4, 4, 4)))
        stalls[mode] = result.data["units"]["core0.array0.stream"]["stalls"].get("scratchpad", 0)
    assert stalls["none"] > 0
    assert stalls["buffer"] == stalls["padding"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_operand_read_along_its_rows_pays_nothing(mode: str) -> None:
    trace = product(16, 16, 16, on_chip="ab")
    arch = small(scratchpad__transpose=mode, scratchpad__ports=8, dram__model="ideal")
    program = mapped(arch, trace, (16, 16, 16))
    assert scratchpad_part(program, WEIGHTS) == scratchpad_part(program, STREAM) == 0


# ---- padding takes room ----------------------------------------------------------------------------------------------


def test_padded_slots_and_tensors_are_larger() -> None:
    held = {}
    for mode in MODES:
        arch = small(**few_banks(scratchpad__transpose=mode))
        program = mapped(arch, product(8, 8, 8, turned="b"), (8, 8, 8))
        held[mode] = {allocation.name: allocation.bytes for allocation in program.allocations}
    assert held["none"] == held["buffer"]
    assert (held["none"]["b"], held["padding"]["b"]) == (64, 8 * 12)  # rows of two words, padded to three
    assert held["padding"]["a"] == held["none"]["a"]


def test_a_tile_that_fits_packed_alone_is_refused_padded() -> None:
    trace, machine = product(8, 8, 8, turned="b"), few_banks(scratchpad__capacity_kib=200 / 1024)
    assert mapped(small(**machine, scratchpad__transpose="none"), trace, (8, 8, 8)).size > 0
    with pytest.raises(InputError, match=r"needs 224 bytes of scratchpad \(200 free\)"):
        mapped(small(**machine, scratchpad__transpose="padding"), trace, (8, 8, 8))


def test_a_padded_tensor_that_does_not_fit_stays_out() -> None:
    trace = encoder(16, 16, 2, 16)
    some = placement_of(trace, small(**few_banks(scratchpad__capacity_kib=4)))
    fewer = placement_of(trace, small(**few_banks(scratchpad__capacity_kib=4, scratchpad__transpose="padding")))
    assert sum(r.bytes for r in some.scratchpad.values()) > 0
    for number, region in fewer.scratchpad.items():
        tensor = trace.tensors[number]
        rows = tensor.elements // tensor.shape[-1]
        assert region.bytes >= rows * padded(tensor.shape[-1] * DTYPE_BYTES[tensor.dtype], 4, 4)


# ---- transposes on the vector unit -----------------------------------------------------------------------------------


def turned_on(mode: str, on_chip: bool, **changes: Any) -> int:
    """Cycles that the scratchpad adds to turning a 16 x 16 matrix."""
    builder = TraceBuilder("turned")
    x = builder.tensor("x", (16, 16), "int8", "input", initial="on_chip" if on_chip else "dram")
    y = builder.tensor("y", (16, 16), "int8")
    builder.op("transpose", [Operand(x.id, (16, 16), (1, 16))], [y])
    arch = small(**few_banks(scratchpad__transpose=mode, scratchpad__banks=8, vector__lanes=8, **changes))
    program = compile_program(arch, builder.build())
    assert run(program).equals(run(program, "reference"))
    return scratchpad_part(program, VECTOR)


@pytest.mark.parametrize("on_chip", [True, False])
def test_turning_a_matrix_meets_in_the_banks(on_chip: bool) -> None:
    """Rows of four words: eight lanes' elements lie in two of the eight banks, four in each, of two ports."""
    assert turned_on("buffer", on_chip) == 0
    assert turned_on("none", on_chip) >= 16 * 2 * (2 - 1) - 32 * (not on_chip)
    assert turned_on("none", True) == 16 * 2 * 2 - 32
    assert turned_on("padding", True) == 0


@pytest.mark.parametrize(("ports", "added"), [(1, 8), (2, 0)])
def test_columns_shorter_than_the_lanes_are_read_side_by_side(ports: int, added: int) -> None:
    """Eight lanes take two columns of four elements: four words in two of eight banks."""
    builder = TraceBuilder("wide")
    x = builder.tensor("x", (4, 16), "int8", "input", initial="on_chip")
    builder.op("transpose", [Operand(x.id, (16, 4), (1, 16))], [builder.tensor("y", (16, 4), "int8")])
    machine = few_banks(
        scratchpad__banks=8, scratchpad__ports=ports, vector__lanes=8, scratchpad__transpose="none", dram__model="ideal"
    )
    assert scratchpad_part(compile_program(small(**machine), builder.build()), VECTOR) == added


@pytest.mark.parametrize(("ports", "slower"), [(1, 2), (2, 1)])
def test_heads_merged_on_chip_are_read_a_few_rows_at_a_time(ports: int, slower: int) -> None:
    """Eight lanes take two rows of four elements, 64 bytes apart: in the same one of eight banks."""
    builder = TraceBuilder("heads")
    x = builder.tensor("x", (4, 16, 4), "int8", "input", initial="on_chip")
    y = builder.tensor("y", (16, 16), "int8")
    heads = Operand(x.id, (16, 4, 4), (4, 64, 1))
    builder.op("transpose", [heads], [Operand(y.id, (16, 4, 4), (16, 4, 1))])
    machine = few_banks(scratchpad__banks=8, scratchpad__ports=ports, vector__lanes=8, scratchpad__transpose="none")
    program = compile_program(small(**machine), builder.build())
    assert scratchpad_part(program, VECTOR) == 256 // 8 * (slower - 1)


# ---- the mapper knows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("sizes", [(128, 768, 768), (256, 256, 768)])
def test_estimate_is_near_the_simulated_time(mode: str, dataflow: str, sizes: tuple[int, int, int]) -> None:
    arch = shipped_arch("tpu_like", array__dataflow=dataflow, scratchpad__transpose=mode, dram__model="bandwidth")
    result = simulate(arch, product(*sizes, turned="b"))
    assert result.program is not None
    (plan,) = result.program.plans
    assert 0.7 <= result.data["total"]["cycles"] / plan.estimated_cycles <= 1.3


@pytest.mark.parametrize("machine", ["tpu_like", "tpu_v4i"])
def test_a_layer_without_a_transposing_buffer_is_slower_and_says_why(machine: str) -> None:
    trace = shipped_trace("bert_base_fwd_b1_s128", (0, 1))
    cycles, added = {}, {}
    for mode in MODES:
        program = compile_program(shipped_arch(machine, scratchpad__transpose=mode, dram__model="bandwidth"), trace)
        cycles[mode], added[mode] = run(program).total, scratchpad_part(program, WEIGHTS)
    assert cycles["none"] > 1.2 * cycles["padding"] > 1.2 * 0.99 * cycles["buffer"]
    assert added["none"] > added["buffer"] == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_no_read_of_an_encoder_layer_is_early(mode: str, dataflow: str) -> None:
    arch, trace = small(**few_banks(scratchpad__transpose=mode, array__dataflow=dataflow)), encoder(13, 12, 3, 17)
    program = compile_program(arch, trace)
    timeline = run(program)
    assert timeline.equals(run(program, "reference"))
    assert check(arch, trace, program, timeline) > 0


@settings(max_examples=25)
@given(
    st.tuples(SIZES, SIZES, SIZES), st.data(), st.sampled_from(ORDERS), operands, machines,
    st.sampled_from(("scratchpad__ports", "array__rate", "scratchpad__capacity_kib")),
)  # fmt: skip
def test_a_better_machine_without_buffer_is_never_slower(
    sizes: tuple[int, int, int], data: st.DataObject, order: tuple[str, ...], turned: str, machine: dict[str, Any],
    key: str,
) -> None:  # fmt: skip
    values: dict[str, tuple[Any, ...]] = {
        "scratchpad__ports": (1, 2, 8), "scratchpad__capacity_kib": (2, 16, 64),
        "array__rate": tuple({"int8": rate} for rate in ("1/3", "1/2", 1)),
    }  # fmt: skip
    tile = tuple(data.draw(st.integers(1, size)) for size in sizes)
    fixed = {**machine, "scratchpad__banks": 16, "scratchpad__bank_width_bytes": 16}
    times = []
    for value in values[key]:
        try:
            program = mapped(small(**{**fixed, key: value}), product(*sizes, turned=turned), tile, order=order)
            times.append(run(program).total)
        except InputError:
            assume(not times)
    assert times == sorted(times, reverse=True)
