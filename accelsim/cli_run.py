"""The commands that run a simulation: `accelsim simulate` and `accelsim gemm`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli_options import (
    arch_options,
    check_outputs,
    engine_option,
    load_work,
    mapper_options,
    mapping_option,
    named_file,
    output_options,
    plan_options,
    trace_options,
)
from accelsim.cli_progress import StderrProgress
from accelsim.files import utf8, write_whole_text

if TYPE_CHECKING:
    from accelsim.api import Result
    from accelsim.trace.model import Trace


@click.command()
@arch_options
@trace_options
@plan_options
@mapping_option
@mapper_options
@engine_option
@output_options
def simulate(
    arch_name: str,
    settings: tuple[str, ...],
    trace_name: str,
    json_path: str | None,
    timeline_path: str | None,
    **plan: Any,
) -> None:
    """Simulate a trace on a machine and say where the time and the energy go.

    \b
    accelsim simulate --arch tpu_like.yaml
    accelsim simulate --trace bert_large_fwd_b1_s512 --layers 0:2 --set array.rows=256
    """
    from accelsim.arch import load_arch, parse_settings

    check_outputs([arch_name, trace_name, plan["mapping"]], json=json_path, timeline=timeline_path)
    machine = load_arch(arch_name, parse_settings(settings))
    work = load_work(trace_name)
    plan["residency"] = plan["residency"] == "on"
    from accelsim import api  # last: a mistake in a file is told before anything heavy is imported
    from accelsim.compile.rules import parse_rules

    plan["rules"] = parse_rules(plan["rules"])

    with StderrProgress() as progress:
        result = api.simulate(machine, work, progress=progress, **plan)
        _write_timeline(result, timeline_path)
    _show(result, json_path)


@click.command()
@click.argument("m", type=click.IntRange(min=1), required=False)
@click.argument("n", type=click.IntRange(min=1), required=False)
@click.argument("k", type=click.IntRange(min=1), required=False)
@arch_options
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Matmuls of this shape.")
@click.option("--dtype", default="int8", show_default=True, help="Dtype of the operands.")
@click.option("--out-dtype", help="Dtype of the output.  [default: that of the operands]")
@click.option("--resident", type=click.Choice(["a", "b"]), multiple=True, help="An operand that is on chip already.")
@click.option(
    "--csv", "csv_path", metavar="FILE", callback=named_file, help="A list of matmuls, a line each, instead of M N K."
)
@mapping_option
@mapper_options
@engine_option
@output_options
def gemm(
    m: int | None,
    n: int | None,
    k: int | None,
    csv_path: str | None,
    arch_name: str,
    settings: tuple[str, ...],
    json_path: str | None,
    timeline_path: str | None,
    **options: Any,
) -> None:
    """Simulate one matmul [M, K] x [K, N], or a list of them.

    \b
    accelsim gemm 512 768 3072
    accelsim gemm --csv layers.csv --arch gemmini_16
    """
    from accelsim.arch import load_arch, parse_settings

    how = {name: options.pop(name) for name in ("mapping", "engine", "optimize", "refine")}
    check_outputs([arch_name, csv_path, how["mapping"]], json=json_path, timeline=timeline_path)
    machine = load_arch(arch_name, parse_settings(settings))
    work = _matmuls((m, n, k), csv_path, **options)
    from accelsim import api

    with StderrProgress() as progress:
        result = api.simulate(machine, work, **how, progress=progress)
        _write_timeline(result, timeline_path)
    _show(result, json_path)


def _matmuls(sizes: tuple[int | None, ...], csv_path: str | None, batch: int, **options: Any) -> Trace:
    from accelsim.cli_csv import matmul_list_trace, read_matmuls
    from accelsim.trace.builder import gemm_trace

    given = [size for size in sizes if size is not None]
    if csv_path is None:
        if len(given) < len(sizes):
            raise click.UsageError("Give the sizes M N K of one matmul, or --csv FILE with a list of them.")
        m, n, k = given
        return gemm_trace(m, n, k, batch, **options)
    if given:
        raise click.UsageError("Give either M N K or --csv FILE, not both.")
    if batch != 1:
        raise click.UsageError("--batch is for one matmul; in a CSV file it is a column: name,M,N,K,batch.")
    return matmul_list_trace(read_matmuls(csv_path), Path(csv_path).stem, **options)


def _write_timeline(result: Result, path: str | None) -> None:
    if path is not None:
        result.write_timeline(path)


def _show(result: Result, json_path: str | None) -> None:
    if json_path == "-":
        click.echo(utf8(result.to_json()), nl=False)  # JSON is UTF-8 whatever the terminal is
        return
    if json_path is not None:
        write_whole_text(json_path, result.to_json())
    from accelsim.report.text import show

    show(result)
    _tell_unused_rules(result)


def _tell_unused_rules(result: Result) -> None:
    """Warn of a rule that was asked for, not left to the compiler, and found no place."""
    from accelsim.compile.rules import AUTO

    fused = result.data["program"]["fused"]
    for rule, mode in result.data["provenance"]["arguments"]["rules"].items():
        if mode != AUTO and fused.get(rule) == 0:
            click.echo(
                f"accelsim: warning: --rule {rule}={mode} found no place in this trace on this machine", err=True
            )
