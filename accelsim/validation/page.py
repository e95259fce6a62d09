"""The page of the report, in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from accelsim.validation.model import Checked
from accelsim.validation.registry import PARTS
from accelsim.validation.summary import Summary, by_series_and_quantity, by_set
from accelsim.validation.words import error_text, markdown_table, row_text, tolerance_text

SHOWN_OUTSIDE = 20
ABOUT = """\
Each hardware model of accelsim beside a reference. Made by `{command}`; do not edit.{left_out}

An error is |ours / reference − 1|. `exact`: every value is the same. `within`: no error is larger than allowed.
`reported`: no bound is set, and the text says why. `OUTSIDE`: the model has failed. Every value stands in the
CSV of its part under its reference set, whose assumption is in the summary.
"""
SET_HEADER = ("reference set", "cases", "values", "median", "90 %", "worst", "worst at", "verdict", "assumption")
QUANTITY_HEADER = ("series: quantity", "values", "median", "90 %", "worst", "allowed", "verdict")
SET_ALIGN, QUANTITY_ALIGN = "lrrrrrlll", "lrrrrll"


def page(checked: Sequence[Checked], fast: bool, files: Collection[str]) -> str:
    """The page on these parts; `files` are those that lie beside it, figures only if they are there."""
    blocks = ["# Validation", _about(checked, fast), _overview(checked), "## Summary", _summary_table(checked)]
    for each in checked:
        blocks += _part(each, files)
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def _about(checked: Sequence[Checked], fast: bool) -> str:
    names = [each.part.name for each in checked]
    one = f" {names[0]}" if len(names) < len(PARTS) and len(names) == 1 else ""
    left_out = "; ".join(f"{each.part.name}: {each.part.left_out}" for each in checked)
    note = f"\n\n**A fast run.** Left out: {left_out}." if fast else ""
    return ABOUT.format(command=f"accelsim verify{one}{' --fast' if fast else ''}", left_out=note)


def _overview(checked: Sequence[Checked]) -> str:
    rows = []
    for each in checked:
        name, values = each.part.name, f"{len(each.rows):,}"
        verdict = f"{len(each.outside)} outside" if each.outside else "passed"
        rows.append((f"[{name}](#{name})", PARTS[name], values, verdict, f"[{name}.csv]({name}.csv)"))
    return markdown_table(("part", "what against what", "values", "verdict", "all values"), "llrll", rows)


def _summary_table(checked: Sequence[Checked]) -> str:
    rows = [(s.name, *_counts(s), s.worst_case, s.verdict, s.assumption) for each in checked for s in by_set(each.rows)]
    return markdown_table(SET_HEADER, SET_ALIGN, rows)


def _counts(summary: Summary) -> tuple[str, ...]:
    return f"{summary.cases:,}", f"{summary.values:,}", *_errors(summary)


def _errors(summary: Summary) -> tuple[str, str, str]:
    return error_text(summary.median), error_text(summary.ninetieth), error_text(summary.worst)


def _part(checked: Checked, files: Collection[str]) -> Iterator[str]:
    part = checked.part
    yield f"## {part.name}"
    yield PARTS[part.name]
    yield part.compares
    yield markdown_table(
        QUANTITY_HEADER,
        QUANTITY_ALIGN,
        [
            (s.name, f"{s.values:,}", *_errors(s), tolerance_text(s.allowed), s.verdict)
            for s in by_series_and_quantity(checked.rows)
        ],
    )
    if part.table is not None:
        yield part.table(checked.rows)
    if f"{part.name}.png" in files:
        yield f"![{part.name}, drawn]({part.name}.png)"
    if checked.outside:
        yield _outside(checked)
    yield f"**Where they differ.**\n{part.differences}"


def _outside(checked: Checked) -> str:
    lines = [f"- {row_text(row)}" for row in checked.outside[:SHOWN_OUTSIDE]]
    more = len(checked.outside) - len(lines)
    return "\n".join(["**Outside the tolerance:**", "", *lines, *([f"- and {more:,} more"] if more else [])])
