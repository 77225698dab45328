"""Games without early passes, although the network prefers to pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.games.contract import Game
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.actor import TreeActor
from pipeline.methods.method import ActorJob, Learner, game_seeds
from pipeline.run.shards import GameRecord
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from tests.helpers import make_champion
from tests.search.helpers import hashed_evaluator

GO = parse_game("go:5")


def played(game: Game, pass_after: float, algorithm: str, liking: float, random_plies: int = 0) -> list[GameRecord]:
    """Games of a network whose logit of a pass is this much above the other moves'."""
    hashed, found = hashed_evaluator(game), []

    def evaluate(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits, values = hashed(planes)
        logits[:, game.pass_action] += liking
        return logits, values

    player = Learner("m", evaluate)
    settings = SelfplayConfig(
        readouts=8, algorithm=algorithm, full_search_fraction=0.5, cheap_readouts=0, pass_after=pass_after,
        max_num_considered_actions=4, random_plies=random_plies,
    )  # fmt: skip
    seeds = game_seeds(3, iter(range(40)), 0.1)
    TreeActor(ActorJob(game, 6, settings, seeds, lambda: player, found.append)).run(lambda: False)
    return [one.record for one in found]


@pytest.mark.parametrize("algorithm", ["puct", "gumbel", "mixed"])
def test_nobody_passes_before_and_everybody_may_later(algorithm: str) -> None:
    without = played(GO, 0, algorithm, 8.0)
    assert np.mean([len(record.moves) for record in without]) < 6
    late, earliest = 0, 1000
    for record in played(GO, 0.8, algorithm, 8.0):
        passes = np.flatnonzero(np.asarray(record.moves) == GO.pass_action)
        assert (passes >= 20).all()
        late += len(passes)
        earliest = min([earliest, *passes.tolist()])
        visited = np.split(record.visit_actions, np.cumsum(record.visit_lengths)[:-1])
        assert all(GO.pass_action not in actions for actions in visited[:20])
    assert late > 40 and earliest == 20


def test_random_openings_have_no_early_passes() -> None:
    for record in played(GO, 0.8, "puct", 0.0, random_plies=16):
        assert GO.pass_action not in record.moves[:20]


def test_who_can_only_pass_does() -> None:
    othello = parse_game("othello:4")
    records = played(othello, 2.0, "puct", 0.0)
    passes = [record for record in records if othello.pass_action in record.moves]
    assert len(records) == 40 and passes
    assert any(othello.pass_action in record.moves[:8] for record in played(othello, 2.0, "puct", 0.0, random_plies=8))


def test_games_without_passes_refuse_it(tmp_path: Path) -> None:
    champion = make_champion(tmp_path / "saved_models", spec="tictactoe")
    with pytest.raises(UsageError, match="--pass-after: nobody passes in tictactoe; leave it out"):
        selfplay(SelfplayConfig(network=champion, output_dir=tmp_path / "selfplay", readouts=2, pass_after=0.5))
