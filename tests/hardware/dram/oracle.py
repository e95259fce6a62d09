"""The measured cases of tests/oracles/dram."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.hardware.dram import DramStats, device_from_oracle, simulate_requests
from tests.hardware.dram.stimuli import Stream, make

_FILE = Path(__file__).parents[2] / "oracles" / "dram" / "cases.json"


@cache
def oracle() -> dict[str, Any]:
    return json.loads(_FILE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def cases() -> list[dict[str, Any]]:
    return oracle()["cases"]  # type: ignore[no-any-return]


def stream(case: dict[str, Any]) -> Stream:
    config = oracle()["configs"][case["config"]]
    return make(oracle()["stimuli"][case["stimulus"]], config["tx_bytes"], config["row_stride_bytes"])


def simulated(case: dict[str, Any]) -> DramStats:
    recipe = oracle()["stimuli"][case["stimulus"]]
    addresses, is_write = stream(case)
    device = device_from_oracle(config(case))
    interval, window = recipe.get("interval", 0), recipe.get("window", 0)
    return simulate_requests(device, addresses.astype(np.int64), is_write, interval, window)


def config(case: dict[str, Any]) -> dict[str, Any]:
    return {"name": case["config"], **oracle()["configs"][case["config"]]}
