"""Environments whose actions are texts, through all commands: what is said is recorded, shown, verified and learned."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("textarena", reason="text games need the extra text")
pytest.importorskip("transformers", reason="language models need the extra text")

from textarena import ObservationType

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.text.environment import registered
from pipeline.families.text.game import SPOKEN
from pipeline.families.text.reinforce import pretraining
from pipeline.families.text.reinforce.columns import INVALID_MOVE
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.ratings.command import checked_results
from pipeline.reports.config import ReportConfig
from pipeline.reports.report.command import report
from pipeline.reports.show import show
from pipeline.reports.show_as import csv_lines
from pipeline.run.matches import list_matches, read_match, read_results
from pipeline.run.shards import BOTH, Shard, newest_shards, read_shard
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.in_workers import outcome_of, played_game
from pipeline.selfplay.playing import PlayedGame
from pipeline.train.command import train
from pipeline.train.config import TrainConfig
from pipeline.upkeep.config import VerifyConfig
from pipeline.upkeep.verify.command import verify
from tests.families.text.reinforce.helpers import first_model
from tests.helpers import Heard

GAMES = 16
SPECS = {
    "ConnectFour": "text:ConnectFour-v0,show=newest,prompt=260,reply=12",
    "SimpleNegotiation": "text:SimpleNegotiation-v0-short,plies=12,prompt=120,reply=40",
    "ThreePlayerTicTacToe": "text:ThreePlayerTicTacToe-v0,show=newest,plies=30,prompt=260,reply=12",
}


@pytest.fixture(scope="module", params=list(SPECS))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A folder in which one generation was made; the tests work there. -> the game's spec."""
    spec, folder = SPECS[request.param], tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(pretraining, "POSITIONS", 200)
        first_model(Path(), steps=40, game=spec)
        selfplay(SelfplayConfig(games=GAMES, seed=1, threads=2, opponents="random=1,mirror=1"))
        gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=8))
        train(TrainConfig(epochs=1, batch_size=8, learning_rate=0.01, weight_decay=0))
        evaluate(EvaluateConfig(games=8, black_model="random", white_model="saved_models/000001-r4", promote=False,
                                output_dir=Path("data/evaluate")))  # fmt: skip
        yield spec


def shards(folder: Path = Path("data/selfplay")) -> list[Shard]:
    return [read_shard(meta.path, meta) for meta in newest_shards(folder)]


