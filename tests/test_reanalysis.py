"""Games searched again: what is new are the targets alone, and they are those of the positions they stand at."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import reanalysis
from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.run.shards import POLICY_COUNTS, GameRecord, newest_shards, read_shard, write_shard
from pipeline.selfplay.config import SelfplayConfig
from tests.helpers import make_model
from tests.run.random_games import random_games, random_shards

GAME = parse_game("tictactoe")
READOUTS = 400
OF_SEARCHES = ("root_values", "surprises", "visit_lengths", "visit_actions", "visit_counts")


def knows_nothing(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((len(planes), 9), np.float32), np.zeros(len(planes), np.float32)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("games") / "selfplay"
    random_shards(folder, GAME, 4, 40)
    return folder


@pytest.fixture(scope="module")
def records(games: Path) -> list[GameRecord]:
    shards = [read_shard(meta.path, meta) for meta in newest_shards(games)]
    found = [shard.game(index) for shard in shards for index in range(shard.num_games)]
    rng = np.random.default_rng(1)
    counting = [rng.random(len(record.moves)) < rng.choice([0, 0.5, 1]) for record in found]  # none in some games
    return [
        replace(record, flags=np.where(counts, record.flags, 0).astype(np.uint8))
        for record, counts in zip(found, counting, strict=True)
    ]


@pytest.fixture(scope="module")
def again(records: list[GameRecord]) -> list[GameRecord]:
    config = SelfplayConfig(readouts=READOUTS, noise_weight=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reanalysis, "ROWS", 16)  # so that rows hold one game after another
        found, evaluations = reanalysis.remade(GAME, records, knows_nothing, config, 0)
    assert evaluations > len(records)
    return found


def test_the_games_stay_as_they_were(records: list[GameRecord], again: list[GameRecord]) -> None:
    assert len(again) == len(records) == 160
    for old, new in zip(records, again, strict=True):
        for one in fields(GameRecord):
            if one.name not in OF_SEARCHES:
                assert np.array_equal(getattr(old, one.name), getattr(new, one.name)), one.name
        searched = (np.asarray(old.flags) & POLICY_COUNTS) > 0
        for name in ("root_values", "surprises", "visit_lengths"):
            assert np.array_equal(getattr(old, name)[~searched], getattr(new, name)[~searched]), name
        for name in ("visit_actions", "visit_counts"):
            for ply in np.flatnonzero(~searched):
                assert np.array_equal(reanalysis.by_move(old, name)[ply], reanalysis.by_move(new, name)[ply])


def test_targets_are_those_of_their_positions(again: list[GameRecord]) -> None:
    """Wherever the mover can win at once, the search says so: the move, and the value by who is to move."""
    wins = 0
    for record in again:
        states = GAME.initial(1)
        history = GAME.initial_history(states)
        for ply, move in enumerate(record.moves.tolist()):
            before, states = states, GAME.play(states, np.array([move], np.int32), history)
            if not record.flags[ply] & POLICY_COUNTS:
                continue
            legal = np.flatnonzero(GAME.legal(before, history)[0])
            actions, counts = (reanalysis.by_move(record, name)[ply] for name in ("visit_actions", "visit_counts"))
            assert np.isin(actions, legal).all()
            after = [GAME.play(before, np.array([one], np.int32), history) for one in legal.tolist()]
            winning = [one for one, state in zip(legal, after, strict=True) if GAME.returns(state)[0] != 0]
            if winning:
                wins += 1
                assert actions[counts.argmax()] in winning
                assert record.root_values[ply] > 0.6
    assert wins > 20


def test_both_sets_are_learned_from(games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path / "saved_models")
    common = ["--games", str(games), "--model", str(model), "--preset", "tictactoe", "--readouts", "16"]
    common += ["--match-games", "4", "--match-readouts", "4"]
    setting = "network_size=b1c16,optimizer=muon,learning_rate=0.02,warmup_steps=0,ema_decay=0"
    reanalysis.main([*common, "--samples", "1600", "--positions", "500", setting])
    printed = capsys.readouterr().out
    assert re.search(
        r"^[\d,]+ targets of 80 games: each cost not known when it was played, 1\d\.\d again$", printed, re.M
    )
    assert re.search(r"^remade@4 against recorded@4: \d won", printed, re.MULTILINE)
    policies = {
        kind: [float(found) for found in re.findall(rf"^{kind}, .* policy ([\d.]+)", printed, re.MULTILINE)]
        for kind in (reanalysis.RECORDED, reanalysis.REMADE)
    }
    recorded, remade = policies.values()
    assert len(recorded) == len(remade) == 6
    assert recorded[0] - recorded[-1] > 0.02 < remade[0] - remade[-1]  # which moves are legal can be learned
    assert recorded != remade  # of other targets


def test_games_of_several_boards_are_learned_from_and_the_students_meet_on_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "boards.yaml"
    preset.write_text("init:\n  game: go:any,komi=7\n  network_size: b1c8\ngather:\n  positions_per_chunk: 256\n")
    for size in (5, 6):
        board = parse_game(f"go:any,size={size},komi=7")
        write_shard(tmp_path / "selfplay", "000001-a", "w00", board.spec, random_games(board, 20, size), {})
    model = make_model(tmp_path / "saved_models", spec="go:any,komi=7")
    common = ["--games", str(tmp_path / "selfplay"), "--model", str(model), "--preset", str(preset), "--readouts", "4"]
    common += ["--samples", "512", "--match-games", "2", "--match-readouts", "2", "--match-game"]
    reanalysis.main([*common, "go:5,komi=7", "batch_size=64,optimizer=muon"])
    printed = capsys.readouterr().out
    assert re.search(r"^[\d,]+ targets of 40 games", printed, re.MULTILINE)
    assert re.search(r"^remade@2 against recorded@2: \d won", printed, re.MULTILINE)
    for match_game, says in (("go:50", "size '50'"), ("gomoku:9", "wanted one that models of go:any,komi=7 play")):
        with pytest.raises(SystemExit) as stopped:
            reanalysis.main([*common, match_game, "optimizer=muon"])
        found = capsys.readouterr()
        assert stopped.value.code == 2 and says in found.err and not found.out


def test_a_model_of_all_boards_searches_games_of_one_again(tmp_path: Path) -> None:
    board = parse_game("go:5,komi=7")
    write_shard(tmp_path / "selfplay", "000001-a", "w00", board.spec, random_games(board, 3, 0), {})
    model = make_model(tmp_path / "saved_models", spec="go:any,komi=7")
    metas = list(newest_shards(tmp_path / "selfplay"))
    reanalysis.remake(metas, model, SelfplayConfig(readouts=4), 0, tmp_path / "sets", SILENT)
    for kind in (reanalysis.RECORDED, reanalysis.REMADE):
        assert [meta.game for meta in newest_shards(tmp_path / "sets" / kind)] == [board.spec]


def test_what_the_end_needs_is_asked_before_the_searches(
    games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reanalysis, "remake", lambda *given: pytest.fail("nothing is to be searched"))
    preset = tmp_path / "preset.yaml"
    preset.write_text("init: {game: tictactoe}\ngather: {holdout_fraction: 0}\n")
    for arguments, says in (
        (["--preset", str(preset)], "holds out none of these games"),
        (["--preset", "go9", "--match-games", "302"], "--match-games 302: wanted at most 300"),
    ):
        with pytest.raises(SystemExit) as stopped:
            reanalysis.main(["--games", str(games), *arguments, "optimizer=muon"])
        assert stopped.value.code == 2 and says in capsys.readouterr().err


def test_sets_are_the_same_games_in_the_same_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parts of several shards, searched by several threads, of which two have more games than a part needs."""
    played = tmp_path / "selfplay"
    made = [random_games(GAME, count, seed) for seed, count in enumerate((40, 7, 90, 40, 3))]
    for games in made:
        write_shard(played, "000001-a", "w00", GAME.spec, games, {"generation": 1}, evaluations=100 * len(games))
    metas = list(newest_shards(played))
    model = make_model(tmp_path / "saved_models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reanalysis, "ROWS", 8)
        parts = reanalysis.parts_of(metas)
        assert len(parts) == 5 and all(parts)  # 180 games would be 11 parts
        patch.setattr(reanalysis, "ROWS", 24)
        assert [len(part) for part in reanalysis.parts_of(metas)] != [1] * 5
        patch.setattr(reanalysis, "available_cores", lambda: 3)
        reanalysis.remake(metas, model, SelfplayConfig(readouts=4), 0, tmp_path / "sets", SILENT)
    targets = sum(len(game.moves) for games in made for game in games)
    assert (
        f"{targets:,} targets of 180 games: each cost {18_000 / targets:.1f} evaluations when"
        in capsys.readouterr().out
    )
    for kind in (reanalysis.RECORDED, reanalysis.REMADE):
        shards = [read_shard(meta.path, meta) for meta in newest_shards(tmp_path / "sets" / kind)]
        assert [shard.num_games for shard in shards] == [3, 40, 90, 7, 40]
        for shard, games in zip(shards, made[::-1], strict=True):
            for index, game in enumerate(games):
                found = shard.game(index)
                assert found.game_id == game.game_id and (found.moves == game.moves).all()
                assert (kind == reanalysis.REMADE) == (found.root_values != game.root_values).any()
    with pytest.raises(UsageError, match="it plays connect4; wanted one that plays tictactoe"):
        other = make_model(tmp_path / "other", spec="connect4")
        reanalysis.remake(metas, other, SelfplayConfig(readouts=4), 0, tmp_path / "none", SILENT)


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path / "saved_models")
    for arguments, says in (
        (["--readouts", "1"], "--readouts 1: wanted at least 2"),
        (["--match-games", "3"], "--match-games 3: wanted an even number"),
        (["--games", "nowhere"], "nowhere"),
    ):
        with pytest.raises(SystemExit) as stopped:
            reanalysis.main(["--preset", "tictactoe", "--model", str(model), "optimizer=muon", *arguments])
        assert stopped.value.code == 2 and says in capsys.readouterr().err
