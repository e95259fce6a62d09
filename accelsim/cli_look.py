"""The commands that look and change nothing: `accelsim list`, `show`, `explain` and `schema`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli_options import (
    arch_options,
    check_outputs,
    load_work,
    mapper_options,
    mapping_option,
    named_file,
    plan_options,
    trace_options,
)
from accelsim.cli_progress import StderrProgress
from accelsim.cli_table import print_table
from accelsim.files import write_whole_text
from accelsim.report.numbers import percent, printable, significant

if TYPE_CHECKING:
    from accelsim.arch.describe import Row
    from accelsim.compile.program import OperatorPlan
    from accelsim.measure.area import AreaReport
    from accelsim.trace.model import Op, Trace

PLAN_COLUMNS = (
    "id",
    "layer",
    "kind",
    "tile",
    "loops",
    "dataflow",
    "depth",
    "bound",
    "estimate",
    "alone",
    "of bound",
    "buffers",
    "name",
    "places and passes",
)


@click.command(name="list")
@click.argument("what", metavar="arch|traces|metrics", type=click.Choice(["arch", "archs", "traces", "metrics"]))
def list_names(what: str) -> None:
    """List the machines or traces that come with accelsim, or the metrics of a result."""
    {"arch": _list_archs, "archs": _list_archs, "traces": _list_traces, "metrics": _list_metrics}[what]()


@click.group()
def show() -> None:
    """Show a machine, a trace, or what the compiler chooses for the two."""


@show.command("arch")
@click.argument("name", callback=named_file)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one key first.")
def show_arch(name: str, settings: tuple[str, ...]) -> None:
    """Every key of a machine with its value and unit, which of them are unused and why, what follows, and its area."""
    from accelsim.arch import load_arch, parse_settings
    from accelsim.arch.describe import describe
    from accelsim.measure.area import area_of

    arch = load_arch(name, parse_settings(settings))
    area = area_of(arch)
    click.echo(printable(f"{arch.name}: {arch.description}") + "\n")
    rows = [row for row in describe(arch) if row.key not in ("name", "description")]
    print_table(("key", "value", "unit", "about"), [(row.key, _yaml(row.value), row.unit, _about(row)) for row in rows])
    click.echo(f"\nArea at {arch.energy.technology_nm:g} nm (docs/area.md), mm2")
    print_table(("component", "nominal", "low", "high", "share %"), _area_rows(area))


@show.command("trace")
@click.argument("name", callback=named_file)
@click.option("--layers", metavar="A:B", help="Only the layers from A up to, not including, B.")
@click.option("--operators", is_flag=True, help="A line for every operator instead of one for every kind.")
def show_trace(name: str, layers: str | None, operators: bool) -> None:
    """What a trace computes: model, run, and its operators by kind."""
    trace = load_work(name, layers)
    for key, value in _facts(trace).items():
        click.echo(f"{key:<10} {printable(value)}")
    click.echo()
    if operators:
        print_table(("id", "layer", "kind", "MACs", "output", "name"), [_operator(trace, op) for op in trace.ops])
    else:
        print_table(("kind", "operators", "MACs", "bytes read", "bytes written"), _kinds(trace))


@show.command("program")
@arch_options
@trace_options
@plan_options
@mapping_option
@mapper_options
@click.option("--mapping-out", metavar="FILE", help="Write the choices as a file for --mapping.")
def show_program(
    arch_name: str,
    settings: tuple[str, ...],
    trace_name: str,
    layers: str | None,
    mapping_out: str | None,
    residency: str,
    rules: tuple[str, ...],
    optimize: str,
    refine: int,
    **plan: Any,
) -> None:
    """What the compiler chooses for each operator: tile, loop order, what is fused, what stays on chip."""
    from accelsim.arch import load_arch, parse_settings

    check_outputs([arch_name, trace_name, plan["mapping"]], **{"mapping-out": mapping_out})
    arch, trace = load_arch(arch_name, parse_settings(settings)), load_work(trace_name, layers)
    from accelsim.api import compile_trace, judge_of
    from accelsim.compile import dump_mapping
    from accelsim.compile.rules import parse_rules

    plan |= {"rules": parse_rules(rules), "residency": residency == "on"}
    with StderrProgress() as progress:
        program = compile_trace(arch, trace, judge=judge_of(arch, trace, optimize, refine), progress=progress, **plan)
    names = printable(f"{trace.name} on {arch.name}")
    click.echo(f"{names}: {program.size:,} tasks, {program.edge_producer.size:,} edges\n")
    print_table(PLAN_COLUMNS, _plan_rows(trace, program.plans))
    if mapping_out is not None:
        write_whole_text(mapping_out, dump_mapping(program))


@click.command()
@click.argument("metric")
@click.option(
    "--json", "json_path", metavar="FILE", callback=named_file, help="A result, whose numbers are put into the formula."
)
def explain(metric: str, json_path: str | None) -> None:
    """What a number of a result means: its unit and formula, and with --json the formula with that run's numbers."""
    from accelsim.measure import metrics

    if json_path is None:
        click.echo(metrics.explain(metric))
        return
    from accelsim.measure.result import Result

    click.echo(metrics.explain(metric, Result.from_file(json_path)))


@click.command()
@click.argument("what", type=click.Choice(["arch", "trace", "result", "compare"]))
def schema(what: str) -> None:
    """The JSON Schema of a machine, of one line of a trace, of a result, or of a comparison."""
    if what == "arch":
        from accelsim.arch.schema import schema_text as text
    elif what == "trace":
        from accelsim.trace.schema import schema_text as text
    elif what == "result":
        from accelsim.measure.reference import schema_text as text
    else:
        from accelsim.measure.reference import comparison_schema_text as text
    click.echo(text(), nl=False)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _about(row: Row) -> str:
    return f"(unused: {row.unused})" if row.unused else row.about


