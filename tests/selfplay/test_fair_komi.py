"""The komi that makes games even: leads from the ends of games, in records and as games end."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.games.capabilities import variant
from pipeline.games.contract import States
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.run.shards import End, GameRecord, ShardMeta, newest_shards, read_shard
from pipeline.selfplay.command import Committer, play, selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.coordination import PlayedGames
from pipeline.selfplay.fair_komi import GAMES, LEAST_GAMES, FairKomi, komi_said_by
from pipeline.selfplay.playing import PlayedGame
from pipeline.selfplay.variety import MOST_FAIR
from tests.helpers import make_model

HOME = parse_game("go:any,komi=7")
BOARDS = [HOME.on_board(5), HOME]  # type: ignore[attr-defined]
ON_BOARDS = [HOME.on_board(5), HOME.on_board(6)]  # type: ignore[attr-defined]
PASS = 25


def game_of(
    moves: list[int], setup: int = 0, end: End = End.PLAYED_OUT, result: float = 0.0
) -> tuple[GameRecord, States]:
    """On 5x5; and its last position."""
    *_, last = replay_one(variant(BOARDS[0], setup), moves)
    record = GameRecord(game_id=1, moves=np.array(moves), result_first_player=result, end=end, setup=setup)
    return record, last


def test_what_a_game_says_by_hand() -> None:
    """A single black stone owns all 25 points; without stones nobody owns any."""
    for setup in (-5, 0, 5):
        komi = 7 + setup / 2
        assert komi_said_by(BOARDS[0], *game_of([12, PASS, PASS], setup)) == komi + 10  # won by more than that
        assert komi_said_by(BOARDS[0], *game_of([PASS, 12, PASS, PASS], setup)) == komi - 10
        assert komi_said_by(BOARDS[0], *game_of([PASS, PASS], setup)) == 0.0
    assert komi_said_by(BOARDS[0], *game_of([PASS, PASS], 8)) == 11 - 10
    assert komi_said_by(BOARDS[0], *game_of([12, PASS, PASS], 24)) == 25.0
    assert komi_said_by(BOARDS[0], *game_of([12], 6, End.RESIGNED, 1.0)) == 7 + 3 + 10
    assert komi_said_by(BOARDS[0], *game_of([12], 6, End.RESIGNED, -1.0)) == 7 + 3 - 10
    assert komi_said_by(BOARDS[0], *game_of([12], 0, End.MOVE_LIMIT)) is None
    two_eyes = [move for point in range(25) if point not in (0, 24) for move in (point, PASS)]
    assert komi_said_by(BOARDS[0], *game_of(two_eyes[:-1], 30, End.SETTLED)) == 25.0
    record, last = game_of([12, PASS, PASS])
    assert komi_said_by(BOARDS[0], replace(record, learner=1, opponent="random"), last) is None


def test_the_mean_of_the_newest_games_decides() -> None:
    fair = FairKomi(BOARDS)
    won, lost = (game_of([12], 0, End.RESIGNED, result) for result in (1.0, -1.0))

    def after(*games: tuple[GameRecord, States]) -> int:
        for game in games:
            fair.add(BOARDS[0], *game)
        assert fair.setups()[BOARDS[1].spec] == 0
        return fair.setups()[BOARDS[0].spec]

    assert after(*[won] * (LEAST_GAMES - 1)) == 0  # too few
    assert after(won) == 20
    assert after(*[lost] * LEAST_GAMES) == 0
    assert after(*[won] * GAMES) == 20  # the older ones are forgotten
    assert after(lost) == round(20 * (GAMES - 2) / GAMES)
    assert after(*[game_of([12], 50, End.RESIGNED, 1.0)] * GAMES) == MOST_FAIR


@pytest.mark.parametrize("resigned", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("spread", [2.0, 12.0])
def test_games_that_one_side_won_become_even_and_stay_so(
    resigned: float, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Black leads by 14 points, more or less; most of those who have lost at the end resign. Runs of 40 games."""
    generator = np.random.default_rng(4)
    fair, setups, wins = FairKomi(BOARDS), [], []
    setup = 0
    for number in range(1200):
        if number % 40 == 0:
            setup = fair.setups()[BOARDS[0].spec]
        lead = 14 + spread * generator.standard_normal()
        result = float(np.sign(lead - 7 - setup / 2))
        record, last = game_of([PASS, PASS], setup, End.RESIGNED, result)
        if generator.random() >= resigned:
            record = replace(record, end=End.PLAYED_OUT)
        monkeypatch.setattr(type(BOARDS[0]), "scores", lambda *_, by=lead - 7 - setup / 2: np.array([by]))
        fair.add(BOARDS[0], record, last)
        setups.append(setup), wins.append(result > 0)
    found = 7 + np.array(setups[200:]) / 2
    assert abs(np.mean(wins[200:]) - 0.5) < 0.06 and abs(found.mean() - 14) < 1
    assert (np.abs(found - 14) < 6).mean() > 0.9


