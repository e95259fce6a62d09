"""`accelsim verify engines` (the two engines agree) and `accelsim export bert` (a trace of a reference model)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from accelsim.cli_options import load_work, named_file
from accelsim.cli_progress import StderrProgress
from accelsim.report.numbers import printable

if TYPE_CHECKING:
    from accelsim.engine.random_programs import Comparison
    from accelsim.engine.timeline import Progress


@click.group()
def verify() -> None:
    """Check accelsim against itself, on this machine."""


@verify.command()
@click.option("--count", type=click.IntRange(min=0), default=200, show_default=True, help="Random Programs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first of them.")
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="FILE|NAME",
    callback=named_file,
    help="A machine.  [default: every shipped one]",
)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    default=("bert_tiny_fwd_b1_s128",),
    show_default=True,
    metavar="FILE|NAME",
    callback=named_file,
    help="A trace, simulated on each machine. May be given several times.",
)
@click.option("--layers", metavar="A:B", help="Only these layers of each trace.")
def engines(count: int, seed: int, archs: tuple[str, ...], traces: tuple[str, ...], layers: str | None) -> None:
    """Run both engines on random Programs and on real ones; every time of every task must be the same.

    Exits with 1 when they differ anywhere.
    """
    from accelsim.arch import list_archs
    from accelsim.engine.random_programs import verify as verify_random

    with StderrProgress() as progress:
        random_rows = verify_random(count, seed, progress)
        real_rows = list(_real_programs(archs or list_archs(), traces, layers, progress))
    random_tasks = sum(row.tasks for row in random_rows)
    click.echo(
        f"{len(random_rows)} random Programs, {random_tasks:,} tasks, seeds {seed} to {seed + count - 1}"
        if count
        else "no random Programs"
    )
    for row in real_rows:
        click.echo(
            f"{row.name}: {row.tasks:,} tasks, {row.edges:,} edges, {row.total_cycles:,} cycles, {_verdict(row)}"
        )
    _end(random_rows + real_rows)


def _real_programs(
    archs: tuple[str, ...], traces: tuple[str, ...], layers: str | None, progress: Progress
) -> Iterator[Comparison]:
    from accelsim.arch import load_arch
    from accelsim.compile import compile_program
    from accelsim.engine.random_programs import compare

    for trace_name in traces:
        for arch_name in archs:
            name = printable(f"{trace_name} on {arch_name}")
            progress(f"comparing {name}")
            program = compile_program(load_arch(arch_name), load_work(trace_name, layers))
            yield compare(program, name, progress)


def _verdict(row: Comparison) -> str:
    return "equal" if row.difference is None else f"DIFFERENT: {row.difference}"


def _end(rows: list[Comparison]) -> None:
    different = [row for row in rows if row.difference is not None]
    for row in different:
        click.echo(f"{row.name}: {_verdict(row)}", err=True)
    if different:
        click.echo(f"The engines differ on {len(different)} of {len(rows)} Programs.", err=True)
        raise click.exceptions.Exit(1)
    click.echo(f"The engines agree on all {len(rows)} Programs.")


@click.group()
def export() -> None:
    """Record a trace from a reference model (needs the `export` extra: PyTorch and Transformers)."""


@export.command()
@click.option(
    "--model",
    default="bert-base",
    show_default=True,
    metavar="NAME",
    help="bert-tiny, bert-base, bert-large, tinybert4 or tinybert6.",
)
@click.option("--batch", type=int, default=1, show_default=True, help="Sequences at once.")
@click.option("--seq", type=int, default=128, show_default=True, help="Tokens a sequence, up to 512.")
@click.option(
    "--precision",
    default="int8",
    show_default=True,
    metavar="DTYPE",
    help="int8, bf16 or fp32; traces/README.md says which tensors have which dtype.",
)
@click.option("--mlm", is_flag=True, help="With the masked-language-model head instead of the pooler.")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    callback=named_file,
    help="The trace to write, such as mine.jsonl.gz.",
)
def bert(model: str, batch: int, seq: int, precision: str, mlm: bool, output: str) -> None:
    """Record a forward pass of a BERT model, built from its configuration; no weights are fetched."""
    from accelsim.files import check_writable
    from accelsim.trace.export import check_request, export_bert
    from accelsim.trace.format import write_trace

    check_request(model, batch, seq, precision)
    check_writable(output)
    with StderrProgress() as progress:
        progress(f"recording {model}, batch {batch}, {seq} tokens")
        trace = export_bert(model, batch=batch, seq=seq, precision=precision, mlm=mlm)
        write_trace(trace, output)
    click.echo(f"{printable(output)}: {len(trace.ops)} operators, {len(trace.tensors)} tensors, {trace.macs:,} MACs")
