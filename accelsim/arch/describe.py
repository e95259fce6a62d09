"""What `accelsim show arch` shows: every key with its value and unit, what is unused and why, and derived facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic.fields import FieldInfo

from accelsim.arch.messages import expected, keys, section_of
from accelsim.arch.spec import Arch, Section
from accelsim.arch.units import plain_number


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a key of the file or, if `derived`, a fact that follows from several."""

    key: str
    value: object  # as JSON holds it
    unit: str = ""
    about: str = ""
    unused: str = ""  # why this machine does not use the key; "" when it does
    derived: bool = False


def describe(arch: Arch) -> tuple[Row, ...]:
    """All keys of `arch` in the order of the reference page, then its derived facts."""
    return (*_key_rows(arch), *_derived_rows(arch))


def unused_keys(arch: Arch) -> dict[str, str]:
    """Keys that the chosen dataflow or memory model does not use, each with the reason."""
    model, flows = arch.dram.model, arch.array.dataflows
    reasons = {
        "array.weight_double_buffer": "dataflow os holds no weights" if flows == ("os",) else "",
        "array.output_double_buffer": ""
        if "os" in flows
        else f"dataflow {' and '.join(flows)} drains through the accumulator",
        "accumulator.drain_elements_per_cycle": ""
        if arch.array.fold_overlap
        else "fold_overlap false charges no drain",
        "dma.outstanding": "" if arch.dram.by_command else f"dram.model {model} has no transactions",
        "dma.issue_cycles": "dram.model ideal takes no time" if model == "ideal" else "",
        **{
            f"dram.{key}": "" if arch.dram.by_command else f"dram.model {model} has no commands"
            for key in ("mapping", "channel_xor", "scheduler", "front_end", "refresh")
        },
        **{key: reason for key in keys() if key.startswith("host.") and (reason := _host_unused(arch))},
        "dram.channels": _channels_unused(arch),
        "dram.bandwidth_gbps": "dram.model ideal takes no time" if model == "ideal" else "",
        "dram.latency_ns": "dram.model ideal takes no time" if model == "ideal" else "",
    }
    return {key: reason for key, reason in reasons.items() if reason}


def reference_table() -> str:
    """Every key with what it takes, default and meaning, as the Markdown table of docs/arch.md."""
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for path, info in keys().items():
        takes = expected(path).replace("|", "\\|")
        lines.append(f"| `{path}` | {takes} | {_default(info)} | {info.description} |")
    return "\n".join(lines) + "\n"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "**required**"
    if info.default_factory is not None:
        return "see meaning"
    default = info.default
    if isinstance(default, Section):
        return "each key's"
    shown = {True: "true", False: "false"}[default] if isinstance(default, bool) else default
    return "`none`" if default is None else f"`{shown}`" if shown != "" else ""


def _host_unused(arch: Arch) -> str:
    return "the vector unit does that work" if arch.host is not None and arch.vector is not None else ""


def _channels_unused(arch: Arch) -> str:
    if arch.dram.model == "ideal":
        return "dram.model ideal takes no time"
    if arch.dram.by_command:
        return ""
    return "dram.bandwidth_gbps is given" if "bandwidth_gbps" in arch.dram.model_fields_set else ""


def _key_rows(arch: Arch) -> Iterator[Row]:
    unused, resolved = unused_keys(arch), arch.to_dict()
    for path, info in keys().items():
        value = _at(resolved, path)
        is_section = section_of(info) is not None and isinstance(value, dict) and not path.endswith(".overrides")
        if value is None or is_section:
            continue
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        unit, about = str(extra.get("unit", "")), info.description or ""
        for key, inner in _spread(path, value):
            yield Row(key, inner, unit, about, unused.get(path, ""))


def _at(values: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(values, dict) or key not in values:
            return None
        values = values[key]
    return values


def _spread(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A mapping as one pair a name, anything else as it is."""
    if not isinstance(value, dict) or not value:
        yield path, "{}" if value == {} else value
        return
    for name, inner in value.items():
        yield f"{path}.{name}", inner


def _derived_rows(arch: Arch) -> Iterator[Row]:
    for pair in arch.array.rate:
        macs = arch.peak_macs_per_cycle(*pair.split(" x "))
        yield _fact(
            f"peak {pair}", 2 * macs * arch.clock_hz / 10**12, "TOPS", "a multiply-accumulate is two operations"
        )
    yield _fact("DRAM bandwidth", arch.dram_bytes_per_cycle(), "bytes/cycle", "whole DRAM, one direction at a time")
    yield _fact("DRAM latency", Fraction(arch.dram_latency_cycles()), "cycles", "added to every load")
    yield _fact(
        "scratchpad bandwidth", Fraction(arch.scratchpad.bytes_per_cycle), "bytes/cycle", "banks x width x ports"
    )
    if arch.second_level is not None:
        yield _fact("second level read", arch.second_level_bytes_per_cycle(), "bytes/cycle", "to the scratchpad")
        yield _fact("second level write", arch.second_level_bytes_per_cycle(write=True), "bytes/cycle", "from it")
    if bandwidth := arch.dram_bytes_per_cycle():
        pair = next(iter(arch.array.rate))
        ridge = arch.peak_macs_per_cycle(*pair.split(" x ")) / bandwidth
        yield _fact("ridge point", ridge, f"{pair} MACs/byte", "fewer MACs per DRAM byte: memory-bound")


def _fact(key: str, value: Fraction | None, unit: str, about: str) -> Row:
    shown = ".inf" if value is None else plain_number(float(value))
    return Row(key, shown, unit, about, derived=True)
