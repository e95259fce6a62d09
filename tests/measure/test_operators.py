"""Rows of operators and their sums over kinds, layers and phases."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.compile.program import Memory, OperatorPlan
from accelsim.engine import run
from accelsim.measure.result import measure
from accelsim.trace.model import Op, Operand, Tensor, Trace
from tests.measure.programs import machine, program, provenance, task


def small_model() -> Trace:
    """Two matmuls (int8 in layer 0, bf16 in layer 1), an activation fused into the first, a softmax on its own."""
    tensors = tuple(Tensor(i, f"t{i}", (128, 128), "int8" if i < 4 else "bf16", "activation", i) for i in range(7))
    view = [Operand(t.id, t.shape, (128, 1)) for t in tensors]
    sizes = {"batch": 1, "m": 128, "n": 128, "k": 128}
    ops = (
        Op(0, "matmul", "dense", "forward", 0, "", (view[0], view[1]), (view[2],), sizes),
        Op(1, "gelu", "act", "forward", 0, "", (view[2],), (view[3],)),
        Op(2, "matmul", "scores", "forward", 1, "", (view[4], view[5]), (view[6],), sizes),
        Op(3, "softmax", "probabilities", "backward", 1, "", (view[6],), (view[6],)),
    )
    return Trace({}, {"batch": 4}, {}, tensors, ops, name="small")


@pytest.fixture(scope="module")
def data():
    macs = 128**3
    tasks = [
        task("load", size=1000, op=0),
        task("stream", 200, 300, [(0, "done")], op=0, macs=macs, counters={"accumulator_writes": 128 * 128}),
        task("vector", 40, waits=[(1, "done")], op=0, counters={"scratchpad_read_bytes": 7}),
        task("stream", 400, 500, [(2, "done")], op=2, macs=macs),
        task("vector", 60, waits=[(3, "done")], op=3),
        task("store", size=500, op=3, waits=[(4, "done")]),
    ]
    plans = (OperatorPlan(0, fused=("act",)), OperatorPlan(1, fused_into=0), OperatorPlan(2), OperatorPlan(3))
    made = program(tasks, Memory("bandwidth", Fraction(100), Fraction(100)), plans=plans)
    result = measure(made, run(made), machine(), small_model(), provenance())
    return json.loads(result.to_json())


def column(rows, name):
    return [row[name] for row in rows]


def test_cycles_of_the_operators_sum_to_the_total(data):
    assert column(data["operators"], "cycles") == [10 + 300 + 40, 0, 500, 60 + 5]
    assert sum(column(data["operators"], "cycles")) == data["total"]["cycles"] == 915


def test_fused_operator_keeps_its_row_with_zeros(data):
    row = data["operators"][1]
    assert (row["fused_into"], row["cycles"], row["macs"], row["span_cycles"]) == (0, 0, 0, 0)
    assert (row["utilization"], row["bound_by"], row["peak_macs_per_cycle"]) == (0.0, None, None)
    assert row["energy_pj"] == 0.0
    assert [row["fused_into"] for row in data["operators"] if row["id"] != 1] == [None, None, None]


def test_utilization_is_against_the_peak_of_the_dtype(data):
    int8, bf16 = data["operators"][0], data["operators"][2]
    assert int8["utilization"] == pytest.approx(128**3 / (16384 * 350))
    assert bf16["utilization"] == pytest.approx(128**3 / (8192 * 500))
    assert data["total"]["utilization"] == pytest.approx((128 + 256) / 915)
    assert data["bounds"]["compute_cycles"] == 128 + 256


def test_traffic_and_accesses_are_the_operators_own(data):
    assert column(data["operators"], "dram_read_bytes") == [1000, 0, 0, 0]
    assert column(data["operators"], "dram_write_bytes") == [0, 0, 0, 500]
    assert column(data["operators"], "scratchpad_read_bytes") == [7, 0, 0, 0]
    assert column(data["operators"], "accumulator_writes") == [128 * 128, 0, 0, 0]


def test_bound_by_is_the_unit_with_most_of_the_cycles(data):
    bounds = ["core0.array0.stream", None, "core0.array0.stream", "core0.vector"]
    assert column(data["operators"], "bound_by") == bounds


@pytest.mark.parametrize(("key", "groups"), [("kind", 3), ("layer", 2), ("phase", 2)])
def test_groups_sum_to_the_operators(data, key, groups):
    rows = data[f"by_{key}"]
    assert len(rows) == groups
    for name in ("cycles", "macs", "dram_read_bytes", "dram_write_bytes"):
        assert sum(column(rows, name)) == sum(column(data["operators"], name))
    assert sum(column(rows, "energy_pj")) == pytest.approx(sum(column(data["operators"], "energy_pj")), rel=1e-12)
    assert sum(column(rows, "operators")) == 4
    assert sum(column(rows, "fused_operators")) == 1


def test_utilization_of_a_group_weighs_dtypes_by_their_cycles(data):
    matmul = data["by_kind"][0]
    assert matmul["mac_span_cycles"] == 350 + 500
    assert matmul["utilization"] == pytest.approx((128 + 256) / 850)
    assert matmul["utilization"] == pytest.approx(
        matmul["macs"] / (matmul["peak_macs_per_cycle"] * matmul["mac_span_cycles"])
    )


def test_span_of_a_group_counts_operators_with_macs_only(data):
    assert column(data["by_layer"], "mac_span_cycles") == [350, 500]


def test_an_operator_fused_into_a_fused_one_belongs_to_the_last_head():
    plans = (
        OperatorPlan(0),
        OperatorPlan(1, fused_into=0),
        OperatorPlan(2, fused_into=1),
        OperatorPlan(3, fused_into=2),
    )
    trace = small_model()
    made = program([task("stream", 500, macs=trace.macs)], Memory("ideal"), plans=plans)
    rows = measure(made, run(made), machine(), trace, provenance()).operators
    assert column(rows, "fused_into") == [None, 0, 0, 0]
    assert column(rows, "macs") == [trace.macs, 0, 0, 0]


def test_cycles_per_inference_divide_by_the_batch(data):
    assert (data["total"]["batch"], data["total"]["cycles_per_inference"]) == (4, 915 / 4)


def test_energy_of_components_and_operators_agree(data):
    assert sum(column(data["operators"], "energy_pj")) == pytest.approx(sum(data["energy_pj"].values()), rel=1e-9)


def test_a_run_without_tasks_has_no_utilization_and_no_power():
    nothing = program([], Memory("ideal"))
    trace = replace(small_model(), ops=(), tensors=())
    result = measure(nothing, run(nothing), machine(), trace, provenance())
    assert (result.cycles, result.utilization, result.operators) == (0, 0.0, [])
    assert set(result.data["average_power_w"].values()) == {None}
    json.loads(result.to_json())
