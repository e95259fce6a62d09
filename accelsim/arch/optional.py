"""The sections that a machine may be without: dedicated units, a host, compute in the memory, links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, field_validator, model_validator

from accelsim.arch.sections import FUNCTIONS, MORE_FUNCTIONS, Section
from accelsim.arch.units import (
    LEAST,
    ByName,
    DtypeRates,
    Unlimited,
    none_section,
    number,
    refusal,
    text,
    unlimited,
    whole,
)

_MOST_GOPS = 1e9


class SpecialUnit(Section):
    """A pipeline that takes rows of one operator kind."""

    elements_per_cycle: float = number(high=1e6, unit="elements/cycle", about="elements of a row taken a cycle")
    latency: int = whole(low=0, high=10**6, unit="cycles", about="from a row's last element to its first result")
    passes: int = whole(
        1, low=1, high=2, about="a row is taken once (online maximum or sums), or held and passed through twice"
    )
    attach: Literal["array_output", "scratchpad"] = text(
        "scratchpad", about="where its rows come from; array_output: from the accumulator as a matmul completes them"
    )


_OptionalUnit = Annotated[SpecialUnit | None, BeforeValidator(none_section)]
_UNIT_EXPECTED = "a mapping of keys, or `none`"


class Special(Section):
    """Dedicated units beside the vector unit."""

    softmax: _OptionalUnit = text(None, about="softmax unit", expected=_UNIT_EXPECTED)
    layernorm: _OptionalUnit = text(None, about="LayerNorm unit", expected=_UNIT_EXPECTED)
    gelu: _OptionalUnit = text(None, about="GELU unit", expected=_UNIT_EXPECTED)

    @model_validator(mode="after")
    def _one_pass_of_gelu(self) -> Special:
        if self.gelu is not None and self.gelu.passes > 1:
            raise refusal("expected 1: GELU works element by element", path="gelu.passes", remedy="remove it")
        return self

    @property
    def units(self) -> Mapping[str, SpecialUnit]:
        """The units that are there, by the operator kind that they take."""
        found = {"softmax": self.softmax, "layernorm": self.layernorm, "gelu": self.gelu}
        return {kind: unit for kind, unit in found.items() if unit is not None}


_HOST_FUNCTIONS = ("simple", *FUNCTIONS)


class Host(Section):
    """A processor on the same DRAM, which does what the machine has no unit for. Its own traffic runs at the DRAM's
    bandwidth."""

    rate_gops: ByName[float] = text(
        about="1e9 results a second of each elementary function; `simple`: add, multiply, maximum, compare, convert",
        expected=f"a mapping with a rate for each of {', '.join(_HOST_FUNCTIONS)} "
        f"({', '.join(MORE_FUNCTIONS)} if needed)",
    )
    kernel_latency_us: float = number(
        high=1e9, unit="us", zero=True, about="of each operator: the call, and the word that it is done"
    )

    @field_validator("rate_gops")
    @classmethod
    def _every_rate(cls, rates: dict[str, float]) -> dict[str, float]:
        known = _HOST_FUNCTIONS + MORE_FUNCTIONS
        for function, rate in rates.items():
            if function not in known:
                raise refusal("is no elementary function", path=function, remedy=f"valid: {', '.join(known)}")
            if not LEAST <= rate <= _MOST_GOPS:
                raise refusal(f"expected a number >= {LEAST:g} and <= {_MOST_GOPS:g} (1e9/s)", path=function)
        for function in _HOST_FUNCTIONS:
            if function not in rates:
                raise refusal(f"needs a rate for `{function}`", remedy=f"add {function}: and 1e9 results a second")
        return {function: rates[function] for function in known if function in rates}


class NearMemory(Section):
    """Compute units inside the memory (not yet supported)."""

    units: int = whole(low=1, high=65536, about="units per channel")
    where: Literal["bank", "bank_group", "channel"] = text(about="level at which a unit sits")
    rate: DtypeRates = text(about="operations a cycle of a unit, by dtype", expected="a mapping of dtypes to rates")
    operators: list[str] = text([], about="operator kinds it takes", expected="a list of operator kinds")


class Links(Section):
    """Connections between chips (not yet supported)."""

    chips: int = whole(low=1, high=65536, about="chips that work together")
    topology: Literal["ring", "torus", "mesh", "switch"] = text(about="how they are connected")
    bandwidth_gbps: Unlimited = unlimited(unit="1e9 bytes/s", about="bandwidth of one link, each direction")
    latency_ns: float = number(high=1e9, unit="ns", about="of one hop", zero=True)
