"""Games that end because nothing can change any more: when, with which result, and their examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.actor import TreeActor
from pipeline.methods.alphazero.examples import make_examples
from pipeline.methods.method import ActorJob, FinishedGame, Learner, game_seeds
from pipeline.reports.recorded_games import RecordedGame
from pipeline.reports.show_as import records_of
from pipeline.reports.show_games import show_game
from pipeline.run.shards import End, GameRecord, read_shard
from pipeline.selfplay.config import SelfplayConfig
from tests.methods.alphazero.test_examples import everything
from tests.run.random_games import write_shard
from tests.search.helpers import hashed_evaluator

SPEC = "go:5,komi=2.5"
GAME = parse_game(SPEC)


@pytest.fixture(scope="module")
def finished() -> list[FinishedGame]:
    found: list[FinishedGame] = []
    player = Learner("m", hashed_evaluator(GAME))
    settings = SelfplayConfig(readouts=12, temperature_plies=4, end_settled=True)
    seeds = game_seeds(7, iter(range(60)), 0.1)
    TreeActor(ActorJob(GAME, 7, settings, seeds, lambda: player, found.append)).run(lambda: False)
    return found


def settled_records(finished: list[FinishedGame]) -> list[GameRecord]:
    return [one.record for one in finished if one.record.end == End.SETTLED]


def test_a_game_ends_as_soon_as_it_is_settled(finished: list[FinishedGame]) -> None:
    for one in finished:
        record = one.record
        states = np.concatenate(list(replay_one(GAME, record.moves.tolist())))
        settled = GAME.settled_owners(states).all(axis=1)
        over = GAME.is_over(states)
        assert not (settled & ~over)[:-1].any() and not over[:-1].any()
        assert (record.end == End.SETTLED) == (settled[-1] and not over[-1])
        if record.end == End.SETTLED:
            black = int((GAME.settled_owners(states[-1:]) == 1).sum())
            assert record.result_first_player == np.sign(black - (25 - black) - 2.5)
            assert (one.final_state == states[-1]).all()
    results = [record.result_first_player for record in settled_records(finished)]
    assert len(results) > 5 and len(set(results)) == 2


def test_settled_games_tell_whose_the_points_are(tmp_path: Path, finished: list[FinishedGame]) -> None:
    records = settled_records(finished)
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", SPEC, records, {}))
    examples = make_examples(GAME, [shard], everything([shard]))
    assert examples["final_weight"].all() and (examples["ownership"] != 0).all()
    sign = np.where(examples["ply"] % 2, -1, 1)
    results = shard.results[examples["game"]]
    assert (examples["value"] == results * sign).all()
    area = examples["ownership"].sum(axis=1, dtype=np.int64) * sign
    assert (examples["score"] * sign == area - 2.5).all() and (np.sign(examples["score"]) == examples["value"]).all()
    ends = np.concatenate([list(replay_one(GAME, record.moves.tolist()))[-1] for record in records])
    assert (GAME.ownership(ends) != GAME.settled_owners(ends)).any()  # stones that would be captured count as captured


def test_a_record_that_is_not_settled_is_refused(tmp_path: Path, finished: list[FinishedGame]) -> None:
    record = settled_records(finished)[0]
    lengths = record.visit_lengths[:-4]
    shorter = replace(
        record,
        **{name: getattr(record, name)[:-4] for name in ("moves", "flags", "root_values", "surprises")},
        visit_lengths=lengths,
        visit_actions=record.visit_actions[: lengths.sum()],
        visit_counts=record.visit_counts[: lengths.sum()],
    )
    over = next(one.record for one in finished if one.record.end == End.PLAYED_OUT)
    wrong = {
        r"recorded as settled; \d+ points may still change": shorter,
        r"recorded result [+-]1 \(first player\); the final position gives": replace(
            record, result_first_player=-record.result_first_player
        ),
        "the game is over; wanted a settled game to stop before its end": replace(over, end=End.SETTLED),
        "the game is not over; wanted a game that was played out": replace(record, end=End.PLAYED_OUT),
    }
    for number, (problem, one) in enumerate(wrong.items()):
        shard = read_shard(write_shard(tmp_path / str(number), "000001-a", "w00", SPEC, [one], {}))
        with pytest.raises(FileError, match=problem):
            make_examples(GAME, [shard], everything([shard]))


def test_show_counts_what_can_be_captured(tmp_path: Path, finished: list[FinishedGame]) -> None:
    records = settled_records(finished)
    shard = read_shard(write_shard(tmp_path, "000001-a", "w00", SPEC, records, {}))
    last = list(replay_one(GAME, records[0].moves.tolist()))[-1]
    score = float(GAME.settled_scores(last, GAME.settled_owners(last))[0])
    text = "\n".join(show_game(RecordedGame.of_shard(shard, 0), boards=False))
    assert "nothing left to decide" in text
    assert f"score of X, with all that can be captured captured: {score:+g}" in text
    assert f"RE[{'B' if score > 0 else 'W'}+{abs(score):g}]" in next(records_of(shard.path, 0))[1]
