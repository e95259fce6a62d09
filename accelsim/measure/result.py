"""The Result: everything measured on one run, as plain data (`accelsim-result/1`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.compile.program import Program
from accelsim.engine.timeline import Timeline
from accelsim.errors import InputError
from accelsim.measure.laws import check_laws, check_timeline
from accelsim.measure.measurement import take
from accelsim.measure.metrics import FORMAT, sections
from accelsim.measure.sections import as_data
from accelsim.trace.model import Trace

if TYPE_CHECKING:
    from accelsim.arch.spec import Arch


def measure(program: Program, timeline: Timeline, arch: Arch, trace: Trace, provenance: Mapping[str, Any]) -> Result:
    """Measure a run and check every law of DESIGN 5 on it.

    `provenance` says what was run: version, arguments, arch, trace, engine, seed; plain data without clock time, host
    or output path, so that the same input gives the same Result. Raises InternalError for a broken law.
    """
    check_timeline(program, timeline)
    measurement = take(program, timeline, arch, trace)
    check_laws(measurement)
    return Result(as_data(measurement, provenance))


@dataclass(frozen=True)
class Result:
    """One run's numbers. `to_dict()` is all of them; the properties name the most asked for.

    `accelsim explain METRIC` says what each means (accelsim.measure.metrics).
    """

    data: Mapping[str, Any]

    @property
    def cycles(self) -> int:
        """Core cycles from the first task's start to the end of the last transfer."""
        return int(self.data["total"]["cycles"])

    @property
    def seconds(self) -> float:
        """`cycles` at the machine's clock."""
        return float(self.data["total"]["seconds"])

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the trace."""
        return int(self.data["total"]["macs"])

    @property
    def utilization(self) -> float:
        """MACs over what the arrays could do in the same cycles, 0 to 1."""
        return float(self.data["total"]["utilization"])

    @property
    def bounds(self) -> dict[str, int]:
        """Cycles that compute, DRAM, vector unit and dependencies alone would take."""
        return dict(self.data["bounds"])

    @property
    def units(self) -> dict[str, Any]:
        """For each unit its cycles: busy by part, stalls by cause, tail, idle."""
        return deepcopy(dict(self.data["units"]))

    @property
    def operators(self) -> list[dict[str, Any]]:
        """One row an operator of the trace, ready for a data frame."""
        return deepcopy(list(self.data["operators"]))

    @property
    def dram_bytes(self) -> int:
        """Bytes read from and written to DRAM."""
        return int(self.data["dram"]["read_bytes"] + self.data["dram"]["write_bytes"])

    @property
    def energy_pj(self) -> float:
        """Nominal energy of all components, pJ."""
        return float(sum(self.data["energy_pj"].values()))

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain JSON data, a copy."""
        return deepcopy(dict(self.data))

    def to_json(self) -> str:
        """The Result as JSON text: the same bytes for the same run; never NaN or infinity."""
        return json.dumps(self.data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "result") -> Result:
        """A Result from what `to_dict` gave, called `where` in messages. Raises InputError when it is none."""
        found = data.get("format") if isinstance(data, Mapping) else None
        if found != FORMAT:
            what = "not a Result: it has no `format`" if found is None else "a Result of another version"
            raise InputError(what, where=where, value=found, remedy=f"give what `--json` wrote ({FORMAT})")
        missing = [key for key in sections() if key not in data]
        if missing:
            raise InputError(f"the Result has no {missing[0]!r}", where=where, remedy="simulate again")
        return cls(deepcopy(dict(data)))

    @classmethod
    def from_file(cls, path: str | Path) -> Result:
        """A Result from a file that `--json` wrote. Raises InputError when it cannot be read or is not one."""
        remedy = "give a file that `accelsim simulate --json FILE` wrote"
        try:
            data = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(_unreadable(error), where=str(path), remedy=remedy) from error
        return cls.from_dict(data, where=str(path))

    def __repr__(self) -> str:
        return f"<Result: {self.cycles:,} cycles, utilization {self.utilization:.1%}, {self.energy_pj / 1e6:,.3g} uJ>"

    def _repr_html_(self) -> str:
        """A plain table for notebooks: the totals, the bounds and one row an operator kind."""
        total, dram = self.data["total"], self.data["dram"]
        facts = {
            "cycles": f"{self.cycles:,}",
            "seconds": f"{self.seconds:.4g}",
            "MACs": f"{self.macs:,}",
            "utilization": f"{self.utilization:.2%}",
            "cycles per inference": f"{total['cycles_per_inference']:,.6g}",
            "DRAM bytes read / written": f"{dram['read_bytes']:,} / {dram['write_bytes']:,}",
            "energy (uJ)": f"{self.energy_pj / 1e6:,.4g}",
            **{f"bounds.{name}": f"{cycles:,}" for name, cycles in self.bounds.items()},
        }
        kinds = [[row[key] for key in _KIND_COLUMNS] for row in self.data["by_kind"]]
        return _html_table(["", ""], list(facts.items())) + _html_table(list(_KIND_COLUMNS), kinds)


_KIND_COLUMNS = ("kind", "operators", "cycles", "macs", "utilization", "energy_pj", "bound_by")


def _html_table(head: list[str], rows: list[Any]) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in head) if any(head) else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(_shown(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{header}</tr>' if header else ''}{body}</table>"


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.4g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _unreadable(error: Exception) -> str:
    """Why a file is no Result, in a few words."""
    if isinstance(error, OSError):
        return f"cannot be read ({(error.strerror or str(error)).lower()})"
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON (line {error.lineno}, column {error.colno})"
    return "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "is not a Result"
