"""Write the generated parts of the documentation again: `python -m accelsim.arch.reference`, in a source checkout."""

from __future__ import annotations

from pathlib import Path

from accelsim.arch.describe import reference_table
from accelsim.arch.schema import schema_text
from accelsim.files import between_marks

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BEGIN, _END = "<!-- keys: begin -->\n", "<!-- keys: end -->"


def generated() -> dict[Path, str]:
    """The files that are made from the models, whole, with the text they should hold."""
    page = (DOCS / "arch.md").read_text(encoding="utf-8")
    return {
        DOCS / "arch.md": between_marks(page, _BEGIN, _END, reference_table()),
        DOCS / "schema" / "arch.schema.json": schema_text(),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
