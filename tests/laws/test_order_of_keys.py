"""The order of a machine's keys, and how its YAML is written, change nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml
from hypothesis import assume, given, settings

import accelsim
from accelsim.errors import InputError
from tests.fuzz.machines import machine
from tests.laws.drawn import seeds


@settings(max_examples=60)
@given(seed=seeds)
def test_shuffled_keys_give_the_same_bytes(seed: int, tmp_path_factory: Any) -> None:
    choose = random.Random(seed)
    values = {**machine(choose), "name": "drawn"}
    folder: Path = tmp_path_factory.mktemp("machine")
    results = []
    for number, (each, style) in enumerate(((values, False), (shuffled(choose, values), None))):
        path = folder / f"{number}.yaml"
        path.write_text(yaml.safe_dump(each, sort_keys=False, default_flow_style=style), encoding="utf-8")
        try:
            results.append(accelsim.gemm(path, 33, 17, 65).to_json())
        except InputError as error:
            assume(number > 0)
            raise AssertionError(f"only the shuffled file is refused: {error}") from error
    assert results[0] == results[1]


def shuffled(choose: random.Random, values: Any) -> Any:
    """The mapping with its keys in another order, at every level."""
    if not isinstance(values, dict):
        return values
    items = [(key, shuffled(choose, value)) for key, value in values.items()]
    choose.shuffle(items)
    return dict(items)
