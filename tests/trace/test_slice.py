"""Layers cut out of a trace."""

from __future__ import annotations

import pytest

from accelsim.errors import InputError
from accelsim.trace import Trace, TraceBuilder, dumps, gemm_trace, loads, parse_layers, slice_layers
from tests.trace.examples import layers_trace


def tensor_named(trace: Trace, name: str):
    return next(tensor for tensor in trace.tensors if tensor.name == name)


def test_a_slice_keeps_its_layers_and_drops_operators_without_one() -> None:
    part = slice_layers(layers_trace(4), 1, 3)
    assert [op.name for op in part.ops] == ["linear1", "scale1", "softmax1", "linear2", "scale2", "softmax2"]
    assert [op.id for op in part.ops] == list(range(6))
    assert [op.layer for op in part.ops] == [1, 1, 1, 2, 2, 2]
    assert part.ops[3].deps == (2,)
    assert [tensor.id for tensor in part.tensors] == list(range(len(part.tensors)))
    assert {tensor.name for tensor in part.tensors} == {
        "y0", *(f"{name}{layer}" for name in ("w", "b", "scores", "scaled", "y") for layer in (1, 2))
    }  # fmt: skip


def test_orphans_become_inputs_and_what_others_read_becomes_a_result() -> None:
    part = slice_layers(layers_trace(3), 1, 2)
    assert (tensor_named(part, "y0").role, tensor_named(part, "y0").initial) == ("input", "dram")
    assert tensor_named(part, "y1").final == "dram"
    assert tensor_named(part, "scores1").final is None
    assert tensor_named(part, "w1").role == "weight"


def test_a_value_read_inside_and_outside_is_a_result_too() -> None:
    build = TraceBuilder("skip")
    x, y, z, out = (build.tensor(name, (4,), "fp32", "input" if name == "x" else "activation") for name in "xyzo")
    build.op("tanh", [x], [y], layer=0)
    build.op("relu", [y], [z], layer=0)
    build.op("elementwise", [y, z], [out], {"function": "add", "arity": 2}, layer=1)
    part = slice_layers(build.build(), 0, 1)
    assert [tensor.final for tensor in part.tensors] == [None, "dram", "dram"]


def test_an_orphan_between_versions_of_one_storage_gets_its_own() -> None:
    build = TraceBuilder("in_place")
    x = build.tensor("x", (4,), "fp32", "input")
    versions = [build.tensor("v0", (4,), "fp32")]
    for name in ("v1", "v2"):
        versions.append(build.tensor(name, (4,), "fp32", overwrites=versions[-1]))
    for layer, (before, after) in zip((0, None, 0), zip([x, *versions], versions, strict=False), strict=True):
        build.op("tanh", [before], [after], layer=layer)
    part = slice_layers(build.build(), 0, 1)
    orphan = tensor_named(part, "v1")
    assert orphan.role == "input"
    assert orphan.storage != tensor_named(part, "v0").storage
    assert tensor_named(part, "v2").storage != tensor_named(part, "v0").storage


def test_an_in_place_write_inside_the_slice_stays_in_place() -> None:
    part = slice_layers(layers_trace(2), 1, 2)
    assert tensor_named(part, "scaled1").storage == tensor_named(part, "scores1").storage


def test_an_orphan_that_is_overwritten_in_the_slice_keeps_its_storage() -> None:
    build = TraceBuilder("in_place")
    x = build.tensor("x", (4,), "fp32", "input")
    y = build.tensor("y", (4,), "fp32")
    z = build.tensor("z", (4,), "fp32", overwrites=y)
    build.op("tanh", [x], [y], layer=0)
    build.op("relu", [y], [z], layer=1)
    part = slice_layers(build.build(), 1, 2)
    assert [(tensor.name, tensor.storage, tensor.version) for tensor in part.tensors] == [("y", 1, 0), ("z", 1, 1)]


def test_a_slice_is_a_whole_trace_of_its_own() -> None:
    whole_trace = layers_trace(3)
    part = slice_layers(whole_trace, 0, 2)
    assert loads(dumps(part), part.name) == part
    assert part.sha256 != whole_trace.sha256
    assert part.run["layer_slice"] == "0:2"
    assert part.name == "toy[0:2]"
    assert part.macs + slice_layers(whole_trace, 2, 3).macs == whole_trace.macs
    assert [op.name for op in slice_layers(part, 1, 2).ops] == ["linear1", "scale1", "softmax1"]


@pytest.mark.parametrize(("first", "last"), [(0, 4), (3, 4), (1, 1), (2, 1), (-1, 1)])
def test_layers_that_are_not_there_are_refused(first: int, last: int) -> None:
    with pytest.raises(InputError, match=rf"layers: no such layers; got '{first}:{last}'; .*has the layers 0:3"):
        slice_layers(layers_trace(3), first, last)


def test_a_trace_without_layers_says_so() -> None:
    with pytest.raises(InputError, match="the trace has no layers"):
        slice_layers(gemm_trace(4, 4, 4), 0, 1)


def test_layers_are_read_from_text() -> None:
    assert parse_layers("0:2") == (0, 2)
    assert parse_layers(" 10:12 ") == (10, 12)


@pytest.mark.parametrize("text", ["", "2", "0:", ":2", "2:2", "3:1", "0:1:2", "a:b", "-1:2", "0 : 2", "٠:٢", "0:1e3"])
def test_text_that_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"layers: is no range of layers; got .*write first:last"):
        parse_layers(text)
