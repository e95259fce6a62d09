"""The figure of a part: reference against ours, quantity by quantity, and how errors are spread."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from accelsim.validation.model import Checked, Part, Row
from accelsim.validation.summary import Summary, by_series
from accelsim.validation.words import error_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Float64: TypeAlias = NDArray[np.float64]
Looks: TypeAlias = dict[str, tuple[str, str]]
"""Colour and marker of each series."""

WIDTH_INCHES, PANEL_INCHES, DOTS_PER_INCH = 8.0, 3.3, 120
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Okabe and Ito's colours, told apart by all kinds of colour vision, each with a marker of its own.
LOOKS = (
    ("#0072B2", "o"), ("#D55E00", "x"), ("#009E73", "^"), ("#CC79A7", "s"),
    ("#E69F00", "+"), ("#56B4E9", "D"), ("#000000", "v"), ("#888888", "*"),
)  # fmt: skip
_POINTS_PER_DECADE = 40  # finer differences are not drawn


def can_draw() -> bool:
    """Whether matplotlib, the `plot` extra, is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def has_figure(checked: Checked) -> bool:
    """Whether the part plots anything."""
    return bool(checked.part.plotted) or checked.part.draw is not None


def figure(checked: Checked) -> bytes:
    """The part's figure as PNG; the same bytes for the same rows and version of matplotlib, which must be there."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        drawing = Figure(layout="constrained", facecolor="white")
        (checked.part.draw or _panels_of(checked.part))(drawing, checked.rows)
        stream = io.BytesIO()
        drawing.savefig(stream, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return stream.getvalue()


def _panels_of(part: Part) -> Callable[[Figure, Sequence[Row]], None]:
    """Draws a panel for each quantity that is plotted, and one of errors."""

    def draw(drawing: Figure, rows: Sequence[Row]) -> None:
        looks, lines = _looks(rows), math.ceil((len(part.plotted) + 1) / 2)
        drawing.set_size_inches(WIDTH_INCHES, PANEL_INCHES * lines + 0.4)
        drawing.suptitle(f"{part.name}: reference against ours", fontsize=10)
        panels: list[Axes] = list(drawing.subplots(lines, 2, squeeze=False).flat)
        for panel, (quantity, title) in zip(panels, part.plotted.items(), strict=False):
            _scatter(panel, title, [row for row in rows if row.quantity == quantity], looks)
        _spread(panels[len(part.plotted)], rows, looks)
        for unused in panels[len(part.plotted) + 1 :]:
            unused.set_axis_off()
        handles = _legend(panels, looks)
        drawing.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False)

    return draw


def _looks(rows: Sequence[Row]) -> Looks:
    series = dict.fromkeys(row.reference_set.series for row in rows)
    return {name: LOOKS[index % len(LOOKS)] for index, name in enumerate(series)}


def _scatter(panel: Axes, title: str, rows: Sequence[Row], looks: Looks) -> None:
    """Reference across, ours up, on logarithmic axes; a point on the line is exact."""
    panel.set(xscale="log", yscale="log", xlabel="reference", ylabel="ours", title=title)
    for series, (colour, marker) in looks.items():
        values = _plotted(rows, series)
        if values.size:
            panel.plot(
                *values.T, marker, color=colour, markersize=4, fillstyle="none", markeredgewidth=0.8, label=series
            )
    low, high = panel.dataLim.intervalx
    panel.axline((low, low), (high, high), color="#999999", linewidth=0.8, zorder=1)


def _plotted(rows: Sequence[Row], series: str) -> Float64:
    """[n, 2] reference and ours of a series, positive and finite, those that would coincide on paper once."""
    pairs = [
        (row.reference, row.ours)
        for row in rows
        if row.reference_set.series == series and not isinstance(row.reference, str) and not isinstance(row.ours, str)
    ]
    values = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    values = values[(values > 0).all(axis=1) & np.isfinite(values).all(axis=1)]
    places = np.round(np.log10(values) * _POINTS_PER_DECADE)
    return values[np.sort(np.unique(places, axis=0, return_index=True)[1])]


def _spread(panel: Axes, rows: Sequence[Row], looks: Looks) -> None:
    """A line a series: the median of |error| (dot), up to 90 % of them (thick) and all of them (thin)."""
    summaries = by_series(rows)
    finite = [each for s in summaries for each in (s.median, s.ninetieth, s.worst) if math.isfinite(each)]
    edge = 100 * max(0.01, *finite) * 1.1
    for place, summary in enumerate(summaries):
        median, ninetieth, worst = (min(100 * e, edge) for e in (summary.median, summary.ninetieth, summary.worst))
        colour = looks[summary.name][0]
        panel.hlines(place, 0, worst, color=colour, linewidth=1)
        panel.hlines(place, 0, ninetieth, color=colour, linewidth=5, alpha=0.5)
        panel.plot(median, place, "o", color=colour, markersize=5, clip_on=False)
        panel.annotate(
            _count(summary), (0, place), xytext=(8, 7), textcoords="offset points", fontsize=7, color="#333333"
        )
    panel.set(xlim=(0, edge), ylim=(len(summaries) - 0.4, -0.8), yticks=range(len(summaries)), xlabel="|error| (%)")
    panel.set(title="errors: median (dot), 90 % (thick), worst (thin)")
    panel.set_yticklabels([summary.name for summary in summaries])


def _count(summary: Summary) -> str:
    if summary.worst == 0:
        return f"all {summary.values:,} values equal"
    return f"{summary.values:,} values, worst {error_text(summary.worst)}"


def _legend(panels: Sequence[Axes], looks: Looks) -> dict[str, Artist]:
    """A handle for each series, whichever panel it is in."""
    found: dict[str, Artist] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return {name: found[name] for name in looks if name in found}
