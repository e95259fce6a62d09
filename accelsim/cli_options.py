"""Options that several commands share, and the small parsers behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.errors import InputError
from accelsim.files import check_writable

if TYPE_CHECKING:
    from accelsim.trace.model import Trace

DEFAULT_ARCH = "tpu_like.yaml"
DEFAULT_TRACE = "bert_base_fwd_b1_s128"
FUSIONS = ("none", "elementwise", "attention", "all")
ENGINES = ("compiled", "reference")
OBJECTIVES = ("time", "energy", "edp")  # those of compile.score, without its imports; a test keeps them equal
REFINED, MOST_REFINED = 2, 1000

Command = Callable[..., Any]


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator that adds all of `decorators`, in the order in which `--help` shows them."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def named_file(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A click callback that refuses `-`: what is read or written there must have a name. Raises InputError."""
    given = value if isinstance(value, tuple) else (value,)
    if "-" in given:
        name = parameter.opts[-1] if parameter.param_type_name == "option" else parameter.human_readable_name
        what = "standard input and output are not taken here"
        raise InputError(what, where=name, value="-", remedy="give the name of a file; ./- if it is called so")
    return value


arch_options = options(
    click.option(
        "--arch",
        "arch_name",
        default=DEFAULT_ARCH,
        show_default=True,
        metavar="FILE|NAME",
        callback=named_file,
        help="The machine.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one key of the machine, such as scratchpad.capacity_kib=512. May be given several times.",
    ),
)
trace_options = options(
    click.option(
        "--trace",
        "trace_name",
        default=DEFAULT_TRACE,
        show_default=True,
        metavar="FILE|NAME",
        callback=named_file,
        help="The work.",
    ),
    click.option("--layers", metavar="A:B", help="Only the layers from A up to, not including, B."),
)
plan_options = options(
    click.option(
        "--fusion",
        type=click.Choice(FUSIONS),
        default="elementwise",
        show_default=True,
        help="Which operators are folded into their neighbours.",
    ),
    click.option(
        "--rule",
        "rules",
        multiple=True,
        metavar="NAME=MODE",
        help="Switch a fusion rule: off, auto or always; for attention also two_pass, spilled or online.",
    ),
    click.option(
        "--residency",
        type=click.Choice(["on", "off"]),
        default="on",
        show_default=True,
        help="Whether tensors stay on chip between operators when they fit.",
    ),
)
mapping_option = click.option(
    "--mapping",
    metavar="FILE",
    callback=named_file,
    help="YAML list of tiles, orders and dataflows for chosen operators.",
)
mapper_options = options(
    click.option(
        "--optimize",
        type=click.Choice(OBJECTIVES),
        default="time",
        show_default=True,
        help="What the mapper makes small; edp is energy times time.",
    ),
    click.option(
        "--refine",
        type=click.IntRange(0, MOST_REFINED),
        default=REFINED,
        show_default=True,
        metavar="N",
        help="Candidates of each distinct matmul that the mapper simulates at most; 0 for estimates only.",
    ),
)
engine_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="compiled",
    show_default=True,
    help="compiled (Numba) or reference (SimPy): the same answer, fast or readable.",
)
output_options = options(
    click.option(
        "--json", "json_path", metavar="FILE|-", help="Write the result as JSON; - writes it to stdout alone."
    ),
    click.option(
        "--timeline",
        "timeline_path",
        metavar="FILE",
        help="Write every task's times as a Chrome trace, to open in Perfetto (FILE.gz compresses).",
    ),
)


def load_work(name: str, layers: str | None = None) -> Trace:
    """The trace of `--trace` and, if given, only the layers of `--layers`. Raises InputError.

    It is the API's `load_trace`, without the imports that a simulation needs.
    """
    from accelsim.trace.find import find_trace
    from accelsim.trace.format import read_trace
    from accelsim.trace.slice import parse_layers, slice_layers

    trace = read_trace(find_trace(name))
    return trace if layers is None else slice_layers(trace, *parse_layers(layers))


def check_outputs(reads: Iterable[str | None] = (), **paths: str | None) -> None:
    """Raise InputError, before anything runs, when an output cannot be written, is one of the files that the command
    `reads`, or two are the same file.

    `reads` may hold names of what is shipped. `paths` maps an option's name without dashes to its value; None is no
    file, nor is `-`, which only --json takes.
    """
    read = {Path(path).resolve() for path in reads if path and isfile(path)}
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None or (path == "-" and option == "json"):
            continue
        if path == "-":
            raise InputError("only --json writes to stdout", where=f"--{option}", value=path, remedy="name a file")
        check_writable(path)
        if Path(path).resolve() in read:
            what = "the file is read by this command, and would be lost"
            raise InputError(what, where=f"--{option}", value=path, remedy="write to another")
        first = seen.setdefault(Path(path).resolve(), option)
        if first != option:
            raise InputError(f"--{first} and --{option} name one file", value=path, remedy="give each its own")
