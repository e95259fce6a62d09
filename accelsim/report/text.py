"""The report in a terminal: at most 40 lines, aligned at 80 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from accelsim.report.numbers import (
    bar,
    compact,
    count,
    decimals,
    fixed,
    percent,
    prefix,
    quantity,
    ratio,
    scaled,
    shortened,
)
from accelsim.report.sections import (
    KIND_WIDTH,
    busiest_units,
    cause_label,
    dominant_causes,
    energy_rows,
    kind_rows,
    machine_lines,
    path_rows,
    peak_share,
    scratchpad_limits,
    short_label,
    single_operator,
)

if TYPE_CHECKING:
    from accelsim.measure.result import Result

WIDTH = 80
MAX_LINES = 40
_COUNT_WIDTH = 13
_PEAK_NOTE = "% of peak counts only multiply-adds; busy also counts fill, padding and slowdown"
_BAR = 24
_BOUNDS = {
    "compute_cycles": "compute",
    "dram_cycles": "DRAM",
    "vector_cycles": "vector",
    "dependency_cycles": "dependency chain",
}
Data = Mapping[str, Any]
Part = Text | Table


def show(result: Result, console: Console | None = None) -> None:
    """Print the report to stdout, or to `console`. Colour only on a terminal that wants it (NO_COLOR is respected)."""
    out = console or Console(highlight=False)
    put(out, render(result, ascii_only=out.options.ascii_only))


def put(out: Console, report: RenderableType) -> None:
    """Print a renderable as wide as the terminal, anywhere else in 80 columns and without spaces at line ends."""
    if out.is_terminal:
        out.print(report)
        return
    with out.capture() as captured:
        out.print(report, width=WIDTH)
    for line in captured.get().splitlines():
        out.out(line.rstrip(), highlight=False)


def render(result: Result, *, ascii_only: bool = False) -> RenderableType:
    """The report as a rich renderable, 80 columns wide; `ascii_only` for terminals without block characters."""
    data = result.data
    blank, last_blank = Text(""), Text("")
    parts: list[Part] = [*_headline(data), blank, _bounds(data), blank, _critical_path(data, ascii_only)]
    note = Text(_PEAK_NOTE, style="dim")
    parts += [blank, _units(data), *_scratchpad(data), *_dram(data), note, blank]
    chosen = single_operator(data)
    parts += [Text(chosen, overflow="fold")] if chosen else _kinds(data)
    parts += [last_blank, _energy(data, ascii_only)]
    return Group(*_fitted(parts, spare=(last_blank, note, blank)))


def _fitted(parts: list[Part], spare: Sequence[Part]) -> list[Part]:
    """The parts in MAX_LINES, without as many of the `spare` ones, the first of them first, as do not fit."""
    excess = max(0, sum(map(_height, parts)) - MAX_LINES)
    order = [index for candidate in spare for index, part in enumerate(parts) if part is candidate]
    dropped = set(order[:excess])
    return [part for index, part in enumerate(parts) if index not in dropped]


def _height(part: Part) -> int:
    return part.row_count + 1 if isinstance(part, Table) else max(1, -(-len(part) // WIDTH))


def _headline(data: Data) -> Iterator[Text]:
    total, arguments = data["total"], data["provenance"]["arguments"]
    energy = sum(data["energy_pj"].values()) * 1e-12
    power = data["average_power_w"]["nominal"]
    for line in machine_lines(data, WIDTH):
        yield Text(line, style="bold")
    operations = 2 * total["macs"] / total["seconds"] if total["seconds"] else 0.0
    facts = [
        f"{count(total['cycles'], 19)} cycles",
        quantity(total["seconds"], "s"),
        f"{percent(total['utilization'], 1) or 0} % of peak",
        compact(operations, "OPS"),
        quantity(energy, "J"),
        *([] if power is None else [quantity(power, "W")]),
    ]
    line = "   ".join(facts)
    yield Text(line if len(line) <= WIDTH else " ".join(facts), style="bold cyan")
    kept = {True: "on", False: "off", None: "-"}[arguments.get("residency")]
    per_inference = f"batch {total['batch']}: {count(round(total['cycles_per_inference']), 19)} cycles per inference"
    yield Text(f"{per_inference}; fusion {arguments.get('fusion')}, residency {kept}", style="dim")
    if applied := _applied(data):
        yield Text(f"fused: {applied}", style="dim")


def _applied(data: Data) -> str:
    """How often the rules that make one group of several were applied, "" where none was."""
    fused = data["program"]["fused"]
    rules = ("array_output", "attention", "matmul_layernorm", "optimizer")
    return ", ".join(f"{rule} {fused[rule]}x" for rule in rules if fused.get(rule))


def _bounds(data: Data) -> Table:
    """Each bound, and how many times it the run takes."""
    bounds, cycles = data["bounds"], data["total"]["cycles"]
    table = _table("Lower bounds", *(_BOUNDS.get(name, name) for name in bounds))
    table.add_row("cycles at least", *(count(bound, _COUNT_WIDTH) for bound in bounds.values()))
    closest = max(bounds.values())
    marks = [Text(ratio(cycles, bound), style="bold" if bound == closest else "") for bound in bounds.values()]
    table.add_row("this run takes", *marks)
    return table


def _critical_path(data: Data, ascii_only: bool) -> Table:
    total = data["total"]["cycles"]
    table = _table("Where the time went (critical path)", "cycles", "%")
    table.add_column("", no_wrap=True)
    for label, cycles in path_rows(data):
        share = cycles / total if total else 0.0
        mark = Text(bar(share, _BAR, ascii_only=ascii_only), style="cyan")
        table.add_row(label, count(cycles, 19), percent(cycles, total), mark)
    return table


def _units(data: Data) -> Table:
    """Main units: share of cycles busy, waiting by cause, and done with their work."""
    units, total = busiest_units(data), data["total"]["cycles"]
    causes = dominant_causes(units)
    others = any(set(unit["stalls"]) - set(causes) for unit in units.values())
    heads = [*map(cause_label, causes), *(["other"] if others else [])]
    if heads:  # brackets hold together what the unit waits for
        heads[0] = f"waits for ({heads[0]}"
        heads[-1] += ")"
    table = _table("Units, % of time", "busy", *heads, "idle")
    for label, unit in units.items():
        waits = [unit["stalls"].get(cause, 0) for cause in causes]
        rest = [sum(unit["stalls"].values()) - sum(waits)] if others else []
        cells = [sum(unit["busy"].values()), *waits, *rest, unit["tail"] + unit["idle"]]
        table.add_row(label, *(percent(cell, total) for cell in cells))
    return table


def _scratchpad(data: Data) -> Iterator[Text]:
    """One line when the scratchpad's bandwidth holds units up: which, and by what share of the run."""
    total = data["total"]["cycles"]
    limits = [f"{unit} {percent(added, total)}" for unit, added in scratchpad_limits(data)]
    if limits:
        yield Text(f"scratchpad (bandwidth, bank conflicts) adds, % of time: {', '.join(limits)}", style="bold")


