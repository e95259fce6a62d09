"""Small traces for the tests, and ways to break them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelsim.trace import Operand, Trace, TraceBuilder, dumps

Lines = list[dict[str, Any]]

# Lines of `layers_trace(1)` in its file: header, tensors, operators.
FIRST_TENSOR = 1


def layers_trace(layers: int = 1) -> Trace:
    """An embedding, `layers` blocks of matmul with bias, in-place scale, softmax, and a layerless tanh at the end."""
    builder = TraceBuilder("toy", config={"hidden": 8})
    table = builder.tensor("table", (10, 8), "bf16", "weight")
    indices = builder.tensor("indices", (4,), "int64", "input")
    x = builder.tensor("x", (4, 8), "bf16")
    builder.op("gather", [table, indices], [x], {"axis": 0}, name="embedding")
    for layer in range(layers):
        weight = builder.tensor(f"w{layer}", (8, 8), "bf16", "weight")
        bias = builder.tensor(f"b{layer}", (8,), "bf16", "weight")
        scores = builder.tensor(f"scores{layer}", (4, 8), "bf16")
        scaled = builder.tensor(f"scaled{layer}", (4, 8), "bf16", overwrites=scores)
        y = builder.tensor(f"y{layer}", (4, 8), "bf16")
        turned = Operand(weight.id, (8, 8), (1, 8))
        builder.op("matmul", [x, turned, bias], [scores], layer=layer, name=f"linear{layer}")
        scale = {"function": "scale", "arity": 1, "scalar": 0.5}
        builder.op("elementwise", [scores], [scaled], scale, layer=layer, name=f"scale{layer}")
        builder.op("softmax", [scaled], [y], {"axis": -1}, layer=layer, name=f"softmax{layer}")
        x = y
    out = builder.tensor("out", (4, 8), "bf16", final="dram")
    builder.op("tanh", [x], [out], name="pooler")
    return builder.build()


def records(trace: Trace) -> Lines:
    """The JSON objects of a trace's lines."""
    return [json.loads(line) for line in dumps(trace).splitlines()]


def text_of(lines: Lines) -> str:
    """The file of these records, with counts as they are given and the sha256 put right."""
    body = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines[1:])
    header = {**lines[0], "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return json.dumps(header, sort_keys=True) + "\n" + body


def broken(path: Path, change: Callable[[Lines], object], layers: int = 1) -> Path:
    """A trace file with its records changed and its sha256 right, so that the change itself has to be found."""
    lines = records(layers_trace(layers))
    change(lines)
    path.write_text(text_of(lines))
    return path


def line_of(lines: Lines, name: str) -> int:
    """Position of the record with this name."""
    return next(position for position, line in enumerate(lines) if line.get("name") == name)
