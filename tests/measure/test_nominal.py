"""Nominal prices: the energy that the mapper's judge sees of an operator alone is the one that a Result states."""

from __future__ import annotations

from typing import Any

import pytest

from accelsim.api import gemm
from accelsim.measure.nominal import energy_alone, nominal_prices
from tests.compile.machines import shipped_arch

MACHINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tpu_like", {}), ("gemmini_16", {"array__dataflow": ("os", "ws")}), ("edge_32", {"array__dataflow": "is"}),
    ("tpu_v4i", {}), ("tpu_like_softmax", {}), ("tpu_like_no_vector", {}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "changes"), MACHINES)
@pytest.mark.parametrize("model", ["bandwidth", "pattern"])
def test_energy_alone_is_that_of_the_result(name: str, changes: dict[str, Any], model: str) -> None:
    changes = {key: list(value) if isinstance(value, tuple) else value for key, value in changes.items()}
    arch = shipped_arch.__wrapped__(name, dram__model=model, **changes)
    result = gemm(arch, 40, 70, 90)
    assert result.program is not None
    assert result.trace is not None
    found = energy_alone(result.program, result.cycles, nominal_prices(arch), result.trace)
    assert found == pytest.approx(result.energy_pj, rel=1e-9)
