"""Read a YAML file into plain values, and remember the file and line of every one of them.

The reader takes YAML 1.2's plain scalars (`1e9` is a number, `on` is text, `010` is ten), where PyYAML alone would take
1.1's; it refuses duplicate keys, tags and keys that are not text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from accelsim.errors import InputError

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?\d+")
_DECIMAL = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")
_INFINITY = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq"))
_MOST_VALUES = 20_000  # far above any machine; stops aliases that multiply


@dataclass(frozen=True)
class Document:
    """Values as nested mappings and lists, and the place (`file:line`) of each dotted path; "" is the whole."""

    values: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)

    def under(self, other: Document) -> Document:
        """This document with `other` laid over it: mappings merge key by key, everything else is replaced."""
        places = {path: place for path, place in self.places.items() if not _replaced(path, self.values, other.values)}
        places |= other.places
        for path, place in other.places.items():  # a section that only `other` opens stands where `other` says
            while path := parent(path):
                places.setdefault(path, place)
        return Document(_merged(self.values, other.values), places)


def join(path: str, key: str | int) -> str:
    """The dotted path of `key` under `path`: `array.rows`, `vector.recipes.softmax[1]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def parent(path: str) -> str:
    """The dotted path of the section around `path`: `a.b` for `a.b.c` and for `a.b[0]`, "" for `a`."""
    return path[: path.rindex("[")] if path.endswith("]") and "[" in path else path.rpartition(".")[0]


def read_document(path: Path) -> Document:
    """Read one YAML file. Raises InputError (with file:line) when it is not a mapping of plain values."""
    return _parse(_read_text(path), str(path))


def read_plain(path: Path) -> tuple[Any, Mapping[str, str]]:
    """Read one YAML file of any shape: its plain value, None when empty, and the place of each dotted path in it.

    Raises InputError (with file:line) when it cannot be read or is not YAML of plain values.
    """
    node = _compose(_read_text(path), str(path))
    if node is None:
        return None, {"": str(path)}
    builder = _Builder(str(path))
    return builder.build(node, ""), builder.places


def parse_value(source: str, where: str) -> Any:
    """The value that YAML text stands for, as on the right of `--set key=value`. Raises InputError."""
    node = _compose(source, where, lines=False)
    return None if node is None else _Builder(where, lines=False).build(node, "")


def too_large(value: object) -> bool:
    """True for an integer beyond 64 bits, which no key takes."""
    return isinstance(value, int) and abs(value) >= 2**63


def _parse(source: str, file: str) -> Document:
    node = _compose(source, file)
    if node is None:
        raise InputError("the file is empty", where=file, remedy="a machine description is a mapping of keys to values")
    builder = _Builder(file)
    values = builder.build(node, "")
    if not isinstance(values, dict):
        raise InputError(
            "expected a mapping of keys to values at the top of the file", where=builder.places[""], value=values
        )
    return Document(values, builder.places)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not UTF-8 text (byte {error.start})", where=str(path), remedy="save it as UTF-8"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", where=str(path), remedy="give a readable YAML file") from error


def _compose(source: str, where: str, lines: bool = True) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(source, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}:{mark.line + 1}" if mark and lines else where
        raise InputError(f"not valid YAML: {error.problem or error.context}", where=place) from error
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {' '.join(str(error).split())}", where=where) from error
    except RecursionError as error:
        raise InputError("not valid YAML: nested too deeply", where=where) from error
    return node


class _Builder:
    """Turns nodes into values, and notes the place of each."""

    def __init__(self, file: str, lines: bool = True) -> None:
        self.file = file
        self.lines = lines  # False: the whole text is one place
        self.places: dict[str, str] = {}
        self.open: set[int] = set()
        self.count = 0

    def build(self, node: yaml.Node, path: str) -> Any:
        self.places.setdefault(path, self.place(node))
        self.count += 1
        if id(node) in self.open or self.count > _MOST_VALUES:
            raise InputError("an alias repeats itself without end", where=self.place(node), remedy="remove the alias")
        if node.tag not in _PLAIN_TAGS:
            raise InputError(f"the tag {node.tag} is not allowed", where=self.place(node), remedy="write a plain value")
        self.open.add(id(node))
        value = self.content(node, path)
        self.open.remove(id(node))
        return value

    def content(self, node: yaml.Node, path: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return {key: self.build(inner, join(path, key)) for key, inner in self.pairs(node, path)}
        if isinstance(node, yaml.SequenceNode):
            return [self.build(inner, join(path, index)) for index, inner in enumerate(node.value)]
        return node.value if getattr(node, "style", None) else self.scalar(node)

    def pairs(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[str, yaml.Node]]:
        seen: dict[str, yaml.Node] = {}
        for key, inner in node.value:
            if not isinstance(key, yaml.ScalarNode) or not isinstance(name := self.content(key, path), str) or not name:
                shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise InputError("a key must be text", where=self.place(key), value=shown)
            if name in seen:
                first = self.place(seen[name])
                raise InputError(f"duplicate key {join(path, name)}", where=self.place(key), remedy=f"first at {first}")
            seen[name] = key
            self.places[join(path, name)] = self.place(key)
            yield name, inner

    def scalar(self, node: yaml.Node) -> Any:
        value = plain_scalar(node.value)
        written = _DECIMAL.fullmatch(node.value)
        if too_large(value) or (written and isinstance(value, float) and math.isinf(value)):
            raise InputError("the number is too large", where=self.place(node), value=node.value)
        return value

    def place(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}" if self.lines else self.file


def plain_scalar(written: str) -> Any:
    """The value of an unquoted YAML 1.2 scalar: null, true, false, an integer, a decimal, .inf, .nan, else text."""
    if written in _NULLS:
        return None
    if written in _BOOLEANS:
        return _BOOLEANS[written]
    if _INTEGER.fullmatch(written):
        return int(written) if len(written) < 25 else 10**25
    if _DECIMAL.fullmatch(written):
        return float(written)
    if infinity := _INFINITY.fullmatch(written):
        return -math.inf if infinity[1] == "-" else math.inf
    return math.nan if written in (".nan", ".NaN", ".NAN") else written


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _replaced(path: str, below: Any, above: Any) -> bool:
    """True when `path` of the lower document lies inside something the upper one replaces whole."""
    key, _, rest = path.partition(".")
    if key not in above:
        return False
    both = isinstance(above[key], dict) and isinstance(below.get(key), dict)
    return _replaced(rest, below[key], above[key]) if both and rest else not both
