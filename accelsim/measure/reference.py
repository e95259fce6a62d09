"""Writes what is made from the registry of metrics: `python -m accelsim.measure.reference` in the repository."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from accelsim.measure.metrics import COMPARISON, Metric, Word, list_metrics, list_words
from accelsim.measure.schema import comparison_schema, result_schema

_TITLE = """# Metrics of a Result

Made from `accelsim/measure/metrics.yaml`, `words.yaml` and `comparison.yaml`, by
`python -m accelsim.measure.reference`; do not edit.

`accelsim explain NAME` prints one entry, `accelsim list metrics` names all. In names `[]` is one row of a list, `*` any
name and `**` whatever lies below. Units: a cycle is one of the core's clock, GB = 1e9 bytes, KiB = 1024 bytes.
"""

_WORDS_TITLE = """
## Words of the report

Words on the screen that are no key of a Result; `accelsim explain` takes them too.
"""

_COMPARISON_TITLE = """
## Keys of a comparison

What `accelsim compare --json` writes (`accelsim-compare/1`, `accelsim schema compare`). Lists have one entry a subject,
in the order of the subjects; the first subject is the baseline.
"""

_TABLE_HEAD = ("| name | unit | formula | meaning |", "|---|---|---|---|")


def metrics_page() -> str:
    """The reference page: one table a section of the Result."""
    lines = [_TITLE]
    for metric in list_metrics():
        if len(metric.segments) == 1:
            lines += [f"\n## {metric.name}\n\n{metric.meaning}\n", *_TABLE_HEAD]
        lines.append(_row(metric))
    lines += [_WORDS_TITLE, "| word | meaning | metrics |", "|---|---|---|"]
    lines += [_word_row(word, list(names)) for word, names in groupby(list_words(), key=list_words().__getitem__)]
    lines += [_COMPARISON_TITLE, *_TABLE_HEAD, *map(_row, list_metrics(COMPARISON))]
    return "\n".join(lines) + "\n"


def schema_text() -> str:
    """Text of the schema file of a Result."""
    return json.dumps(result_schema(), indent=1) + "\n"


def comparison_schema_text() -> str:
    """Text of the schema file of a comparison."""
    return json.dumps(comparison_schema(), indent=1) + "\n"


def _row(metric: Metric) -> str:
    cells = (f"`{metric.name}`", metric.unit, metric.plain_formula, metric.meaning)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _word_row(word: Word, names: list[str]) -> str:
    """One line for the synonyms `names` of a word."""
    metrics = ", ".join(f"`{name}`" for name in word.metrics)
    return f"| {', '.join(names)} | {word.meaning} | {metrics} |"


def main(root: Path = Path()) -> None:
    """Write docs/metrics.md and the schemas of Result and comparison in docs/schema below `root`."""
    (root / "docs" / "schema").mkdir(parents=True, exist_ok=True)
    (root / "docs" / "metrics.md").write_text(metrics_page(), encoding="utf-8")
    (root / "docs" / "schema" / "result.schema.json").write_text(schema_text(), encoding="utf-8")
    (root / "docs" / "schema" / "compare.schema.json").write_text(comparison_schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
