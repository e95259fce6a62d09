"""The command `accelsim`: its groups, and what becomes of an error. Every heavy import lies inside a command."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from accelsim import __version__
from accelsim.cli_compare import compare
from accelsim.cli_export import export
from accelsim.cli_look import explain, list_names, schema, show
from accelsim.cli_run import gemm, simulate
from accelsim.cli_verify import verify
from accelsim.errors import InputError, InternalError
from accelsim.report.numbers import printable

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="accelsim")
def accelsim() -> None:
    """Simulate transformer models on systolic-array accelerators: cycles, stalls, energy, and why.

    \b
    accelsim simulate --arch tpu_like.yaml      the main job
    accelsim list arch                          what there is to simulate on
    accelsim explain utilization                what a number means
    """


for command in (simulate, gemm, compare, list_names, show, explain, schema, export, verify):
    accelsim.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit: 0 done, 1 the run failed, 2 bad input, 130 interrupted."""
    _make_streams_safe()
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # A broken pipe is no failure: the reader, such as `head`, has seen enough.
        if code == DONE and not isinstance(error, BrokenPipeError):
            code = _cannot_write(error)
    sys.exit(code)


def _make_streams_safe() -> None:
    """A closed stdout or stderr swallows what is written; one that cannot encode a character shows its escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (open until the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; one message on stderr for a mistake of the user's.

    Raises SystemExit, silently and with code 1, when the reader of stdout has gone away: click sees to that.
    """
    try:
        code = accelsim.main(args=arguments, prog_name="accelsim", standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except InputError as error:
        click.echo(f"accelsim: {printable(str(error))}", err=True)
        return BAD_INPUT
    except InternalError as error:
        return _our_fault(str(error))
    except MemoryError:
        click.echo(
            "accelsim: this run needs more memory than there is; take fewer --layers or smaller matmuls", err=True
        )
        return FAILED
    except OSError as error:
        return _cannot_write(error)
    except Exception as error:
        traceback.print_exc()
        return _our_fault(f"{type(error).__name__}: {error}")


def _cannot_write(error: OSError) -> int:
    name = f" ({error.filename})" if error.filename else ""
    click.echo(f"accelsim: the system refuses: {error.strerror or error}{printable(name)}", err=True)
    return FAILED


def _our_fault(what: str) -> int:
    click.echo(f"accelsim: internal error: {printable(what)}", err=True)
    click.echo(
        f"This is a fault of accelsim {__version__}, not yours: please report it with the command line.", err=True
    )
    return FAILED
