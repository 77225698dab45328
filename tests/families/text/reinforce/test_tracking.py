"""What the tracker finds, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")

from pipeline.families.text.game import TextGame
from pipeline.families.text.reinforce.columns import INVALID_MOVE, NOBODY, WELL_FORMED, packed
from pipeline.families.text.reinforce.tracking import MEASURES, coverage, tracked
from pipeline.games.specs import parse_game
from pipeline.reports.tracked import Tracked, lines, of_newest_games
from pipeline.run.shards import BOTH, GameRecord


@pytest.fixture(scope="module")
def game() -> TextGame:
    found = parse_game("text:KuhnPoker-v0+TicTacToe-v0,reply=8")
    assert isinstance(found, TextGame)
    return found


def record(game: TextGame, seed: int, learner: int, opponent: str | None, result: float) -> GameRecord:
    """Chance, then player 0 says something that can't be read, player 1 something that is legal."""
    learned = np.array([False, learner in (0, BOTH), learner in (1, BOTH)])
    texts = ["", "well well well", "a [bet]"]
    own = {
        "text": np.stack([packed(text if it else "", game) for text, it in zip(texts, learned, strict=True)]),
        "notes": np.array([0, INVALID_MOVE if learned[1] else 0, WELL_FORMED if learned[2] else 0], np.uint8),
        "player": np.array([NOBODY, 0, 1], np.uint8),
        "reward": np.array([0, result, -result], np.float32),
    }
    return GameRecord(
        game_id=seed, moves=np.array([seed, 9999, 1], np.uint16), flags=learned.astype(np.uint8),
        surprises=learned.astype(np.float32), own=own,
        result_first_player=result, opponent=opponent, learner=learner,
    )  # fmt: skip


def test_sources_have_prefixes_and_results_are_the_models(game: TextGame) -> None:
    games = [record(game, 0, BOTH, None, 1.0), record(game, 1, 1, "random", -1.0), record(game, 3, 0, "random", 0.0)]
    found = tracked(game, games)
    assert list(found) == ["selfplay/KuhnPoker-v0/mirror", "selfplay/TicTacToe-v0/random"]
    mirror, random = found.values()
    assert mirror["games"] == 1 and mirror["won"] == mirror["lost"] == 0.5 and mirror["reward"] == 0
    assert mirror["well_formed"] == mirror["invalid"] == 0.5 and mirror["characters"] == (14 + 7) / 2
    assert random["won"] == random["drawn"] == 0.5 and random["answers"] == 2 and random["plies"] == 2
    assert mirror["unigrams"] == 3 / 5 and mirror["bigrams"] == 2 / 3 and mirror["trigrams"] == 1
    assert dict(lines(Tracked(found, MEASURES)))["selfplay/KuhnPoker-v0/mirror"].startswith(
        "games 1, won 50.0 %, drawn 0.0 %"
    )


def test_in_a_game_for_one_player_results_are_the_only_sides() -> None:
    game = parse_game("text:GuessTheNumber-v0,reply=8")
    assert isinstance(game, TextGame) and game.num_seats == [1]
    (found,) = tracked(game, [record(game, 0, BOTH, None, one) for one in (1.0, 1.0, 1.0, -1.0)]).values()
    assert (found["won"], found["drawn"], found["lost"]) == (0.75, 0, 0.25)


def test_coverage_counts_runs_within_answers() -> None:
    assert coverage(["a b", "b a", "a b"], 2) == 2 / 3
    assert coverage(["a", "b c", "d", "e f g"], 2) == 1
    assert coverage(["a", "b c", "d"], 2) is None and coverage([], 1) is None


def test_a_folder_without_games_has_nothing_tracked(tmp_path: Path) -> None:
    assert of_newest_games(tmp_path, lambda error: None) == Tracked()