def _dram(data: Data) -> Iterator[Text]:
    """One line on a DRAM that ran every command: how busy it was and how well rows were used."""
    dram = data["dram"]
    if not dram["commands"]:
        return
    columns = dram["commands"].get("RD", 0) + dram["commands"].get("WR", 0)
    share = percent(dram["achieved_bandwidth_gbps"], dram["peak_bandwidth_gbps"])
    latency = dram["mean_read_latency_ns"]
    read = "" if latency is None else f"; a transaction is read in {latency:.0f} ns"
    yield Text(f"DRAM moves {share} % of its rate; {percent(dram['row_hits'], columns)} % row hits{read}")


def _kinds(data: Data) -> Iterator[Part]:
    """Operator kinds with tasks of their own, then which others they took in."""
    rows, total = kind_rows(data), data["total"]["cycles"]
    unit = prefix(sum(data["energy_pj"].values()) * 1e-12)
    energies = [scaled(row["energy_pj"] * 1e-12, unit) for row in rows]
    moved = [row["dram_read_bytes"] + row["dram_write_bytes"] for row in rows]
    size, name = (1e9, "GB") if max(moved) >= 1e10 else (1e6, "MB")
    table = _table("Operators", "count", "cycles", "%", "% peak", f"DRAM {name}", f"{unit}J", gap=_gap(rows, total))
    table.add_column(" bound by", no_wrap=True)
    for row, energy, size_bytes in zip(rows, energies, moved, strict=True):
        table.add_row(
            shortened(row["kind"], KIND_WIDTH), f"{row['operators']:,}", count(row["cycles"], _COUNT_WIDTH),
            percent(row["cycles"], total), _peak(row), fixed(size_bytes / size, decimals(max(moved) / size)),
            fixed(energy, decimals(max(energies))), f" {short_label(row['bound_by'])}",
        )  # fmt: skip
    yield table
    fused = [f"{row['fused_operators']} {row['kind']}" for row in data["by_kind"] if row["fused_operators"]]
    if fused:
        yield Text(shortened(f"fused into these: {', '.join(fused)}", WIDTH), style="dim")


def _peak(row: Mapping[str, Any]) -> str:
    """Percent of the arrays' peak in the row's own cycles; above 100 when others' cycles hide part of its work."""
    share = peak_share(row)
    return ">100" if share > 1 else percent(share, 1)


def _gap(rows: Sequence[Mapping[str, Any]], total: int) -> int:
    """Spaces between columns: one where long names or numbers need the room."""
    return 1 if total >= 10**8 or max(len(row["kind"]) for row in rows) > 12 else 2


def _energy(data: Data, ascii_only: bool) -> Table:
    rows = energy_rows(data)
    nominal, low, high = (sum(row[i] for _, row in rows) for i in range(3))
    unit = prefix(nominal * 1e-12)
    places = decimals(scaled(nominal * 1e-12, unit))
    table = _table("Energy by component", f"{unit}J", "%", "low", "high")
    table.add_column("", no_wrap=True)
    for label, row in [*rows, ("total", (nominal, low, high))]:
        numbers = [fixed(scaled(value * 1e-12, unit), places) for value in row]
        share = row[0] / nominal if nominal and label != "total" else 0.0
        mark = Text(bar(share, _BAR, ascii_only=ascii_only), style="cyan")
        style = "bold" if label == "total" else ""
        table.add_row(label, numbers[0], percent(row[0], nominal), *numbers[1:], mark, style=style)
    return table


def _table(*headers: str, gap: int = 2) -> Table:
    """A table without lines: the first column to the left, the others to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for index, header in enumerate(headers):
        table.add_column(header, justify="right" if index else "left", no_wrap=True)
    return table
