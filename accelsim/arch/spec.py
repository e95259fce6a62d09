"""What to compute on: a whole machine, checked. Knows no model of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PrivateAttr, field_validator, model_validator

from accelsim.arch.document import parent
from accelsim.arch.optional import Host, Links, NearMemory, Special, SpecialUnit
from accelsim.arch.sections import (
    MAX_DMA_QUEUES,
    MAX_OUTSTANDING,
    NOT_YET,
    Accumulator,
    Area,
    Array,
    Dma,
    Dram,
    Energy,
    Estimate,
    Scratchpad,
    SecondLevel,
    Section,
    Vector,
)
from accelsim.arch.units import exact, none_section, number, plain_number, refusal, text, whole
from accelsim.errors import InputError

__all__ = [
    "Accumulator", "Arch", "Area", "Array", "Dma", "Dram", "Energy", "Estimate", "Host", "Links", "NearMemory",
    "Scratchpad", "SecondLevel", "Section", "Special", "SpecialUnit", "Vector",
]  # fmt: skip


def _not_yet(value: Any) -> Any:
    if none_section(value) is not None:
        raise refusal(NOT_YET, remedy="remove it or write `none`")
    return None


class Arch(Section):
    """One machine, whole and checked. `load_arch` makes it from a YAML file."""

    name: str = text("", about="name in reports (default: the file's name; never inherited)")
    description: str = text("", about="one line on what it stands for (never inherited)")
    clock_mhz: float = number(high=1e6, unit="MHz", about="clock of the core: one cycle everywhere in the results")
    cores: int = whole(1, low=1, high=1024, about="cores (more than 1: not yet supported)")
    array: Array = text(about="systolic arrays", expected="a mapping of keys")
    accumulator: Accumulator = text(about="accumulator memory", expected="a mapping of keys")
    vector: Annotated[Vector | None, BeforeValidator(none_section)] = text(
        about="vector unit", expected="a mapping of keys, or `none`"
    )
    special: Annotated[Special | None, BeforeValidator(none_section)] = text(
        None, about="dedicated units, optional", expected="a mapping of keys, or `none`"
    )
    host: Annotated[Host | None, BeforeValidator(none_section)] = text(
        None, about="processor that works where there is no vector unit", expected="a mapping of keys, or `none`"
    )
    scratchpad: Scratchpad = text(about="on-chip memory", expected="a mapping of keys")
    second_level: Annotated[SecondLevel | None, BeforeValidator(none_section)] = text(
        None, about="second on-chip memory, optional", expected="a mapping of keys, or `none`"
    )
    dma: Dma = text(Dma(), about="engines between DRAM and scratchpad", expected="a mapping of keys")
    dram: Dram = text(about="memory outside the chip", expected="a mapping of keys")
    near_memory: Annotated[NearMemory | None, BeforeValidator(_not_yet)] = text(
        None, about="compute units in the memory (not yet supported)", expected="`none`"
    )
    links: Annotated[Links | None, BeforeValidator(_not_yet)] = text(
        None, about="chip links (not yet supported)", expected="`none`"
    )
    energy: Energy = text(Energy(), about="energy table", expected="a mapping of keys")
    area: Area = text(Area(), about="area table", expected="a mapping of keys")

    _places: dict[str, str] = PrivateAttr(default_factory=dict)  # dotted path -> file:line

    @field_validator("cores")
    @classmethod
    def _one_core(cls, cores: int) -> int:
        if cores > 1:
            raise refusal(f"> 1 {NOT_YET}", remedy="use cores: 1 (array.count gives a core several arrays)")
        return cores

    @model_validator(mode="after")
    def _output_row_drains(self) -> Arch:
        if "os" in self.array.dataflows and self.accumulator.drain_elements_per_cycle < self.array.cols:
            raise refusal(
                f"must be at least array.cols = {self.array.cols} when array.dataflow is os, "
                "which shifts a whole row of results out each cycle",
                path="accumulator.drain_elements_per_cycle",
                remedy="raise it or use .inf",
            )
        return self

    @model_validator(mode="after")
    def _someone_does_the_rest(self) -> Arch:
        if self.vector is None and self.host is None:
            raise refusal(
                "expected a mapping of keys: there is no host either to do elementwise work",
                path="vector",
                remedy="describe a vector unit, or a host with its rate_gops and kernel_latency_us",
            )
        return self

    @model_validator(mode="after")
    def _array_has_an_output(self) -> Arch:
        for kind, unit in self.special_units.items():
            if unit.attach == "array_output" and "ws" not in self.array.dataflows:
                raise refusal(
                    f"needs array.dataflow ws, whose accumulator rows are complete one after another; it is "
                    f"{', '.join(self.array.dataflows)}",
                    path=f"special.{kind}.attach",
                    remedy="attach the unit to the scratchpad",
                )
        return self

    @model_validator(mode="after")
    def _queues_fit(self) -> Arch:
        dma = self.dma
        queues = dma.load_queues + dma.store_queues
        if not self.dram.by_command:
            return self
        if queues > MAX_DMA_QUEUES:
            raise refusal(
                f"load_queues + store_queues is {queues}, and dram.model {self.dram.model} takes {MAX_DMA_QUEUES}",
                path="dma.load_queues",
                remedy="use fewer queues, or dram.model bandwidth",
            )
        if queues * dma.outstanding > MAX_OUTSTANDING:
            raise refusal(
                f"must be at most {MAX_OUTSTANDING // queues} with {queues} queues and dram.model {self.dram.model}",
                path="dma.outstanding",
                remedy="lower it, or use dram.model bandwidth",
            )
        return self

    @property
    def special_units(self) -> Mapping[str, SpecialUnit]:
        """The dedicated units by the operator kind that they take."""
        return {} if self.special is None else self.special.units

    @property
    def clock_hz(self) -> Fraction:
        """Core clock in Hz, exactly as written."""
        return exact(self.clock_mhz) * 10**6

    def dram_bytes_per_cycle(self) -> Fraction | None:
        """Bytes a core cycle of the whole DRAM; None when unlimited (`.inf`, or dram.model ideal).

        A DRAM whose commands count carries no more than its channels do, however wide the way to them is.
        """
        if self.dram.model == "ideal":
            return None
        gbps = min(self.dram.bandwidth_gbps, self.dram.peak_gbps if self.dram.by_command else math.inf)
        return self._bytes_per_cycle(gbps)

    def dram_latency_cycles(self) -> int:
        """dram.latency_ns in core cycles, rounded up; 0 when dram.model is ideal."""
        if self.dram.model == "ideal":
            return 0
        return math.ceil(exact(self.dram.latency_ns) * self.clock_hz / 10**9)

    def second_level_bytes_per_cycle(self, *, write: bool = False) -> Fraction | None:
        """Bytes a core cycle from (or, if `write`, to) the second level; None when unlimited or not there."""
        level = self.second_level
        if level is None:
            return None
        return self._bytes_per_cycle(level.write_bandwidth_gbps if write else level.bandwidth_gbps)

    def peak_macs_per_cycle(self, a: str, b: str | None = None) -> Fraction:
        """Multiply-accumulates a cycle of all arrays together for operands of dtypes `a` and `b` (default: `a`).

        Raises InputError when array.rate has no entry for them.
        """
        rate = self.array.rate_of(a, b)
        if rate is None:
            raise InputError(
                f"array.rate has no entry for {a} x {b or a}",
                where=self.where("array.rate"),
                remedy=f"add one; it has {', '.join(self.array.rate)}",
            )
        return self.array.count * self.array.rows * self.array.cols * rate

    def where(self, path: str) -> str:
        """The file:line that gave the key at dotted `path` (`vector.recipes.softmax[1]`), or its nearest section."""
        while path and path not in self._places:
            path = parent(path)
        return self._places.get(path, self.name)

    def __eq__(self, other: object) -> bool:
        """Equal when every resolved value is, whichever files they came from."""
        return isinstance(other, Arch) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """The resolved machine as JSON holds it; a YAML file with these keys loads as an equal `Arch`."""
        plain: dict[str, Any] = _plain(self.model_dump())
        return plain

    def _bytes_per_cycle(self, gbps: float) -> Fraction | None:
        return None if math.isinf(gbps) else exact(gbps) * 10**9 / self.clock_hz


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None:
        return "none"
    return plain_number(value) if isinstance(value, float) else value
