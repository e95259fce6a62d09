"""What the report shows of a Result: rows picked, summed and named, without any layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from accelsim.report.numbers import printable, shortened

Data = Mapping[str, Any]
Row = dict[str, Any]
Spread = tuple[float, float, float]  # nominal, low, high

NOTABLE_SHARE = 0.01
PATH_ROWS = 4
KIND_ROWS = 5
CAUSES_SHOWN = 4
KIND_WIDTH = 18
_LABELS = {
    "weights": "array weights",
    "stream": "array multiply",
    "drain": "array drain",
    "vector": "vector unit",
    "load": "DRAM load",
    "store": "DRAM store",
    "dram_write": "DRAM last write",
    "softmax": "softmax unit",
    "layernorm": "layernorm unit",
    "gelu": "gelu unit",
    "host": "host",
    "level2.load": "level-2 load",
    "level2.store": "level-2 store",
}
_MAIN_UNITS = ("stream", "vector", "softmax", "layernorm", "gelu", "host", "load", "store")
_COMPONENTS = {
    "array_mac": "array multiply-add",
    "array_registers": "array registers",
    "accumulator": "accumulator",
    "scratchpad": "scratchpad",
    "level2": "second level",
    "vector": "vector unit",
    "special": "dedicated units",
    "host": "host",
    "host_dram": "host DRAM",
    "dram": "DRAM",
    "dram_activate": "DRAM",
    "dram_refresh": "DRAM",
    "static_dram": "DRAM standby",
}
STATIC = "leakage on chip"
_CAUSES = {
    "dram_read": "load",
    "dram_write": "store",
    "dma_issue": "DMA",
    "level2": "level 2",
    "scratchpad": "scratch",
    "near_memory": "near",
    "own_latency": "itself",
}


def unit_kind(name: str) -> str:
    """`core0.array1.stream` -> `stream`, `core0.load0` -> `load`, `core0.level2.load` -> `level2.load`."""
    last = name.removeprefix("core0.").rpartition(".")
    kind = last[2].rstrip("0123456789")
    return f"level2.{kind}" if last[0] == "level2" else kind


def unit_label(name: str | None) -> str:
    """A unit's name in words; several arrays or queues share one."""
    if name is None:
        return "-"
    kind = unit_kind(name)
    return _LABELS.get(kind, _LABELS.get(name, name))


def short_label(name: str | None) -> str:
    """A unit's name in one word where that is enough: multiply, vector, load."""
    label = unit_label(name)
    return label.removeprefix("array ").removeprefix("DRAM ").removesuffix(" unit")


