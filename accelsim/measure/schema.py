"""JSON Schemas of a Result and of a comparison, made from the registry of metrics."""

from __future__ import annotations

from typing import Any

from accelsim.measure.metrics import COMPARISON, FORMAT, Metric, list_metrics

Schema = dict[str, Any]


def result_schema() -> Schema:
    """The JSON Schema (draft 2020-12) that every Result obeys; no key is allowed that has no entry in the registry."""
    return _schema(FORMAT, "What one run of accelsim measured.")


def comparison_schema() -> Schema:
    """The JSON Schema (draft 2020-12) that every comparison obeys, as strict as that of a Result."""
    return _schema(COMPARISON, "Several runs of accelsim side by side; lists of values follow the subjects.")


def _schema(format_name: str, description: str) -> Schema:
    root: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format_name,
        "description": description,
        **_empty("object"),
    }
    for metric in list_metrics(format_name):
        _place(metric, root)
    root["properties"]["format"]["const"] = format_name
    return root


def _place(metric: Metric, root: Schema) -> None:
    """Add a metric's own schema below that of its group, which stands before it in the registry."""
    *group, name = metric.segments
    parent = root
    for segment in group:
        parent = _child(parent, segment)
    own = _own(metric)
    if name == "[]":
        parent["items"] = own
    elif name in ("*", "**"):
        parent["additionalProperties"] = own
    else:
        parent["properties"][name] = own
        if not metric.optional:
            parent["required"].append(name)


def _child(parent: Schema, segment: str) -> Schema:
    key = {"[]": "items", "*": "additionalProperties"}.get(segment)
    child: Schema = parent[key] if key else parent["properties"][segment]
    return child


def _own(metric: Metric) -> Schema:
    described = {"description": metric.meaning}
    if metric.unit != "none":
        described["$comment"] = f"unit: {metric.unit}"
    kind = metric.type.removesuffix(" or null")
    if kind == "any":
        return described
    empty = _empty(kind)
    if metric.type.endswith(" or null"):
        empty["type"] = [kind, "null"]
    if kind in ("integer", "number"):
        empty["minimum"] = 0
    return described | empty


def _empty(kind: str) -> Schema:
    if kind == "object":
        return {"type": kind, "properties": {}, "required": [], "additionalProperties": False}
    return {"type": kind}
