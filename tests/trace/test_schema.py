"""The JSON Schema of a trace line agrees with what the reader takes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accelsim.shipped import shipped
from accelsim.trace.schema import schema_text, trace_schema

COMMITTED = Path(__file__).parents[2] / "docs" / "schema" / "trace.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(trace_schema())


def lines() -> list[dict[str, Any]]:
    with gzip.open(shipped("traces") / "bert_tiny_fwd_b1_s128.jsonl.gz", "rt") as stream:
        return [json.loads(line) for line in stream]


def test_committed_schema_is_current() -> None:
    """If not: accelsim schema trace > docs/schema/trace.schema.json"""
    assert COMMITTED.read_text() == schema_text()


def test_schema_is_valid_and_takes_every_line_of_a_shipped_trace() -> None:
    jsonschema.Draft202012Validator.check_schema(trace_schema())
    for line in lines():
        VALIDATOR.validate(line)


@pytest.mark.parametrize("index", [0, 1, -1])
def test_unknown_and_missing_fields_are_refused(index: int) -> None:
    record = lines()[index]
    assert not VALIDATOR.is_valid(record | {"colour": "red"})
    for field in ("sha256",) if index == 0 else ("id", "name"):
        assert not VALIDATOR.is_valid({key: value for key, value in record.items() if key != field})
