"""Finds a trace by path or by the name of a shipped one."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from accelsim.errors import InputError
from accelsim.shipped import shipped

SUFFIX = ".jsonl.gz"


def list_traces() -> tuple[str, ...]:
    """Names of the shipped traces, without their suffix."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in shipped("traces").glob(f"*{SUFFIX}")))


def find_trace(path_or_name: str | Path) -> Path:
    """The file of a trace; a path that exists wins over a shipped name. Raises InputError with the nearest names."""
    path, name = Path(path_or_name), str(path_or_name)
    if _exists(path):
        return path
    stem = name.removesuffix(".gz").removesuffix(".jsonl")
    names = list_traces()
    if stem in names:
        return shipped("traces") / f"{stem}{SUFFIX}"
    near = get_close_matches(path.name.removesuffix(".gz").removesuffix(".jsonl"), names, n=2, cutoff=0.5)
    hint = f"nearest shipped: {', '.join(near)}; " if near else ""
    raise InputError(
        "no such trace", where="--trace", value=name, remedy=f"{hint}`accelsim list traces` names them all"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than a file system takes
        return False
