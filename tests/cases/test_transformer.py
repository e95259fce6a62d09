"""Whole transformer layers: every operator counted, none skipped, any leading dimension (cases D12, D17, D23)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.api import Result
from accelsim.compile.program import VECTOR
from accelsim.errors import InputError
from accelsim.trace.builder import TraceBuilder
from tests.cases.encoder import encoder_block
from tests.cases.machines import BASE, Capture, refusal
from tests.trace.examples import records, text_of

# A vector unit of 128 lanes that does one operation of any kind per lane and cycle.
PLAIN_VECTOR = {"vector.lanes": 128} | {f"vector.rate.{name}": 1 for name in ("exp", "erf", "tanh", "rsqrt", "div")}


@pytest.mark.parametrize("fusion", ["none", "elementwise"])
@pytest.mark.parametrize("name", ["tpu_like", "edge_32"])
def test_d12_a_batch_of_one_is_no_batch(name: str, fusion: str) -> None:
    with_batch, without = (accelsim.simulate(name, encoder_block(lead), fusion=fusion) for lead in ((1,), ()))
    assert with_batch.macs == without.macs
    assert with_batch.cycles == without.cycles
    assert with_batch.dram_bytes == without.dram_bytes


def changed_operator(name: str, change: Callable[[dict[str, Any]], None]) -> str:
    """An encoder block's trace file whose operator `name` has been changed."""
    lines = records(encoder_block(()))
    change(next(line for line in lines if line.get("name") == name and "kind" in line))
    return text_of(lines)


def three_heads(operator: dict[str, Any]) -> None:
    for operand in operator["inputs"]:
        operand["shape"][0] = 3


def test_d12_heads_that_do_not_divide_the_width_are_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(changed_operator("scores", three_heads))
    message = refusal(capsys, "simulate", "--trace", str(path))
    assert f"{path}:" in message
    assert "'scores'" in message
    assert "layer 0" in message
    assert "inputs[0]" in message
    assert "must" in message


@pytest.fixture(scope="module")
def unfused() -> Result:
    """A BERT-Base layer, every operator on its own."""
    return accelsim.simulate(accelsim.load_arch("tpu_like", PLAIN_VECTOR), BASE, layers="0:1", fusion="none")


def vector_cycles_by_kind(result: Result) -> dict[str, int]:
    program = result.program
    assert program is not None
    found: dict[str, int] = {}
    for row in result.operators:
        mine = (program.op == row["id"]) & (program.kind == VECTOR)
        found[row["kind"]] = found.get(row["kind"], 0) + int(program.occupy[mine].sum())
    return found


def test_d17_softmax_layernorm_gelu_and_additions_take_their_time(unfused: Result) -> None:
    """Elements over lanes, for each pass: softmax has three, LayerNorm two, and its input is added first."""
    cycles = vector_cycles_by_kind(unfused)
    assert cycles["softmax"] >= 3 * 196_608 // 128
    assert cycles["layernorm"] >= 2 * 196_608 // 128
    assert cycles["gelu"] >= 393_216 // 128
    assert cycles["elementwise"] >= 196_608 // 128


def test_d17_each_of_them_is_a_row_and_the_run_is_no_shorter_than_any_unit(unfused: Result) -> None:
    data = unfused.to_dict()
    assert {"matmul", "softmax", "layernorm", "gelu", "elementwise"} <= {row["kind"] for row in data["by_kind"]}
    assert all(row["energy_pj"] > 0 for row in data["by_kind"])
    assert unfused.cycles >= max(sum(unit["busy"].values()) for unit in data["units"].values())
    assert sum(vector_cycles_by_kind(unfused).values()) == sum(data["units"]["core0.vector"]["busy"].values())


def test_d17_fusion_saves_traffic_and_hides_no_arithmetic(unfused: Result) -> None:
    fused = accelsim.simulate(accelsim.load_arch("tpu_like", PLAIN_VECTOR), BASE, layers="0:1")
    assert fused.dram_bytes <= unfused.dram_bytes
    heads = {row["id"]: row for row in fused.operators if row["fused_into"] is None}
    for row in fused.operators:
        assert row["fused_into"] is None or row["fused_into"] in heads
    assert vector_cycles_by_kind(fused)["softmax"] >= 3 * 196_608 // 128


LAYER_MACS = 4 * 128 * 768**2 + 2 * 128 * 128 * 768 + 2 * 128 * 768 * 3072


@pytest.mark.parametrize("fusion", ["none", "elementwise"])
def test_d23_every_mac_of_a_layer_is_simulated(fusion: str) -> None:
    result = accelsim.simulate("tpu_like", BASE, layers="0:1", fusion=fusion)
    assert result.program is not None
    assert LAYER_MACS == 931_135_488
    assert result.macs == int(result.program.macs.sum()) == LAYER_MACS
    attention = [row for row in result.operators if row["name"].endswith(("scores", "context"))]
    assert [row["macs"] for row in attention] == [12_582_912] * 2
    assert all(row["utilization"] > 0 and row["cycles"] + row["span_cycles"] > 0 for row in attention)


def test_d23_an_unknown_kind_of_operator_ends_the_run(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text(changed_operator("scores", lambda operator: operator.update(kind="flash_attention")))
    message = refusal(capsys, "simulate", "--trace", str(path))
    assert f"{path}:" in message
    assert "kind" in message
    assert "'flash_attention'" in message
    assert "softmax" in message


def test_d23_a_known_kind_that_nothing_computes_ends_the_run() -> None:
    builder = TraceBuilder("collective")
    x, y = builder.tensor("x", (8,), "bf16", "input"), builder.tensor("y", (8,), "bf16")
    builder.op("collective", [x], [y], {"function": "all_reduce", "participants": 2}, name="sum")
    with pytest.raises(InputError, match=r"no recipe says how .* 'collective'; add"):
        accelsim.simulate("tpu_like", builder.build())
