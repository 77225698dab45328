"""The picture of learning curves: Elo over minutes, games and evaluations, with anchors as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

from pipeline.errors import UsageError

AXES = {  # key of a point → label, and what one unit of the axis is
    "minutes": ("core-minutes", 1.0),
    "games": ("games (thousands)", 1e3),
    "evaluations": ("evaluations (millions)", 1e6),
}
LABEL_HEIGHT = 0.035  # of the panel's


def label_groups(anchors: Mapping[str, Mapping[str, float]], height: float) -> list[tuple[str, float]]:
    """What to write below which Elo: anchors nearer to each other than a label is high share one, below the lowest."""
    groups: list[tuple[str, float]] = []
    for name, one in sorted(anchors.items(), key=lambda item: -item[1]["elo"]):
        if groups and groups[-1][1] - one["elo"] < height:
            groups[-1] = (f"{groups[-1][0]}, {name}", one["elo"])
        else:
            groups.append((name, one["elo"]))
    return groups


def draw(curves: Sequence[Mapping[str, Any]], path: Path) -> None:
    """curves: contents of curve.json, of one game, one number of readouts and the same anchors, which stand where the
    first curve has them, with a band for what isn't known of that. Hollow points are bounds.

    Raises UsageError for curves that don't compare.
    """
    for curve in curves[1:]:
        for what in ("game", "readouts"):
            if curve[what] != curves[0][what]:
                raise UsageError(
                    f"{curve['run']} has {what} {curve[what]}, {curves[0]['run']} {curves[0][what]}: they don't compare"
                )
        if list(curve["anchors"])[-1:] != list(curves[0]["anchors"])[-1:]:
            raise UsageError(f"{curve['run']} and {curves[0]['run']} count Elo from different anchors")
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for panel, (key, (label, unit)) in zip(panels, AXES.items(), strict=True):
        for curve in curves:
            factor = curve["settings"]["cores"] if key == "minutes" else 1
            points = curve["points"]
            x, elo = [point[key] * factor / unit for point in points], [point["elo"] for point in points]
            drawn = panel.errorbar(
                x,
                elo,
                [point["error"] for point in points],
                marker="o",
                markersize=3,
                capsize=2,
                linewidth=1.2,
                label=curve["run"],
            )
            bounds = [i for i, point in enumerate(points) if point["bound"]]
            colour = drawn.lines[0].get_color()
            panel.plot([x[i] for i in bounds], [elo[i] for i in bounds], "o", mfc="white", mec=colour, markersize=4)
        for one in curves[0]["anchors"].values():
            panel.axhline(one["elo"], color="grey", linewidth=0.7, linestyle="--")
            panel.axhspan(one["elo"] - one["error"], one["elo"] + one["error"], color="grey", alpha=0.06)
        bottom, top = panel.get_ylim()
        for names, elo in label_groups(curves[0]["anchors"], LABEL_HEIGHT * (top - bottom)):
            where = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "top", "fontsize": 7}
            panel.annotate(names, (1, elo), **where)
        panel.set_xlabel(label)
        panel.set_xlim(left=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"Elo at {curves[0]['readouts']} readouts")
    panels[0].legend(loc="lower right", fontsize=7)
    figure.suptitle(f"{curves[0]['game']}: strength of the champions, bars of 95 %", fontsize=10)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
