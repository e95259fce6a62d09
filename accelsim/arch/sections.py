"""The sections of a machine description: one model a unit.

Every field is one key of the YAML file; its range, unit and meaning stand beside it once, and messages, JSON Schema,
reference page and `accelsim show arch` are made from here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from accelsim.arch.presets import DramPreset, dram_presets
from accelsim.arch.units import (
    ByName,
    DtypeRates,
    Rate,
    Unlimited,
    canonical_pair,
    exact,
    number,
    refusal,
    text,
    unlimited,
    whole,
)

FUNCTIONS = ("exp", "erf", "tanh", "rsqrt", "div")  # every machine gives their rate
MORE_FUNCTIONS = ("log", "sqrt")  # needed by some recipes only
NOT_YET = "is not yet supported"
MAX_OUTSTANDING, MAX_DMA_QUEUES = 16384, 64  # of all queues together, where every DRAM command is simulated
MAPPING_FIELDS = ("Ro", "Ra", "Bg", "Ba", "Co", "Ch")


Dataflow = Literal["ws", "os", "is"]


DATAFLOWS: tuple[Dataflow, ...] = get_args(Dataflow)
_DATAFLOW_EXPECTED = f"one of {', '.join(DATAFLOWS)}, or a list of some of them, such as [ws, os]"


def _dataflow_choice(value: Any) -> Dataflow | list[Dataflow]:
    """One dataflow, or some, each once. Refuses everything else."""
    listed = value if isinstance(value, list) else [value]
    if not listed or any(each not in DATAFLOWS for each in listed):
        raise refusal(f"expected {_DATAFLOW_EXPECTED}")
    if len(set(listed)) < len(listed):
        raise refusal("names a dataflow twice", remedy="list each once")
    chosen: Dataflow | list[Dataflow] = value
    return chosen


_ONE_DATAFLOW = {"type": "string", "enum": list(DATAFLOWS)}
_DATAFLOW_SCHEMA = {
    "anyOf": [_ONE_DATAFLOW, {"type": "array", "items": _ONE_DATAFLOW, "minItems": 1, "uniqueItems": True}]
}
DataflowChoice = Annotated[
    Dataflow | list[Dataflow],
    PlainValidator(_dataflow_choice),
    WithJsonSchema(_DATAFLOW_SCHEMA, mode="validation"),
]


class Section(BaseModel):
    """A group of keys: unknown ones refused, values typed strictly, unchangeable once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Array(Section):
    """The systolic arrays of the core."""

    count: int = whole(1, low=1, high=1024, about="arrays in the core, all alike")
    rows: int = whole(low=1, high=65536, unit="PEs", about="rows R of processing elements")
    cols: int = whole(low=1, high=65536, unit="PEs", about="columns C of processing elements")
    dataflow: DataflowChoice = text(
        "ws",
        about="what stays in the array: weights, outputs or inputs; a list where each matmul may take its own",
        expected=_DATAFLOW_EXPECTED,
    )
    weight_double_buffer: bool = text(True, about="shadow registers: the next weights shift in under the stream")
    output_double_buffer: bool = text(True, about="second output registers: results shift out under the next fold")
    fold_overlap: bool = text(True, about="a fold may start before the one before it has drained")
    rate: DtypeRates = text(
        about="steps a cycle of every PE, by dtype or pair of dtypes (`int8`, `int8 x int16`); not listed: refused",
        expected="a mapping of dtypes to rates, at least one",
    )

    @model_validator(mode="after")
    def _shadow_needs_overlap(self) -> Array:
        if self.weight_double_buffer and not self.fold_overlap:
            raise refusal(
                "cannot be true when array.fold_overlap is false: without overlap no weights shift in under a stream",
                path="weight_double_buffer",
                remedy="set array.weight_double_buffer: false, or array.fold_overlap: true",
            )
        return self

    @property
    def dataflows(self) -> tuple[Dataflow, ...]:
        """The dataflows that a matmul may take; what is chosen first where all are alike comes first."""
        return (self.dataflow,) if isinstance(self.dataflow, str) else tuple(self.dataflow)

    def rate_of(self, a: str, b: str | None = None) -> Fraction | None:
        """Steps a cycle for operands of dtypes `a` and `b` (default: both `a`); None when the array cannot."""
        try:
            return self.rate.get(canonical_pair(f"{a} x {b or a}"))
        except ValueError:
            return None


class Accumulator(Section):
    """The memory below the array that sums and holds results."""

    capacity_kib: float = number(high=1e12, unit="KiB", about="capacity")
    width_bytes: int = whole(4, low=1, high=8, unit="bytes", about="bytes of one accumulated element")
    drain_elements_per_cycle: Unlimited = unlimited(
        unit="elements/cycle", about="results that leave a cycle, per array"
    )

    @property
    def capacity_bytes(self) -> int:
        """Capacity in bytes, rounded down."""
        return math.floor(exact(self.capacity_kib) * 1024)


