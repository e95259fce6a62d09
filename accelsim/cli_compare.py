"""`accelsim compare A B [C...]`: machines or results side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from accelsim.cli_options import (
    check_outputs,
    engine_option,
    load_work,
    mapper_options,
    mapping_option,
    named_file,
    plan_options,
    trace_options,
)
from accelsim.cli_progress import StderrProgress
from accelsim.errors import InputError
from accelsim.files import utf8, write_whole_text

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch
    from accelsim.measure.result import Result
    from accelsim.report.compare import Comparison
    from accelsim.trace.model import Trace

_COMMA = re.compile(r",(?![^{\[]*[}\]])")  # outside of brackets


@click.command()
@click.argument("subjects", nargs=-1, required=True, metavar="A B [C...]", callback=named_file)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one key of every machine that is simulated."
)
@trace_options
@plan_options
@mapping_option
@mapper_options
@engine_option
@click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the comparison as JSON; - writes it to stdout alone."
)
def compare(
    subjects: tuple[str, ...],
    settings: tuple[str, ...],
    trace_name: str,
    json_path: str | None,
    **plan: Any,
) -> None:
    """Show machines or results side by side: what differs, and what that does to time, energy and area.

    Each of A, B, C is a machine, with keys to change after commas, or a .json file that `accelsim simulate --json`
    wrote. Machines are simulated on one trace. The others are compared with A.

    \b
    accelsim compare tpu_like tpu_like,vector.lanes=256
    accelsim compare before.json after.json
    """
    if len(subjects) < 2:
        raise InputError("there is nothing to compare with", value=subjects[0], remedy="give two machines or results")
    from accelsim.arch.spec import Arch
    from accelsim.compile.rules import parse_rules

    check_outputs([trace_name, plan["mapping"], *(_COMMA.split(each)[0] for each in subjects)], json=json_path)
    given = [_read(subject, settings) for subject in subjects]
    if any(isinstance(each, Arch) for each in given):
        work: Trace | str = load_work(trace_name)
    else:
        _refuse_unused_options()
        work = trace_name
    plan["residency"] = plan["residency"] == "on"
    plan["rules"] = parse_rules(plan["rules"])
    with StderrProgress() as progress:
        results = [_simulated(*pair, work, plan, progress) for pair in zip(subjects, given, strict=True)]
    from accelsim.report.compare import compare as compared

    _show(compared([_name(subject) for subject in subjects], results), json_path)


def _read(subject: str, settings: Sequence[str]) -> Arch | Result:
    """The machine or the Result that a subject names. Raises InputError, before anything is simulated."""
    from accelsim.arch import load_arch, parse_settings

    name, *own = _COMMA.split(subject)
    if not name.lower().endswith(".json"):
        overrides = parse_settings(settings) | parse_settings(own, where=subject)
        try:
            return load_arch(name, overrides)
        except InputError as mistake:
            if not own:
                raise
            raise InputError(f"{mistake}", where=subject) from mistake
    if own:
        raise InputError("a result cannot be changed", where=name, value=own[0], remedy="name a machine instead")
    from accelsim.measure.result import Result

    return Result.from_file(name)


def _refuse_unused_options() -> None:
    """Raise InputError for an option that says how to simulate, since nothing is simulated."""
    context = click.get_current_context()
    for parameter in context.command.params:
        typed = context.get_parameter_source(parameter.name or "") == ParameterSource.COMMANDLINE
        if typed and parameter.name not in ("subjects", "json_path"):
            what = "all are results, so that nothing is simulated"
            raise InputError(what, where=parameter.opts[0], remedy="leave the option out, or name a machine")


def _simulated(
    subject: str, given: Arch | Result, work: Trace | str, plan: dict[str, Any], progress: StderrProgress
) -> Result:
    """What a machine makes of the work; a Result as it is."""
    from accelsim import api
    from accelsim.arch.spec import Arch

    if not isinstance(given, Arch):
        return given

    def tell(message: str, done: int, of: int) -> None:
        progress(f"{subject}: {message}", done, of)

    return api.simulate(given, work, progress=tell, **plan)


def _name(subject: str) -> str:
    """A file by its name without folders; a machine as it was given."""
    name, *own = _COMMA.split(subject)
    return ",".join([Path(name).name, *own])


def _show(comparison: Comparison, json_path: str | None) -> None:
    from accelsim.report.compare import DIFFERENT_WORK

    if not comparison.data["same_work"]:
        click.echo(f"accelsim: warning: {DIFFERENT_WORK}", err=True)
    if json_path == "-":
        click.echo(utf8(comparison.to_json()), nl=False)  # JSON is UTF-8 whatever the terminal is
        return
    if json_path is not None:
        write_whole_text(json_path, comparison.to_json())
    comparison.show()