def config_of(tmp_path: Path, **more) -> SelfplayConfig:
    network = tmp_path / "saved_models" / "000000-test"
    if not network.exists():
        make_model(network.parent, spec=HOME.spec, size="b1c8")
    usual = {
        "network": network, "output_dir": tmp_path / "games", "games": 24, "readouts": 2, "boards": "5=2,6=1",
        "parallel_games": 6, "temperature_plies": 4, "resign_threshold": -0.02,
        "fair_komi_fraction": 1.0, "seed": 3, "backend": "torch",
    }  # fmt: skip
    return SelfplayConfig(**usual | more)


def records(folder: Path) -> Iterator[tuple[ShardMeta, int, GameRecord]]:
    for meta in newest_shards(folder):
        shard = read_shard(meta.path, meta)
        for index in range(shard.num_games):
            yield meta, meta.numbers[index], shard.game(index)


def of_worker(folder: Path, worker: str) -> dict[int, tuple[str, int]]:
    return {number: (meta.game, record.setup) for meta, number, record in records(folder) if meta.worker == worker}


def setups_in(folder: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for meta, _, record in records(folder):
        found.setdefault(meta.game, set()).add(record.setup)
    return found


def test_the_newest_games_are_read_as_they_were_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[PlayedGame] = []
    add = Committer.add

    def noted(self: Committer, played: PlayedGame) -> None:
        seen.append(played)
        add(self, played)

    monkeypatch.setattr(Committer, "add", noted)
    selfplay(config_of(tmp_path, games=48, threads=1, commit_seconds=0, no_resign_fraction=0.5))
    live, read = (FairKomi(ON_BOARDS) for _ in range(2))
    for played in seen:
        assert played.finished is not None
        live.add(played.game, played.finished.record, played.finished.final_state[None])
    read.read(tmp_path / "games")
    found = [{spec: list(said) for spec, said in one._said.items()} for one in (live, read)]
    assert min(map(len, found[0].values())) > 2 and found[0] == found[1]

    monkeypatch.setattr("pipeline.selfplay.fair_komi.GAMES", 3)
    newest = FairKomi(ON_BOARDS)
    newest.read(tmp_path / "games")
    assert {spec: list(said) for spec, said in newest._said.items()} == {
        spec: said[-3:] for spec, said in found[0].items()
    }


def test_a_run_has_the_komi_of_the_games_before_it(tmp_path: Path) -> None:
    """A run that goes on after a kill has that of its first games, although more have ended since."""
    folder = tmp_path / "games"
    selfplay(config_of(tmp_path, games=48))
    assert setups_in(folder) == {game.spec: {0} for game in ON_BOARDS}
    before = FairKomi(ON_BOARDS)
    before.read(folder)
    fair = before.setups()
    assert 0 not in fair.values()
    shutil.copytree(folder, tmp_path / "uninterrupted")
    second = config_of(tmp_path, seed=5, worker="second", games=10, threads=1, commit_seconds=0)
    selfplay(second.model_copy(update={"output_dir": tmp_path / "uninterrupted"}))
    whole = of_worker(tmp_path / "uninterrupted", "second")
    assert len(whole) == 10 and set(whole.values()) == set(fair.items())

    play(second, SILENT, PlayedGames(folder, SILENT), lambda: len(of_worker(folder, "second")) >= 3)
    assert len(of_worker(folder, "second")) < 10
    selfplay(config_of(tmp_path, seed=9, worker="third", games=60, resign_threshold=-0.01))  # other results
    after = FairKomi(ON_BOARDS)
    after.read(folder)
    assert after.setups() != before.setups()
    selfplay(second)  # what is missing, and a few new games
    now = of_worker(folder, "second")
    assert len(now) > 10 and {number: now[number] for number in whole} == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_in_the_background_it_follows_the_games_as_they_end(tmp_path: Path, workers: int) -> None:
    config = config_of(tmp_path, background=True, games=1000, workers=workers, parallel_games=4, commit_seconds=0)
    end = time.monotonic() + 120

    def ended() -> bool:
        return len(setups_in(tmp_path / "games").get(ON_BOARDS[1].spec, ())) > 2 or time.monotonic() > end

    play(config, SILENT, PlayedGames(config.output_dir, SILENT), ended)
    assert len(setups_in(tmp_path / "games")[ON_BOARDS[1].spec]) > 2
