"""Turn a failed validation into one line: file and line, dotted path, what was expected, the value, the remedy."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from accelsim.arch.document import Document, join, parent
from accelsim.arch.spec import Arch
from accelsim.errors import InputError

_NO_VALUE = object()
_PLAIN_TYPES = {"dict_type": "a mapping", "list_type": "a list", "string_type": "text"}  # inside free mappings
_FOLLOWS_FROM_ANOTHER = "default_factory_not_called"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one key."""

    rank: int  # 0 for an unknown key, which explains a missing one
    path: str
    what: str
    value: object = _NO_VALUE
    remedy: str = ""


def input_error(error: ValidationError, document: Document) -> InputError:
    """The InputError for the first problem of `error`, unknown keys first, with the number of further ones."""
    details = [detail for detail in error.errors(include_url=False) if detail["type"] != _FOLLOWS_FROM_ANOTHER]
    problems = sorted((_problem(detail, document) for detail in details), key=lambda problem: problem.rank)
    first, more = problems[0], len(problems) - 1
    remedy = first.remedy + (f" (and {more} more error{'s' if more > 1 else ''})" if more else "")
    given = {} if first.value is _NO_VALUE else {"value": first.value}
    return InputError(first.what, where=place_of(first.path, document), remedy=remedy.strip() or None, **given)


def place_of(path: str, document: Document) -> str:
    """The place of `path`, or of the nearest section around it that stands in a file."""
    while path and path not in document.places:
        path = parent(path)
    return document.places.get(path, "")


def expected(path: str) -> str:
    """What the key at dotted `path` takes, in words."""
    info = keys().get(path) or keys().get(_pattern(path))
    return _expected(info) if info else "a value"


@cache
def keys() -> Mapping[str, FieldInfo]:
    """Every key of a machine description by dotted path (`*` for a free name), sections included, in order."""
    return dict(_keys(Arch, ""))


def section_of(info: FieldInfo) -> type[BaseModel] | None:
    """The model of the keys below a section, None for a plain key."""
    for kind in (info.annotation, *typing.get_args(info.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _pattern(path: str) -> str:
    """`energy.overrides.*.low` for the path of a key below a free name."""
    return join(join(parent(parent(path)), "*"), path.rpartition(".")[2])


def _keys(model: type[BaseModel], path: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, info in model.model_fields.items():
        yield join(path, name), info
        if section := section_of(info):
            free = typing.get_origin(info.annotation) is dict
            yield from _keys(section, join(path, f"{name}.*" if free else name))


def _expected(info: FieldInfo) -> str:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    words, unit = str(extra.get("expected", "a value")), str(extra.get("unit", ""))
    if info.annotation is bool:
        return "true or false"
    if typing.get_origin(info.annotation) is typing.Literal:
        return "one of " + ", ".join(typing.get_args(info.annotation))
    return f"{words} ({unit})" if unit else words


def _problem(detail: Any, document: Document) -> Problem:
    path, context = _path(detail["loc"]), detail.get("ctx", {})
    if detail["type"] == "extra_forbidden":
        return Problem(0, path, f"unknown key {path}", remedy=_nearest(path))
    if detail["type"] == "missing":
        return Problem(1, path, f"missing key {path}", remedy=f"add it: {expected(path)}")
    if detail["type"] == "arch":
        path = join(path, context["path"]) if context["path"] else path
        what, remedy = context["what"], context["remedy"]
        return _with_value(path, what, _lookup(document.values, path, detail["input"]), remedy)
    return _with_value(path, f"expected {_expected_at(path, detail)}", detail["input"], "")


def _expected_at(path: str, detail: Any) -> str:
    if path in keys() or _pattern(path) in keys():
        return expected(path)
    return _PLAIN_TYPES.get(detail["type"], str(detail["msg"]).removeprefix("Input should be "))


def _with_value(path: str, what: str, value: object, remedy: str) -> Problem:
    if value is None:
        return Problem(1, path, f"{path} is empty (null); {what}", remedy=remedy)
    colon = ":" if what.startswith("expected") else ""
    shown = _NO_VALUE if isinstance(value, dict | list) and not what.startswith("expected") else value
    return Problem(1, path, f"{path}{colon} {what}", shown, remedy)


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for part in location:
        path = path if part == "[key]" else join(path, part)
    return path


def _lookup(values: Any, path: str, default: object) -> object:
    for key in path.split("."):
        if not isinstance(values, dict) or key not in values:
            return default if not isinstance(default, dict) else _NO_VALUE
        values = values[key]
    found: object = values
    return found


def _nearest(path: str) -> str:
    section, name = parent(path), path.rpartition(".")[2]
    section = section if section in keys() or not section else parent(_pattern(path))
    siblings = [key for key in keys() if parent(key) == section]
    close = get_close_matches(path, siblings, 1, 0.6) or [key for key in keys() if key.rpartition(".")[2] == name]
    close = close or get_close_matches(path, list(keys()), 1, 0.8)
    if close:
        return f"did you mean {close[0]}?"
    return "valid keys: " + ", ".join(key.rpartition(".")[2] for key in siblings)