def _area_rows(area: AreaReport) -> list[tuple[str, ...]]:
    """A line a component and one for the total: nominal, low and high mm2, and the share of the nominal total."""
    whole = area.total_mm2[1]
    parts = [*area.by_component.items(), ("total", area.total_mm2)]
    return [
        (name, *map(significant, (nominal, low, high)), percent(nominal, whole)) for name, (low, nominal, high) in parts
    ]


def _list_archs() -> None:
    from accelsim.arch import list_archs, load_arch

    rows = []
    for arch in map(load_arch, list_archs()):
        count = f"{arch.array.count} x " if arch.array.count > 1 else ""
        array = f"{count}{arch.array.rows}x{arch.array.cols} {'/'.join(arch.array.dataflows)}"
        rows.append((arch.name, array, f"{arch.clock_mhz:g} MHz", arch.dram.preset, arch.description))
    print_table(("name", "array", "clock", "DRAM", "description"), rows)


def _list_traces() -> None:
    import gzip

    from accelsim.trace.find import find_trace, list_traces
    from accelsim.trace.records import read_header

    rows = []
    for name in list_traces():
        with gzip.open(find_trace(name)) as stream:
            header = read_header(json.loads(stream.readline()), f"{name}:1")
        run = [header.run.get(key) for key in ("batch", "seq", "precision", "mode")]
        rows.append((name, header.model["name"], *run, header.ops))
    print_table(("name", "model", "batch", "seq", "precision", "mode", "operators"), rows)


def _list_metrics() -> None:
    from accelsim.measure.metrics import list_metrics

    print_table(("metric", "unit", "meaning"), [(entry.name, entry.unit, entry.meaning) for entry in list_metrics()])


def _facts(trace: Trace) -> dict[str, str]:
    weights = sum(tensor.bytes for tensor in trace.tensors if tensor.role == "weight")
    return {
        "trace": trace.name,
        "model": _inline(trace.model),
        "run": _inline(trace.run),
        "exporter": _inline(trace.exporter),
        "sha256": trace.sha256,
        "tensors": f"{len(trace.tensors):,}, of which weights {weights:,} bytes",
        "operators": f"{len(trace.ops):,} in layers {_layers(trace)}, {trace.macs:,} MACs",
    }


def _inline(record: Any) -> str:
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in record.items() if value is not None)


def _layers(trace: Trace) -> str:
    layers = sorted({op.layer for op in trace.ops if op.layer is not None})
    return f"{layers[0]} to {layers[-1]}" if layers else "none"


def _kinds(trace: Trace) -> list[tuple[object, ...]]:
    totals = {name: Counter[str]() for name in ("operators", "MACs", "read", "written")}
    for op in trace.ops:
        totals["operators"][op.kind] += 1
        totals["MACs"][op.kind] += op.macs
        totals["read"][op.kind] += _bytes(trace, (operand.tensor for operand in op.inputs))
        totals["written"][op.kind] += _bytes(trace, (operand.tensor for operand in op.outputs))
    return [(kind, *(total[kind] for total in totals.values())) for kind, _ in totals["operators"].most_common()]


def _bytes(trace: Trace, tensors: Iterable[int]) -> int:
    return sum(trace.tensors[tensor].bytes for tensor in set(tensors))


def _operator(trace: Trace, op: Op) -> tuple[object, ...]:
    out = op.outputs[0]
    shape = "x".join(map(str, out.shape))
    return op.id, op.layer, op.kind, op.macs or None, f"{trace.tensors[out.tensor].dtype} {shape}", op.name


def _plan_rows(trace: Trace, plans: Iterable[OperatorPlan]) -> list[tuple[object, ...]]:
    folded: dict[int | None, list[int]] = {}
    for plan in plans:
        folded.setdefault(plan.fused_into, []).append(plan.op)
    return [_plan_row(trace.ops[plan.op], plan, folded.get(plan.op, [])) for plan in plans]


def _plan_row(op: Op, plan: OperatorPlan, folded: Iterable[int]) -> tuple[object, ...]:
    if plan.fused_into is not None:
        return op.id, op.layer, op.kind, *[None] * 9, op.name, f"computed with {plan.fused_into}"
    tile = "x".join(map(str, plan.tile)) if plan.tile else f"{plan.tile_rows} rows" if plan.tile_rows else None
    depth = " ".join(map(str, plan.depth or ())) or None
    chosen = tile, " ".join(plan.order or ()) or None, plan.dataflow, depth
    cycles = plan.bound_cycles or None, plan.estimated_cycles or None, plan.simulated_cycles
    distance = None if plan.distance is None else f"{plan.distance:.2f}"
    return op.id, op.layer, op.kind, *chosen, *cycles, distance, plan.buffer_bytes, op.name, _choices(plan, folded)


def _choices(plan: OperatorPlan, folded: Iterable[int]) -> str:
    roles: dict[str, list[str]] = {}
    for role, place in plan.places.items():
        roles.setdefault(place, []).append(role)
    parts = [f"{place}: {' '.join(names)}" for place, names in roles.items()]
    named = {"held whole": plan.resident, "with": [str(op) for op in folded], "passes": plan.passes}
    parts += [f"{name}: {' '.join(items)}" for name, items in named.items() if items]
    parts += [f"on: {plan.unit}"] if plan.unit not in (None, "vector") else []
    return "; ".join(parts + ([plan.note] if plan.note else []))
