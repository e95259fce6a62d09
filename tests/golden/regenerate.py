"""Write the golden Results again: `python tests/golden/regenerate.py`, then review the difference before committing.

A golden file is the whole Result of one run, so that any change of any number shows, wanted or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import accelsim
from accelsim.api import Result

FOLDER = Path(__file__).parent

RUNS: Mapping[str, Callable[[], Result]] = {
    "bert_tiny_on_tpu_like": lambda: accelsim.simulate("tpu_like", "bert_tiny_fwd_b1_s128"),
    "bert_tiny_on_gemmini_16": lambda: accelsim.simulate("gemmini_16", "bert_tiny_fwd_b1_s128"),
    "gemm_300x500x700_on_edge_32": lambda: accelsim.gemm("edge_32", 300, 500, 700),
    "gemm_100x60x90_b3_on_scalesim_like": lambda: accelsim.gemm("scalesim_like", 100, 60, 90, batch=3),
}


def golden(name: str) -> dict[str, Any]:
    """The Result of one run without the version that made it, which changes with every release."""
    data = RUNS[name]().to_dict()
    del data["provenance"]["version"]
    return data


def path_of(name: str) -> Path:
    """Where the golden file of a run lies."""
    return FOLDER / f"{name}.json"


def main() -> None:
    """Write every golden file."""
    for name in RUNS:
        path_of(name).write_text(Result(golden(name)).to_json(), encoding="utf-8")
        print(path_of(name).relative_to(FOLDER.parent.parent))


if __name__ == "__main__":
    main()