def in_one_line(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def test_records_hold_what_was_said(run: str) -> None:
    game = parse_game(run)
    records = [shard.game(number) for shard in shards() for number in range(shard.num_games)]
    assert len(records) == GAMES and {record.opponent for record in records} == {None, "random"}
    for record in records:
        assert (record.moves[1:] == SPOKEN).all() and len(record.said) == len(record.moves) - 1
        actions = game.recalled(record.moves.tolist(), record.said)
        states = game.initial(1)
        for ply, action in enumerate(actions):
            own, its = record.own, record.learner in (BOTH, game.to_move(states)[0])
            if ply and its:
                assert own["check"][ply] == record.said[ply - 1][1]
            states = game.play(states, np.array([action]), game.initial_history(states))
            if ply:
                assert bool(own["notes"][ply] & INVALID_MOVE) == game.refused(states)[0]
        assert game.returns(states)[0] == record.result_first_player


def test_verify_and_show_replay_them(run: str) -> None:
    found = verify(VerifyConfig(directory=Path()))
    assert not found.problems and found.checked["games"]["game"] == GAMES
    (match,) = list_matches(Path("data/evaluate"))
    lines = io.StringIO("\n".join(csv_lines(Path("data/selfplay"))), newline="")
    rows = list(csv.DictReader(lines))
    said = [text for shard in shards()[::-1] for game in shard.header["said"] for text, _ in game]
    assert [row["move"] for row in rows if not row["move"].startswith("seed ")] == list(map(in_one_line, said))
    for path in (shards()[0].path, match, Path("data/selfplay"), Path()):
        assert run in "\n".join(show(path))
    game = read_match(match).games[0]
    shown = "\n".join(show(match, game=game.index))
    assert len(game.said) == game.length - 1 and all(in_one_line(text) in shown for text, _ in game.said)
    report(ReportConfig(directory=Path(), output=Path("report.html")))


def test_the_same_seed_says_the_same(run: str, tmp_path: Path) -> None:
    again = []
    for threads in (1, 2):
        output = tmp_path / str(threads)
        selfplay(SelfplayConfig(games=6, seed=9, threads=threads, parallel_games=4, opponents="random=1,mirror=1",
                                output_dir=output, network=Path("saved_models/000000-init")))  # fmt: skip
        records = [shard.game(number) for shard in shards(output) for number in range(shard.num_games)]
        again.append({record.game_id: record.said for record in records})
    assert len(again[0]) == 6 and again[0] == again[1]


def test_a_worker_hands_over_what_was_said(run: str) -> None:
    from pipeline.methods.method import FinishedGame

    game, record = parse_game(run), shards()[0].game(0)
    played = PlayedGame(game, FinishedGame(record, "000000-init", -1, game.initial(1)[0]), 0, 3)
    number, back = played_game(outcome_of(played), {game.spec: game})
    assert number == 3 and back.finished is not None and back.finished.record.said == record.said


def test_games_of_a_changed_environment_are_left_out(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment now adds a line after some actions, so some games differ, and the others don't."""
    kind = registered(parse_game(run).environments[0]).kind
    original = kind.step

    def step(self: Any, action: str) -> Any:
        done = original(self, action)
        if zlib.crc32(action.encode()) % 4 == 0:
            self.state.add_observation(message="News", observation_type=ObservationType.GAME_BOARD)
        return done

    monkeypatch.setattr(kind, "step", step)
    parse_game.cache_clear()
    differs = "the environment's observation differs from the recorded one; was another version of textarena used?"

    def changed(record: Any) -> bool:
        try:
            parse_game(run).recalled(np.asarray(record.moves).tolist(), record.said)
        except IllegalMove as error:
            assert differs in str(error)
            return True
        return False

    (match,) = list_matches(Path("data/evaluate"))
    records = [shard.game(number) for shard in shards() for number in range(shard.num_games)]
    learned = [record for record in records if record.surprises.any()]
    of_match = [game.index for game in read_match(match).games if changed(game)]
    assert 0 < sum(map(changed, learned)) < len(learned) and of_match
    problems = [str(problem) for problem in verify(VerifyConfig(directory=Path())).problems]
    assert sum(differs in one for one in problems) >= 2 and any("games.jsonl" in one for one in problems)
    with pytest.raises(FileError, match=rf"game {of_match[0]}: ply \d+: the environment's observation differs"):
        list(show(match, game=of_match[0]))
    told = Heard()
    made = gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=1, holdout_fraction=0,
                               output_directory=tmp_path / "chunks"), told)  # fmt: skip
    assert made.games_differing == sum(map(changed, learned)) and not made.shards_skipped
    assert made.positions == sum(int(one.surprises.sum()) for one in learned if not changed(one))
    assert sum(line.startswith("left out ") and differs in line for line in told.warned) >= 1
    (match / "results.json").unlink()
    warned: list[str] = []
    results = checked_results(match, False, warned.append)
    assert [one.index for one in results.games] == [game.index for game in read_match(match).games
                                                    if game.index not in of_match]  # fmt: skip
    assert len(warned) == 1 and differs in warned[0] and warned[0].startswith("counted for neither side: ")
    parse_game.cache_clear()


def test_results_tell_games_with_different_texts_apart(run: str) -> None:
    (match,) = list_matches(Path("data/evaluate"))
    games, results = read_match(match).games, read_results(match).games
    assert len({one.identity for one in results}) == len({one.identity for one in games}) > 1
    same = games[0].model_copy(update={"said": tuple((f"{text}!", check) for text, check in games[0].said)})
    assert same.identity != games[0].identity


def test_matches_have_no_openings(run: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no openings, as its moves are texts"):
        evaluate(EvaluateConfig(games=2, black_model="random", white_model="saved_models/000000-init", promote=False,
                                opening_plies=2, output_dir=tmp_path))  # fmt: skip
