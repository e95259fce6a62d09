"""A figure of strips: a line for each thing compared, a dot for each of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Strips: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Values by line and kind; each kind has a colour and a marker, on every line."""

WIDTH_INCHES, INCHES_PER_LINE = 8.0, 0.3
LOOKS = (("#0072B2", "o"), ("#D55E00", "x"), ("#009E73", "^"))


def draw_strips(drawing: Figure, panels: Mapping[str, Strips], label: str) -> None:
    """A panel a title; `label` names the values, all on one scale."""
    heights = [len(strips) + 2.2 for strips in panels.values()]
    drawing.set_size_inches(WIDTH_INCHES, INCHES_PER_LINE * sum(heights) + 0.8)
    axes = drawing.subplots(len(panels), 1, squeeze=False, height_ratios=heights, sharex=True).flat
    for panel, (title, strips) in zip(axes, panels.items(), strict=True):
        _panel(panel, title, strips)
    axes[-1].set_xlabel(label)
    handles, names = axes[0].get_legend_handles_labels()
    kinds = dict(zip(names, handles, strict=True))
    drawing.legend(list(kinds.values()), list(kinds), loc="outside lower center", ncols=3, frameon=False)


def _panel(panel: Axes, title: str, strips: Strips) -> None:
    kinds = list(dict.fromkeys(kind for line in strips.values() for kind in line))
    looks = dict(zip(kinds, LOOKS, strict=False))
    for place, line in enumerate(strips.values()):
        for kind, values in line.items():
            colour, marker = looks[kind]
            above = place - 0.15 + 0.3 * kinds.index(kind) / max(1, len(kinds) - 1)
            panel.plot(values, [above] * len(values), marker, color=colour, markersize=5, fillstyle="none", label=kind)
    panel.set(title=title, yticks=range(len(strips)), ylim=(len(strips) - 0.4, -0.6))
    panel.set_yticklabels(list(strips))
    panel.grid(axis="x", color="#dddddd", linewidth=0.5)