class Vector(Section):
    """The vector unit: softmax, LayerNorm, GELU, elementwise work."""

    lanes: int = whole(low=1, high=2**20, about="elements a cycle for add, multiply, maximum, compare, convert")
    rate: dict[str, Rate] = text(
        about="results per lane and cycle of each other elementary function",
        expected=f"a mapping with a rate for each of {', '.join(FUNCTIONS)} ({', '.join(MORE_FUNCTIONS)} if needed)",
    )
    pipeline_depth: int = whole(low=0, high=10**6, unit="cycles", about="from an element's entry to its result")
    layernorm_passes: int = whole(1, low=1, high=2, about="statistics in one pass (sum and sum of squares) or two")
    recipes: ByName[list[dict[str, Any]]] = text(
        {},
        about="operator recipes to add or replace (docs/recipes.md)",
        expected="a mapping of names to lists of passes",
    )

    @field_validator("rate")
    @classmethod
    def _every_function(cls, rate: dict[str, Fraction]) -> dict[str, Fraction]:
        known = FUNCTIONS + MORE_FUNCTIONS
        for function in rate:
            if function not in known:
                raise refusal("is no elementary function", path=function, remedy=f"valid: {', '.join(known)}")
        for function in FUNCTIONS:
            if function not in rate:
                raise refusal(f"needs a rate for `{function}`", remedy=f"add {function}: 1/4 or what the unit does")
        return {function: rate[function] for function in known if function in rate}


class Scratchpad(Section):
    """The core's software-managed memory."""

    capacity_kib: float = number(high=1e12, unit="KiB", about="capacity")
    banks: int = whole(low=1, high=65536, about="banks, word-interleaved")
    bank_width_bytes: int = whole(low=1, high=65536, unit="bytes", about="bytes of one access to one bank")
    ports: int = whole(low=1, high=64, about="accesses a cycle to each bank")
    transpose: Literal["buffer", "padding", "none"] = text(
        "buffer",
        about="reads across rows: through a transposing buffer, from padded rows, or as they meet in the banks",
    )

    @property
    def capacity_bytes(self) -> int:
        """Capacity in bytes, rounded down."""
        return math.floor(exact(self.capacity_kib) * 1024)

    @property
    def bytes_per_cycle(self) -> int:
        """Most bytes a cycle over all banks, reads and writes together."""
        return self.banks * self.bank_width_bytes * self.ports


def _read_bandwidth(known: Mapping[str, Any]) -> float:
    return float(known.get("bandwidth_gbps", math.inf))


class SecondLevel(Section):
    """A larger on-chip memory behind the scratchpad (for instance TPUv4i's CMEM)."""

    capacity_kib: float = number(high=1e12, unit="KiB", about="capacity")
    bandwidth_gbps: Unlimited = unlimited(unit="1e9 bytes/s", about="bandwidth towards the scratchpad")
    write_bandwidth_gbps: Unlimited = unlimited(
        unit="1e9 bytes/s", about="bandwidth from the scratchpad (default: bandwidth_gbps)", factory=_read_bandwidth
    )

    @property
    def capacity_bytes(self) -> int:
        """Capacity in bytes, rounded down."""
        return math.floor(exact(self.capacity_kib) * 1024)


class Dma(Section):
    """The engines that move tiles between DRAM and the scratchpad."""

    load_queues: int = whole(1, low=1, high=1024, about="in-order queues that load")
    store_queues: int = whole(1, low=1, high=1024, about="in-order queues that store")
    outstanding: int = whole(
        512,
        low=1,
        high=MAX_OUTSTANDING,
        about="DRAM transactions (32 to 128 bytes each) that a load queue has in flight",
    )
    issue_cycles: int = whole(0, low=0, high=10**6, unit="cycles", about="from a queue's turn to its first request")
    prefetch_window: int = whole(64, low=1, high=10**6, about="loads a queue may run ahead of the task they serve")


def _preset_peak(known: Mapping[str, Any]) -> float:
    preset = dram_presets().get(known.get("preset", ""))
    return float(preset.channel_gbps * known.get("channels", 1)) if preset else math.inf


def _preset_latency(known: Mapping[str, Any]) -> float:
    preset = dram_presets().get(known.get("preset", ""))
    return preset.latency_ns if preset else 0.0


def _known_preset(name: str) -> str:
    if name not in dram_presets():
        raise refusal(f"expected one of {', '.join(dram_presets())}")
    return name


def _address_mapping(mapping: str) -> str:
    if mapping != "MOP4CLXOR" and sorted(re.findall("[A-Z][a-z]", mapping)) != sorted(MAPPING_FIELDS):
        raise refusal(
            f"expected MOP4CLXOR, or each of {', '.join(MAPPING_FIELDS)} once, from the highest address bits down"
        )
    if mapping != "MOP4CLXOR" and len(mapping) != 2 * len(MAPPING_FIELDS):
        raise refusal("expected nothing but the fields, for instance RoBaBgRaCoCh")
    return mapping


