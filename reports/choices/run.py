"""Design choices for BERT, one at a time, on one machine: writes the tables of README.md beside this file.

    python reports/choices/run.py

Each line is a whole forward pass, compiled and simulated anew; `dram.model` is `pattern`, which on this machine is
within 4 % of every DRAM command and several times faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import accelsim
from accelsim.files import between_marks, write_whole_text

TRACES = ("bert_base_fwd_b1_s128", "bert_base_fwd_b1_s512", "bert_large_fwd_b1_s128", "bert_large_fwd_b1_s512")
HEADER = (
    "choice",
    "cycles",
    "to first",
    "energy, mJ",
    "DRAM, MB",
    "area, mm2",
    "EDA to first",
    "waits most for",
)


@dataclass(frozen=True)
class Choice:
    """One machine and one way to compile."""

    name: str
    arch: str = "tpu_like"
    keys: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


STUDIES: Mapping[str, tuple[Choice, ...]] = {
    "fusion": (
        Choice("none", options={"fusion": "none"}),
        Choice("elementwise"),
        Choice("attention", options={"fusion": "attention"}),
        Choice("attention, two_pass", options={"fusion": "attention", "rules": {"attention": "two_pass"}}),
        Choice("attention, online", options={"fusion": "attention", "rules": {"attention": "online"}}),
        Choice("all", options={"fusion": "all"}),
        Choice(
            "LayerNorm in its matmul wherever it can be",
            options={"fusion": "elementwise", "rules": {"matmul_layernorm": "always"}},
        ),
    ),
    "units": (
        Choice("vector unit of 1024 lanes"),
        Choice("softmax unit at the array's output", "tpu_like_softmax"),
        Choice("softmax unit at the scratchpad", "tpu_like_softmax", {"special.softmax.attach": "scratchpad"}),
        Choice("softmax unit, fused attention", "tpu_like_softmax", options={"fusion": "attention"}),
        Choice("no vector unit, a host instead", "tpu_like_no_vector"),
        Choice("1280 lanes", keys={"vector.lanes": 1280}),
        Choice("768 lanes", keys={"vector.lanes": 768}),
        Choice("768 lanes and the softmax unit", "tpu_like_softmax", {"vector.lanes": 768}),
    ),
    "residency": (
        Choice("residency on"),
        Choice("residency off", options={"residency": False}),
        Choice("half the scratchpad", keys={"scratchpad.capacity_kib": 4096}),
        Choice("a quarter of it", keys={"scratchpad.capacity_kib": 2048}),
    ),
    "objective": (
        Choice("time", options={"optimize": "time"}),
        Choice("energy", options={"optimize": "energy"}),
        Choice("energy-delay product", options={"optimize": "edp"}),
    ),
}


def main() -> None:
    """Put the tables between the marks of README.md."""
    page = Path(__file__).with_name("README.md")
    text = page.read_text(encoding="utf-8")
    for name, choices in STUDIES.items():
        lines = "\n".join(line for trace in TRACES for line in table(trace, choices))
        text = between_marks(text, f"<!-- {name} -->\n", f"\n<!-- end of {name} -->", lines)
    write_whole_text(page, text)


def table(trace: str, choices: tuple[Choice, ...]) -> Iterator[str]:
    """A Markdown table of one trace."""
    yield f"\n**{trace}**\n"
    yield f"| {' | '.join(HEADER)} |"
    yield "|" + "---|" * len(HEADER)
    first: dict[str, float] = {}
    for choice in choices:
        arch = accelsim.load_arch(choice.arch, {"dram.model": "pattern", **choice.keys})
        data = accelsim.simulate(arch, trace, **choice.options).to_dict()
        found = numbers(data)
        first = first or found
        print(f"{trace}: {choice.name}: {found['cycles']:,.0f} cycles", flush=True)
        yield (
            f"| {choice.name} | {found['cycles']:,.0f} | {found['cycles'] / first['cycles']:.3f} | {found['mj']:.2f} "
            f"| {found['mb']:.1f} | {found['area']:.2f} | {found['eda'] / first['eda']:.2f} | {waits(data)} |"
        )


def numbers(data: Mapping[str, Any]) -> dict[str, float]:
    """The totals of a result."""
    cycles, energy = data["total"]["cycles"], sum(data["energy_pj"].values()) * 1e-9
    area = sum(data["area_mm2"].values())
    moved = sum(row["dram_read_bytes"] + row["dram_write_bytes"] for row in data["operators"]) / 1e6
    return {"cycles": cycles, "mj": energy, "mb": moved, "area": area, "eda": cycles * energy * area}


def waits(data: Mapping[str, Any]) -> str:
    """What the array waits for most, and its share of the time."""
    stalls = data["units"]["core0.array0.stream"]["stalls"]
    cause, cycles = max(stalls.items(), key=lambda item: item[1], default=("nothing", 0))
    return f"{cause} {100 * cycles / data['total']['cycles']:.1f} %"


if __name__ == "__main__":
    main()
