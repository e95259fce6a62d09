"""The figure of published values beside our low, nominal and high."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from accelsim.validation.model import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES_PER_ROW, WIDTH_INCHES = 0.17, 8.0
OURS, PUBLISHED, WRONG = "#0072B2", "#D55E00", "#CC0000"


def draw_intervals(drawing: Figure, rows: Sequence[Row]) -> None:
    """A panel a series, a line a row: our low to high (bar), nominal (tick) and what is published (circle)."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.reference_set.series, []).append(row)
    heights = [len(group) + 2.5 for group in groups.values()]
    drawing.set_size_inches(WIDTH_INCHES, INCHES_PER_ROW * sum(heights) + 0.6)
    panels = drawing.subplots(len(groups), 1, squeeze=False, height_ratios=heights).flat
    for panel, (title, group) in zip(panels, groups.items(), strict=True):
        _panel(panel, title, group)
    handles, names = panels[0].get_legend_handles_labels()
    drawing.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)


def _panel(panel: Axes, title: str, rows: Sequence[Row]) -> None:
    lows, highs = np.array([row.spread for row in rows]).T
    places = np.arange(len(rows))
    panel.hlines(places, lows, highs, color=OURS, linewidth=5, alpha=0.35, label="ours, low to high")
    panel.plot([row.ours for row in rows], places, "|", color=OURS, markersize=8, label="ours, nominal")
    colours, published = [PUBLISHED if row.agrees else WRONG for row in rows], [float(row.reference) for row in rows]
    panel.scatter(published, places, s=16, facecolors="none", edgecolors=colours, zorder=3, label="published")
    panel.set(xscale="log", title=title, yticks=places, ylim=(len(rows) - 0.4, -0.6))
    panel.set_yticklabels([_label(row.case) for row in rows], fontsize=6)
    panel.set_xticks(_ticks(*panel.get_xlim()), minor=False)
    panel.xaxis.set_major_formatter("{x:g}")
    panel.minorticks_off()
    panel.grid(axis="x", color="#dddddd", linewidth=0.5)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade on an axis; 1 alone where it has more than two decades."""
    firsts = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    return [tick for decade in decades for first in firsts if low <= (tick := first * 10.0**decade) <= high]


def _label(case: str) -> str:
    """Quantity, relation and the source without what it adds after a colon."""
    quantity, relation, source = case.split("; ", 2)
    return f"{quantity} ({relation}): {source.split(':')[0]}"