class Dram(Section):
    """The memory outside the chip."""

    preset: Annotated[str, AfterValidator(_known_preset)] = text(
        about="device and speed grade: " + ", ".join(dram_presets()), expected="one of " + ", ".join(dram_presets())
    )
    channels: int = whole(low=1, high=4096, about="channels, each as wide as the preset's")
    mapping: Annotated[str, AfterValidator(_address_mapping)] = text(
        "MOP4CLXOR",
        about="address bits, high to low: row, rank or pseudochannel, bank group, bank, column, channel; or MOP4CLXOR: "
        "four transactions of a row together, the next ones spread over ranks, groups and banks",
        expected="an address mapping such as RoBaRaCoBgCh, or MOP4CLXOR",
    )
    channel_xor: bool = text(True, about="the channel depends on all address bits: no pitch camps on a few channels")
    scheduler: Literal["frfcfs", "frfcfs_row_hit"] = text(
        "frfcfs", about="ready first, then oldest; `_row_hit`: no row is closed while an older request waits for it"
    )
    front_end: Literal["unified", "per_bank"] = text(
        "unified", about="one read and one write queue a channel, or a command queue for each bank behind them"
    )
    refresh: bool = text(True, about="the DRAM is refreshed")
    weights: Literal["row_major", "blocked"] = text(
        "row_major",
        about="a matmul's weights lie as the framework keeps them, or tile after tile, packed before the run",
    )
    tensor_align_bytes: int = whole(
        64, low=1, high=2**30, unit="bytes", about="every tensor starts at a multiple of it"
    )
    model: Literal["command", "pattern", "bandwidth", "ideal"] = text(
        "command",
        about="every DRAM command; requests timed by commands of their like; bytes over bandwidth; or no time at all",
    )
    bandwidth_gbps: Unlimited = unlimited(
        unit="1e9 bytes/s",
        about="bandwidth of all channels, or of the way to them (default: the preset's peak)",
        factory=_preset_peak,
    )
    latency_ns: float = number(
        high=1e9, unit="ns", zero=True, factory=_preset_latency,
        about="of a load: closed row of the device, and way to the core (default: the preset's closed-row read)",
    )  # fmt: skip

    @property
    def peak_gbps(self) -> float:
        """Bandwidth of all channels together, in 1e9 bytes a second."""
        return float(self.device.channel_gbps * self.channels)

    @model_validator(mode="after")
    def _no_more_than_the_channels_carry(self) -> Dram:
        if self.by_command and self.peak_gbps < self.bandwidth_gbps < math.inf:
            raise refusal(
                f"expected at most {self.peak_gbps:g}, which {self.channels} channels of {self.preset} carry, or .inf",
                path="bandwidth_gbps",
                remedy="use more channels or another preset; dram.model bandwidth takes any number",
            )
        return self

    @property
    def by_command(self) -> bool:
        """True if the model needs to know the device's commands."""
        return self.model in ("command", "pattern")

    @model_validator(mode="after")
    def _whole_bits(self) -> Dram:
        if self.by_command and self.channels & (self.channels - 1):
            raise refusal(
                f"expected a power of two when model is {self.model}: channels are numbered by address bits",
                path="channels",
                remedy="use 1, 2, 4, 8, ..., or model bandwidth",
            )
        return self

    @property
    def device(self) -> DramPreset:
        """The preset's entry in the table of DRAM devices."""
        return dram_presets()[self.preset]


class Estimate(Section):
    """A number with its spread. A plain number in the file means low = nominal = high."""

    low: float = number(high=1e12, unit="", about="low end", zero=True)
    nominal: float = number(high=1e12, unit="", about="best estimate", zero=True)
    high: float = number(high=1e12, unit="", about="high end", zero=True)

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise refusal("expected a number >= 0, or a mapping {low, nominal, high}")
        return {"low": value, "nominal": value, "high": value}

    @model_validator(mode="after")
    def _in_order(self) -> Estimate:
        if not self.low <= self.nominal <= self.high:
            raise refusal("expected low <= nominal <= high")
        return self


_OVERRIDES = "a mapping of entries to a number or {low, nominal, high}"


class Energy(Section):
    """Which energy table counts, for which technology, and what replaces its entries."""

    table: str = text("tpu_v4i_7nm", about="name of the energy table")
    technology_nm: float = number(7, high=1000, unit="nm", about="technology the energies and areas are for")
    sram_cell: Literal["hp", "lstp"] = text(
        "hp", about="cells of all on-chip memory: high performance, or low standby power (slow, hardly leaks)"
    )
    overrides: ByName[Estimate] = text({}, about="entries of the table to replace", expected=_OVERRIDES)


class Area(Section):
    """What replaces entries of the area table."""

    overrides: ByName[Estimate] = text({}, about="entries of the table to replace", expected=_OVERRIDES)
