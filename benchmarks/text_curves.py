"""The picture of docs/text.md: what text games' runs have learned, generation by generation.

    python -m benchmarks.text_curves --kuhn runs/kuhn1 runs/kuhn2 --tak runs/tak1 runs/tak2 --output docs/text.svg

On the left how far each model of a run is from unbeatable (benchmarks/exploitability.py, NashConv in rewards), on the
right its share of the points against random play, with 95 % intervals, from matches in ``measured``, or else in
``data/evaluate`` and its folder ``required``, that were played to their end: in one that ended early short games are
too many. Whole matches of some generations:

    python main.py tournament --player runs/tak1/saved_models/000010-r16 --player random --games 400 --opening-plies 0 \
        --reply-temperature 0.25 --output-dir runs/tak1/measured

What best responses to a model win is exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

from benchmarks.exploitability import ModelPolicy, models_of_text
from benchmarks.strength import ending
from pipeline.families.text.tree import exploitability, whole_tree
from pipeline.matches.statistics import score_of, wilson_interval
from pipeline.run.matches import list_matches, read_match

Points = list[tuple[int, float, float, float]]
"""(generation, value, low, high)"""


def kuhn_points(run: Path) -> Points:
    paths, game = models_of_text(run / "saved_models")
    tree = whole_tree(game)
    totals = [exploitability(tree, ModelPolicy(path, game)).total for path in paths]
    return [(number, total, total, total) for number, total in enumerate(totals)]


def random_points(run: Path) -> Points:
    found: Points = []
    measured = list_matches(run / "measured")
    for folder in measured or [*list_matches(run / "data/evaluate"), *list_matches(run / "data/evaluate/required")]:
        match = read_match(folder)
        if match.header.players[1].name != "random" or len(match.games) < match.num_games:
            continue
        score = score_of(match.games)
        low, high = wilson_interval(score)
        found.append((int(match.header.players[0].name[:6]), score.share, low, high))
    return sorted(found)


def draw(kuhn: dict[str, Points], tak: dict[str, Points], path: Path) -> None:
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for panel, curves, heading, label in (
        (left, kuhn, "Kuhn poker: what best responses win", "NashConv, rewards"),
        (right, tak, "SimpleTak: points against random play", "share of the points"),
    ):
        for name, points in curves.items():
            x, y = [one[0] for one in points], [one[1] for one in points]
            bars = [[one[1] - one[2] for one in points], [one[3] - one[1] for one in points]]
            panel.errorbar(x, y, bars, marker="o", markersize=3, capsize=2, linewidth=1.2, label=name)
        panel.set(title=heading, xlabel="generation", ylabel=label)
        panel.title.set_fontsize(9)
        panel.grid(alpha=0.3)
        if curves:
            panel.legend(fontsize=7)
    left.set_ylim(bottom=0)
    right.axhline(0.75, color="grey", linewidth=0.7, linestyle="--")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kuhn", type=Path, nargs="*", default=[], help="runs of a game small enough for its tree")
    parser.add_argument("--tak", type=Path, nargs="*", default=[], help="runs that met random play")
    parser.add_argument("--output", type=Path, default=Path("text.svg"), help="the picture: .svg or .png")
    given = parser.parse_args(arguments)
    wanted = (given.kuhn, kuhn_points), (given.tak, random_points)
    with ending(parser):
        curves = [{run.name: find(run) for run in runs} for runs, find in wanted]
    for name, points in (curves[0] | curves[1]).items():
        print(name, *(f"{number}: {value:.3f} ({low:.3f}–{high:.3f})" for number, value, low, high in points))
    draw(curves[0], curves[1], given.output)


if __name__ == "__main__":
    main()
