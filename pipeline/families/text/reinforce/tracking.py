"""Statistics of a language model's newest self-play games, by source.

A *source* is ``selfplay/ENVIRONMENT/OPPONENT``; the opponent is mirror if the model played itself. For each source:
the model's results, the form, legality and length of its answers, and *n-gram coverage*: the number of different runs
of n words in its answers, as a share of all such runs. Near 0 the model repeats itself. Coverage is omitted if most
answers have fewer than n words.

Source of the measures: UnstableBaselines, trackers.py. Computed from the records on demand; stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.families.text.game import TextGame
from pipeline.families.text.reinforce.columns import INVALID_MOVE, WELL_FORMED, unpacked
from pipeline.methods.method import Measure
from pipeline.run.shards import BOTH, POLICY_COUNTS, GameRecord

WINDOW = 1_000  # games
MIRROR = "mirror"
MEASURES = {
    "won": Measure(True, "Won by the model", "Share of the games of each source."),
    "drawn": Measure(True),
    "lost": Measure(True),
    "well_formed": Measure(
        True, "Well-formed answers", "Share of the model's answers in which an action could be read."
    ),
    "invalid": Measure(True, "Invalid moves", "Share of the model's answers that weren't a legal action."),
    "unigrams": Measure(True, "Variety of words", "Different words in answers, as a share of all of their words."),
    "bigrams": Measure(True, "Variety of answers", "Different pairs of words, as a share of all pairs."),
    "trigrams": Measure(True),
}
NGRAMS = {"unigrams": 1, "bigrams": 2, "trigrams": 3}


def tracked(game: TextGame, records: Iterable[GameRecord]) -> dict[str, dict[str, float]]:
    """The statistics by source and name. records: the newest WINDOW games, in any order."""
    sources: dict[str, list[GameRecord]] = {}
    for record in records:
        environment = game.environments[game.selected(int(record.moves[0]))]
        sources.setdefault(f"selfplay/{environment}/{record.opponent or MIRROR}", []).append(record)
    return {source: _of_source(game, found) for source, found in sorted(sources.items())}


def _of_source(game: TextGame, records: Sequence[GameRecord]) -> dict[str, float]:
    answers: list[str] = []
    notes: list[int] = []
    results: list[float] = []  # of the model; of both sides, if there are two, where it played itself
    both = (0,) if game.num_seats[game.selected(int(records[0].moves[0]))] == 1 else (0, 1)
    rewards: list[float] = []
    for record in records:
        own, learned = record.own, record.flags & POLICY_COUNTS != 0
        answers += [unpacked(text) for text in own["text"][learned]]
        notes += own["notes"][learned].tolist()
        for side in both if record.learner == BOTH else (record.learner,):
            results.append(record.result_first_player * (1 - 2 * side))
        _, moves = np.unique(own["player"][learned], return_index=True)
        rewards += own["reward"][learned][moves].tolist()
    found = np.array(results)
    facts = {
        "games": float(len(records)),
        "won": float((found > 0).mean()),
        "drawn": float((found == 0).mean()),
        "lost": float((found < 0).mean()),
        "reward": float(np.mean(rewards)) if rewards else 0.0,
        "plies": float(np.mean([len(record.moves) - 1 for record in records])),
        "answers": float(len(answers)),
    }
    if answers:
        bits = np.array(notes)
        facts |= {
            "well_formed": float((bits & WELL_FORMED != 0).mean()),
            "invalid": float((bits & INVALID_MOVE != 0).mean()),
            "characters": float(np.mean([len(answer) for answer in answers])),
        }
        shares = {name: coverage(answers, n) for name, n in NGRAMS.items()}
        facts |= {name: share for name, share in shares.items() if share is not None}
    return facts


def coverage(answers: Sequence[str], n: int) -> float | None:
    """The share of different runs of n words among all runs in the answers; None if most answers are shorter."""
    words = [answer.split() for answer in answers]
    if 2 * sum(len(one) >= n for one in words) < len(words):
        return None
    runs = [tuple(one[i : i + n]) for one in words for i in range(len(one) - n + 1)]
    return len(set(runs)) / len(runs) if runs else None