def machine_lines(data: Data, width: int) -> list[str]:
    """What was run on what: `bert_base_fwd_b1_s128 on tpu_like (128x128 ws, 1000 MHz, hbm2_2000 256 GB/s)`.

    The part in brackets takes a second line where one of `width` columns does not hold both.
    """
    arch = data["provenance"]["arch"]
    array, dram = arch["array"], arch["dram"]
    count = f"{array['count']} x " if array["count"] > 1 else ""
    given, peak = dram["bandwidth_gbps"], data["dram"]["peak_bandwidth_gbps"]
    rate = "unlimited" if peak is None else f"{given if isinstance(given, int | float) else peak:g} GB/s"
    memory = "ideal memory" if dram["model"] == "ideal" else f"{dram['preset']} {rate}"
    flow = array["dataflow"]
    shape = f"{count}{array['rows']}x{array['cols']} {flow if isinstance(flow, str) else '/'.join(flow)}"
    facts = f"({shape}, {arch['clock_mhz']:g} MHz, {memory})"
    name = printable(data["provenance"]["trace"]["name"])
    machine = shortened(f" on {printable(arch['name'])}", width // 2)
    if len(name + machine) + 1 + len(facts) <= width:
        return [f"{name}{machine} {facts}"]
    return [shortened(name, width - len(machine)) + machine, f"  {shortened(facts, width - 2)}"]


def path_rows(data: Data) -> list[tuple[str, int]]:
    """Critical-path cycles by kind of unit, largest first, the small ones together."""
    found: Counter[str] = Counter()
    for name, cycles in data["critical_path"]["by_unit"].items():
        found[unit_label(name)] += cycles
    rows = found.most_common()
    rest = sum(cycles for _, cycles in rows[PATH_ROWS:])
    return [*rows[:PATH_ROWS], *([("others", rest)] if rest else [])]


def busiest_units(data: Data) -> dict[str, Row]:
    """For each main kind of unit the one that works most: its cycles by busy part, stall cause, tail and idle."""
    best: dict[str, Row] = {}
    for name, unit in data["units"].items():
        kind = unit_kind(name)
        busy = sum(unit["busy"].values())
        if busy and kind in _MAIN_UNITS and busy > sum(best.get(kind, {"busy": {}})["busy"].values()):
            best[kind] = unit
    return {_LABELS[kind]: best[kind] for kind in _MAIN_UNITS if kind in best}


def scratchpad_limits(data: Data) -> list[tuple[str, int]]:
    """Kinds of units to whose busy time the scratchpad's bandwidth adds more than 1 % of the run, most cycles first.

    Of several arrays or queues the one with most cycles counts.
    """
    most: dict[str, int] = {}
    for name, unit in data["units"].items():
        added = unit["busy"].get("scratchpad", 0)
        if added > NOTABLE_SHARE * data["total"]["cycles"]:
            most[short_label(name)] = max(added, most.get(short_label(name), 0))
    return sorted(most.items(), key=lambda item: -item[1])


def cause_label(cause: str) -> str:
    """A stall cause in one short word: what the unit waited for."""
    return _CAUSES.get(cause, cause)


def dominant_causes(units: Mapping[str, Row]) -> list[str]:
    """The stall causes with most cycles in these units, largest first."""
    total: Counter[str] = Counter()
    for unit in units.values():
        total.update(unit["stalls"])
    return [cause for cause, _ in total.most_common(CAUSES_SHOWN)]


def kind_rows(data: Data) -> list[Row]:
    """Rows by operator kind that have tasks of their own, most cycles first, the small ones together."""
    own = [{**row, "operators": row["operators"] - row["fused_operators"]} for row in data["by_kind"]]
    rows = sorted((row for row in own if row["operators"]), key=lambda row: -row["cycles"])
    if len(rows) <= KIND_ROWS:
        return rows
    return [*rows[: KIND_ROWS - 1], _together(rows[KIND_ROWS - 1 :])]


def peak_share(row: Data) -> float:
    """MACs over what the arrays could do in the row's own critical-path cycles; 0 without MACs or cycles."""
    if not row["macs"] or not row["cycles"]:
        return 0.0
    return float(row["macs"] / (row["peak_macs_per_cycle"] * row["cycles"]))


def _together(rows: Sequence[Row]) -> Row:
    summed = ("operators", "cycles", "macs", "dram_read_bytes", "dram_write_bytes", "energy_pj")
    sums = {name: sum(row[name] for row in rows) for name in summed}
    ideal = sum(row["macs"] / row["peak_macs_per_cycle"] for row in rows if row["macs"])
    peak = sums["macs"] / ideal if ideal else None
    return {"kind": f"{len(rows)} other kinds", "peak_macs_per_cycle": peak, "bound_by": None, **sums}


def component_label(component: str) -> str:
    """A component of the energy in words; several may share one, as leakage of everything on chip does."""
    return _COMPONENTS.get(component, STATIC if component.startswith("static_") else component)


def energy_rows(data: Data) -> list[tuple[str, Spread]]:
    """Energy by component in pJ; leakage of everything on chip is one row."""
    keys = ("energy_pj", "energy_low_pj", "energy_high_pj")
    rows: dict[str, Spread] = {}
    for component in data["energy_pj"]:
        label = component_label(component)
        nominal, low, high = rows.get(label, (0.0, 0.0, 0.0))
        rows[label] = (
            nominal + data[keys[0]][component], low + data[keys[1]][component], high + data[keys[2]][component],
        )  # fmt: skip
    return [(label, row) for label, row in rows.items() if any(row)]


def single_operator(data: Data) -> str:
    """For a run of one operator how it was cut; "" for any other."""
    tiles = data["program"]["tiles"]
    if len(data["operators"]) != 1 or not tiles:
        return ""
    plan = tiles[0]
    tile = "" if not plan["tile"] else "tile m, n, k = {}, {}, {}".format(*plan["tile"])
    chosen = "" if not plan["depth"] else "dataflow {}, {} and {} slots".format(plan["dataflow"], *plan["depth"])
    order = "" if not plan["order"] else f"loops from outer to inner {' '.join(plan['order'])}"
    places = ", ".join(f"{role} in {place}" for role, place in plan["places"].items())
    moved = data["dram"]["read_bytes"] + data["dram"]["write_bytes"]
    shown = (tile, order, chosen, places, f"{moved:,} DRAM bytes", _against_bound(plan))
    return "; ".join(part for part in shown if part)


def _against_bound(plan: Data) -> str:
    """What a matmul takes alone, against what no mapping goes below; "" for other kinds."""
    if not plan["bound_cycles"]:
        return ""
    alone = plan["simulated_cycles"]
    taken = f"estimated {plan['estimated_cycles']:,}" + ("" if alone is None else f", simulated alone {alone:,}")
    return f"at least {plan['bound_cycles']:,} cycles, {taken}: {plan['distance']:.2f} of the bound"
