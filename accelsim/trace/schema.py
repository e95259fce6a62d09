"""JSON Schema of one line of a trace file, for other tools; made from the tables that the reader checks by."""

from __future__ import annotations

import json
from typing import Any

from accelsim.trace.model import DTYPE_BYTES, FORMAT, KINDS, PHASES, PLACES, ROLES
from accelsim.trace.records import HEADER, OP, OPERAND, REQUIRED, TENSOR, Fields

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_RECORD: Schema = {"type": "object"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_SIZE: Schema = {"type": "integer", "minimum": 1}

# What JSON type each field has; which fields there are and which must be given stands in `records`.
_TYPES: dict[str, Schema] = {
    "format": {"const": FORMAT},
    "model": _RECORD,
    "run": _RECORD,
    "exporter": _RECORD,
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "tensors": _SIZE,
    "ops": _SIZE,
    "id": _COUNT,
    "name": _TEXT,
    "shape": {"type": "array", "items": _SIZE},
    "dtype": {"enum": sorted(DTYPE_BYTES)},
    "role": {"enum": sorted(ROLES)},
    "storage": _COUNT,
    "version": _COUNT,
    "initial": {"enum": sorted(PLACES)},
    "final": {"enum": sorted(PLACES)},
    "tensor": _COUNT,
    "strides": {"type": "array", "items": _COUNT},
    "offset": _COUNT,
    "kind": {"enum": sorted(KINDS)},
    "phase": {"enum": list(PHASES)},
    "layer": _COUNT,
    "module": _TEXT,
    "inputs": {"type": "array", "items": {"$ref": "#/$defs/operand"}},
    "outputs": {"type": "array", "items": {"$ref": "#/$defs/operand"}},
    "attributes": _RECORD,
    "deps": {"type": "array", "items": _COUNT},
    "forward_op": _COUNT,
}


def trace_schema() -> Schema:
    """The JSON Schema (2020-12) of a line: the header, a tensor or an operator.

    How records refer to each other, and which attributes belong to which kind, is checked by `read_trace` alone.
    """
    records = {"header": HEADER, "tensor": TENSOR, "operator": OP, "operand": OPERAND}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "one line of an accelsim trace",
        "description": "The first line is a header, then come the tensors, then the operators.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in ("header", "tensor", "operator")],
        "$defs": {name: _object(fields) for name, fields in records.items()},
    }


def schema_text() -> str:
    """`trace_schema` as the text of docs/schema/trace.schema.json."""
    return json.dumps(trace_schema(), indent=2) + "\n"


def _object(fields: Fields) -> Schema:
    return {
        "type": "object",
        "properties": {name: _TYPES[name] for name in fields},
        "required": [name for name, (_, default) in fields.items() if default is REQUIRED],
        "additionalProperties": False,
    }
