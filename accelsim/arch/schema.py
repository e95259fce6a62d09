"""The JSON Schema of a machine description, for editors and other tools; made from the models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from accelsim.arch.messages import section_of
from accelsim.arch.spec import Arch

_BASE = {"type": "string", "description": "a machine description to inherit from: a path from this file, or a name"}


def arch_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of an arch YAML file.

    Keys are required only in a file without `base`. Ranges across keys (see docs/arch.md) are checked by `load_arch`
    alone, and so is what is not yet supported.
    """
    generated = Arch.model_json_schema(mode="validation")
    schema: dict[str, Any] = _tidy(generated)
    for section in ("Energy", "Area"):
        entries = schema["$defs"][section]["properties"]["overrides"]
        entries["additionalProperties"] = {"anyOf": [{"type": "number", "minimum": 0}, {"$ref": "#/$defs/Estimate"}]}
    schema["properties"] = {"base": _BASE} | schema["properties"]
    schema["if"], schema["then"] = {"not": {"required": ["base"]}}, _required(Arch)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "accelsim machine description"} | {
        key: value for key, value in schema.items() if key != "title"
    }


def schema_text() -> str:
    """`arch_schema` as the text of docs/schema/arch.schema.json."""
    return json.dumps(arch_schema(), indent=2, ensure_ascii=False) + "\n"


def _required(model: type[BaseModel]) -> dict[str, Any]:
    """Which keys a file must have, section by section."""
    names = [name for name, info in model.model_fields.items() if info.is_required()]
    sections = {name: section_of(model.model_fields[name]) for name in names}
    inner = {name: _required(section) for name, section in sections.items() if section}
    return {"required": names} | ({"properties": inner} if inner else {})


def _tidy(value: Any, names: bool = False) -> Any:
    """Drop what is for messages only, put units into descriptions, and write an absent section as "none".

    `names`: the keys of `value` are names of keys, not words of JSON Schema.
    """
    if isinstance(value, list):
        return [_tidy(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if names:
        return {key: _tidy(inner) for key, inner in value.items()}
    if value.get("type") == "null":
        return {"const": "none"}
    dropped = {"expected", "unit", "required"} | ({"default"} if _is_section_default(value) else set())
    tidy = {key: _tidy(inner, key in ("properties", "$defs")) for key, inner in value.items() if key not in dropped}
    if unit := value.get("unit"):
        tidy["description"] = f"{value['description']} ({unit})"
    return tidy


def _is_section_default(value: Mapping[str, Any]) -> bool:
    return value.get("default", 0) is None or isinstance(value.get("default"), dict)
