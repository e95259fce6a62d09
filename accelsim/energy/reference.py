"""Writes the tables in docs/energy.md: `python -m accelsim.energy.reference` in the repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from accelsim.energy.table import Entry, Value, load_table

PAGE = Path("docs") / "energy.md"
BEGIN, END = "<!-- entries: made by python -m accelsim.energy.reference -->\n", "<!-- end of entries -->\n"


def page(text: str, table_name: str = "tpu_v4i_7nm") -> str:
    """The page `text` with everything between its two marks made anew from the table."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + entries_table(table_name) + END + rest.split(END)[1]


def entries_table(table_name: str) -> str:
    """The table as Markdown: one line a value, entries with the same values together, then the sources."""
    table = load_table(table_name)
    lines = ["", "| entry | for | unit | low | nominal | high | kind | source |", "|---|---|---|---|---|---|---|---|"]
    alike: dict[tuple[Value, ...], list[Entry]] = {}
    for entry in table.entries.values():
        alike.setdefault(entry.values, []).append(entry)
    lines += [line for values, entries in alike.items() for line in _lines(values, entries)]
    lines += ["", *(f"- **[{key}]** {citation}" for key, citation in table.sources.items()), ""]
    return "\n".join(lines) + "\n"


def _lines(values: Sequence[Value], entries: Sequence[Entry]) -> Iterator[str]:
    """The values that these entries share, the entries' names beside the first."""
    names = ", ".join(f"`{entry.key}`" for entry in entries)
    for index, value in enumerate(values):
        numbers = f"{value.low:g} | {value.nominal:g} | {value.high:g}"
        start = f"| {'' if index else names} | {_case(value)} | {entries[0].unit}"
        yield f"{start} | {numbers} | {value.kind} | {value.source} |"


def _case(value: Value) -> str:
    return value.device or ("" if value.size_kib is None else f"{value.size_kib:g} KiB")


def main(root: Path = Path()) -> None:
    """Rewrite docs/energy.md below `root`."""
    path = root / PAGE
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
