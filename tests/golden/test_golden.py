"""Whole Results, compared key by key with the files beside this one (see regenerate.py)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.golden.regenerate import FOLDER, RUNS, golden, path_of

TOLERANCE = 1e-9  # relative, of floating-point numbers only
REMEDY = "if it is meant: python tests/golden/regenerate.py, and review the difference"


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Every place in which two pieces of plain data differ: types, keys, lengths, integers and text exactly."""
    if type(expected) is not type(found):
        yield f"{path}: {expected!r} became {found!r}"
    elif isinstance(expected, dict):
        if list(expected) != list(found):
            yield f"{path}: keys {list(expected)} became {list(found)}"
        for key in expected.keys() & found.keys():
            yield from differences(expected[key], found[key], f"{path}.{key}")
    elif isinstance(expected, list):
        if len(expected) != len(found):
            yield f"{path}: {len(expected)} items became {len(found)}"
        for index, pair in enumerate(zip(expected, found, strict=False)):
            yield from differences(*pair, f"{path}[{index}]")
    elif isinstance(expected, float):
        if not math.isclose(expected, found, rel_tol=TOLERANCE):
            yield f"{path}: {expected!r} became {found!r}"
    elif expected != found:
        yield f"{path}: {expected!r} became {found!r}"


@pytest.mark.parametrize("name", RUNS)
def test_result_is_the_golden_one(name: str) -> None:
    expected = json.loads(path_of(name).read_text(encoding="utf-8"))
    found = list(differences(expected, golden(name)))
    assert not found, f"{len(found)} differences, {REMEDY}:\n" + "\n".join(found[:20])


def test_every_golden_file_has_its_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(RUNS)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"a": 1.0}, ".a: 1 became 1.0"),
        ({"a": 2}, ".a: 1 became 2"),
        ({"a": 1, "c": 3}, "keys ['a', 'b'] became ['a', 'b', 'c']"),
        ({"b": [1.5, {"x": None}, 3]}, ".b: 2 items became 3"),
        ({"b": [1.5 + 1e-8, {"x": None}]}, ".b[0]: 1.5 became 1.50000001"),
        ({"b": [1.5, {"x": 0}]}, ".b[1].x: None became 0"),
    ],
)
def test_a_difference_of_any_sort_is_seen(change: dict[str, Any], shown: str) -> None:
    known = {"a": 1, "b": [1.5, {"x": None}]}
    assert not list(differences(known, known | {"b": [1.5 + 1e-12, {"x": None}]}))
    assert any(shown in line for line in differences(known, known | change))
