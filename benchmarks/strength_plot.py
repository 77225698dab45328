"""The picture of learning curves: Elo over minutes, games and evaluations, with anchors as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

AXES = {  # key of a point → label, and what one unit of the axis is
    "minutes": ("core-minutes", 1.0),
    "games": ("games (thousands)", 1e3),
    "evaluations": ("evaluations (millions)", 1e6),
}


def draw(curves: Sequence[Mapping[str, Any]], path: Path) -> None:
    """curves: contents of curve.json, all of one game. Anchors stand where the first curve has them."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for panel, (key, (label, unit)) in zip(panels, AXES.items(), strict=True):
        for curve in curves:
            factor = curve["settings"]["cores"] if key == "minutes" else 1
            points = curve["points"]
            panel.errorbar(
                [point[key] * factor / unit for point in points],
                [point["elo"] for point in points],
                [point["error"] for point in points],
                marker="o",
                markersize=3,
                capsize=2,
                linewidth=1.2,
                label=curve["run"],
            )
        for name, elo in curves[0]["anchors"].items():
            panel.axhline(elo, color="grey", linewidth=0.7, linestyle="--")
            panel.annotate(name, (1, elo), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7)
        panel.set_xlabel(label)
        panel.set_xlim(left=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"Elo at {curves[0]['readouts']} readouts")
    panels[0].legend(loc="lower right", fontsize=7)
    figure.suptitle(f"{curves[0]['game']}: strength of the champions, bars of 95 %", fontsize=10)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
