"""`accelsim export bert`: a trace of a reference model."""

from __future__ import annotations

import click

from accelsim.cli_options import named_file
from accelsim.cli_progress import StderrProgress
from accelsim.report.numbers import printable


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
