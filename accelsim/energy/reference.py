"""Writes the tables in docs/energy.md and docs/area.md: `python -m accelsim.energy.reference` in the repository."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from accelsim.energy.table import Entry, SourcedTable, area_table, load_table
from accelsim.energy.value import Value, at_node
from accelsim.files import between_marks

PAGES: Mapping[Path, SourcedTable] = {
    Path("docs") / "energy.md": load_table("tpu_v4i_7nm"),
    Path("docs") / "area.md": area_table(),
}
NODES = (7, 16, 22, 28, 45)
BEGIN, END = "<!-- entries: made by python -m accelsim.energy.reference -->\n", "<!-- end of entries -->\n"


def page(text: str, table: SourcedTable) -> str:
    """The page `text` with everything between its two marks made anew from the table."""
    return between_marks(text, BEGIN, END, entries_tables(table))


def entries_tables(table: SourcedTable) -> str:
    """The table as Markdown: entries by node, every number with its source, memories' entries, then the sources."""
    valued = [entry for entry in table.entries.values() if entry.values]
    others = [entry for entry in table.entries.values() if not entry.values]
    lines = ["", "Low / nominal / high at five nodes:", "", *_by_node(valued)]
    lines += ["", "Where each number comes from:", "", *_numbers(valued)]
    lines += ["", "Made from other entries, or from a memory's organisation:", "", *_made(others)]
    lines += ["", *(f"- **[{key}]** {citation}" for key, citation in table.sources.items()), ""]
    return "\n".join(lines) + "\n"


def _by_node(entries: list[Entry]) -> Iterator[str]:
    yield f"| entry | unit | {' | '.join(f'{nm} nm' for nm in NODES)} |"
    yield f"|---|---|{'---|' * len(NODES)}"
    for entry in entries:
        if entry.values[0].nm is not None:
            prices = [at_node(entry.values, nm) for nm in NODES]
            cells = [" / ".join(f"{value:.3g}" for value in price.spread) for price in prices]
            yield f"| `{entry.key}` | {entry.unit} | {' | '.join(cells)} |"


def _numbers(entries: list[Entry]) -> Iterator[str]:
    yield "| entry | for | unit | low | nominal | high | kind | source |"
    yield "|---|---|---|---|---|---|---|---|"
    alike: dict[tuple[Value, ...], list[Entry]] = {}
    for entry in entries:
        alike.setdefault(entry.values, []).append(entry)
    for values, same in alike.items():
        names = ", ".join(f"`{entry.key}`" for entry in same)
        for index, value in enumerate(values):
            numbers = f"{value.low:g} | {value.nominal:g} | {value.high:g}"
            start = f"| {'' if index else names} | {_case(value)} | {same[0].unit}"
            yield f"{start} | {numbers} | {value.kind} | {value.source} |"


def _made(entries: list[Entry]) -> Iterator[str]:
    yield "| entry | unit | meaning |"
    yield "|---|---|---|"
    for entry in entries:
        yield f"| `{entry.key}` | {entry.unit} | {entry.about} |"


def _case(value: Value) -> str:
    return value.device or ("" if value.nm is None else f"{value.nm:g} nm")


def main(root: Path = Path()) -> None:
    """Rewrite the pages below `root`."""
    for path, table in PAGES.items():
        text = (root / path).read_text(encoding="utf-8")
        (root / path).write_text(page(text, table), encoding="utf-8")


if __name__ == "__main__":
    main()
