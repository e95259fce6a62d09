"""`accelsim verify`: every hardware model against its references, all of them or one part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from accelsim.cli_options import named_file, options
from accelsim.cli_progress import StderrProgress
from accelsim.cli_table import print_table
from accelsim.report.numbers import printable
from accelsim.validation.registry import PARTS

if TYPE_CHECKING:
    from pathlib import Path

    from accelsim.engine.random_programs import Comparison
    from accelsim.validation.model import Checked, Row

REPORT = "reports/validation"
SHOWN_OUTSIDE = 20

report_options = options(
    click.option("--fast", is_flag=True, help="A subset of each part, in seconds; the page says what it leaves out."),
    click.option(
        "-o",
        "--output",
        metavar="DIR",
        callback=named_file,
        help=f"Folder for the page, tables and figures.  [default: {REPORT}; nothing is written for a single part]",
    ),
)


@click.group(invoke_without_command=True, subcommand_metavar="[PART] ...")
@report_options
@click.pass_context
def verify(context: click.Context, fast: bool, output: str | None) -> None:
    """Prove every hardware model against references that it was not made from.

    Without a PART all of them run, and reports/validation/ is written: a page of tables with the error and
    the assumption of each reference (README.md), every value (a CSV a part) and figures (PNG, with the `plot` extra).
    With a PART only that one runs, and files are written where --output says.

    Exits with 1, and the values concerned, when a model is further off than its stated tolerance.

    \b
    accelsim verify                  all parts
    accelsim verify --fast           a subset, for continuous integration
    accelsim verify dram -o page     one part, and its page
    """
    if context.invoked_subcommand is None:
        _check(tuple(PARTS), fast, output or REPORT)


def _part_command(name: str) -> click.Command:
    @click.command(name, help=PARTS[name])
    @report_options
    def command(fast: bool, output: str | None) -> None:
        _check((name,), *_with_options_before(fast, output))

    return command


def _with_options_before(fast: bool, output: str | None) -> tuple[bool, str | None]:
    """--fast and --output may stand before the part, too."""
    parent = click.get_current_context().parent
    before = parent.params if parent else {}
    return fast or before.get("fast", False), output or before.get("output")


for part_name in PARTS:
    if part_name != "engines":
        verify.add_command(_part_command(part_name))


def _check(names: Sequence[str], fast: bool, output: str | None) -> None:
    from accelsim.validation.registry import check

    folder = _folder(output)
    with StderrProgress() as progress:
        checked = check(names, fast, progress)
    _print_summary(checked)
    _write(folder, checked, fast)
    _end(checked)


def _folder(output: str | None) -> Path | None:
    from accelsim.validation.report import prepare

    return None if output is None else prepare(output)


def _print_summary(checked: Sequence[Checked]) -> None:
    from accelsim.validation.summary import by_set
    from accelsim.validation.words import error_text

    rows = [
        (s.name, s.cases, s.values, error_text(s.median), error_text(s.ninetieth), error_text(s.worst), s.verdict)
        for each in checked
        for s in by_set(each.rows)
    ]
    print_table(("reference set", "cases", "values", "median", "90 %", "worst", "verdict"), rows)


def _write(folder: Path | None, checked: Sequence[Checked], fast: bool) -> None:
    if folder is None:
        return
    from accelsim.validation.figures import can_draw
    from accelsim.validation.report import PAGE, write_report

    with StderrProgress() as progress:
        progress("drawing and writing")
        write_report(folder, checked, fast)
    click.echo(f"{printable(str(folder / PAGE))} is the page of these results.")
    if not can_draw():
        click.echo('Figures need matplotlib: pip install "accelsim[plot]"', err=True)


def _end(checked: Sequence[Checked]) -> None:
    outside = [row for each in checked for row in each.outside]
    values = sum(len(each.rows) for each in checked)
    if outside:
        _print_outside(outside)
        click.echo(f"{len(outside):,} of {values:,} values are outside their tolerance.", err=True)
        raise click.exceptions.Exit(1)
    click.echo(f"All {values:,} values are within their tolerance.")


def _print_outside(rows: Sequence[Row]) -> None:
    from accelsim.validation.words import row_text

    for row in rows[:SHOWN_OUTSIDE]:
        click.echo(printable(row_text(row)), err=True)
    if len(rows) > SHOWN_OUTSIDE:
        click.echo(f"and {len(rows) - SHOWN_OUTSIDE:,} more", err=True)


@verify.command(short_help=PARTS["engines"])
@click.option("--count", type=click.IntRange(min=0), help="Random Programs.  [default: 200; 40 with --fast]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first of them.")
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="FILE|NAME",
    callback=named_file,
    help="A machine.  [default: every shipped one; tpu_like with --fast]",
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
@click.option("--layers", metavar="A:B", help="Only these layers of each trace.  [default: all; 0:1 with --fast]")
@report_options
def engines(
    count: int | None,
    seed: int,
    archs: tuple[str, ...],
    traces: tuple[str, ...],
    layers: str | None,
    fast: bool,
    output: str | None,
) -> None:
    """The compiled engine against the readable one, on random Programs and on real ones.

    Every time of every task must be the same. Exits with 1 when they differ anywhere.
    """
    from accelsim.arch import list_archs
    from accelsim.engine.random_programs import verify as verify_random
    from accelsim.validation.parts.engines import ARCH_FAST, LAYERS_FAST, PROGRAMS, PROGRAMS_FAST, compared

    fast, output = _with_options_before(fast, output)
    folder = _folder(output)
    if count is None:
        count = PROGRAMS_FAST if fast else PROGRAMS
    if fast:
        archs, layers = archs or (ARCH_FAST,), layers or LAYERS_FAST
    with StderrProgress() as progress:
        random_rows = verify_random(count, seed, progress)
        real_rows = list(compared(archs or list_archs(), traces, layers, progress))
    _print_engines(seed, random_rows, real_rows)
    _write(folder, [_checked_engines(random_rows, real_rows)], fast)
    _end_engines(random_rows + real_rows)


def _print_engines(seed: int, random_rows: Sequence[Comparison], real_rows: Sequence[Comparison]) -> None:
    count, tasks = len(random_rows), sum(row.tasks for row in random_rows)
    many = f"{count} random Programs, {tasks:,} tasks, seeds {seed} to {seed + count - 1}"
    click.echo(many if count else "no random Programs")
    for row in real_rows:
        size = f"{row.tasks:,} tasks, {row.edges:,} edges, {row.total_cycles:,} cycles"
        click.echo(f"{printable(row.name)}: {size}, {_verdict(row)}")


def _checked_engines(random_rows: Sequence[Comparison], real_rows: Sequence[Comparison]) -> Checked:
    from accelsim.validation.model import Checked
    from accelsim.validation.parts.engines import DRAWN, PART, REAL, rows_of

    return Checked(PART, [*rows_of(DRAWN, random_rows), *rows_of(REAL, real_rows)])


def _verdict(row: Comparison) -> str:
    return "equal" if row.difference is None else f"DIFFERENT: {row.difference}"


def _end_engines(rows: Sequence[Comparison]) -> None:
    different = [row for row in rows if row.difference is not None]
    for row in different:
        click.echo(f"{printable(row.name)}: {_verdict(row)}", err=True)
    if different:
        click.echo(f"The engines differ on {len(different)} of {len(rows)} Programs.", err=True)
        raise click.exceptions.Exit(1)
    click.echo(f"The engines agree on all {len(rows)} Programs.")
