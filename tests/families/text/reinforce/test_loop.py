"""The method through all four commands: what they leave behind, that seeds and kills change nothing, and bad input."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("textarena", reason="text games need the extra text")
pytest.importorskip("transformers", reason="language models need the extra text")

from pipeline.errors import FileError, NotYet, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.text.environment import registered
from pipeline.families.text.game import INVALID, TextGame
from pipeline.families.text.language import players as language
from pipeline.families.text.language.prompts import boxed, brackets
from pipeline.families.text.reinforce import pretraining
from pipeline.families.text.reinforce.actor import TextActor
from pipeline.families.text.reinforce.columns import (
    INVALID_MOVE,
    NOBODY,
    NONE,
    OTHER_ENDED_BY_INVALID,
    WELL_FORMED,
    recorded_columns,
    unpacked,
)
from pipeline.families.text.reinforce.examples import make_examples
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.methods.active_opponents import MAX_IDLE_OPPONENTS
from pipeline.methods.method import ActorJob, Encounter, GameSeed, Learner, Opponent, Positions, game_seeds
from pipeline.methods.named import method_named
from pipeline.players.builtin import RandomPlayer
from pipeline.players.player import Player
from pipeline.progress import SILENT
from pipeline.reports.config import ReportConfig, StatusConfig
from pipeline.reports.report.command import report
from pipeline.reports.show import show
from pipeline.reports.show_as import csv_lines
from pipeline.reports.status import status
from pipeline.reports.status_metrics import exposition
from pipeline.reports.status_screen import screen
from pipeline.reports.tracked import of_newest_games
from pipeline.run.chunks import newest_complete_set, read_chunk
from pipeline.run.matches import read_match
from pipeline.run.models import model_files, read_info, read_model
from pipeline.run.shards import BOTH, Shard, newest_shards, read_shard
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.in_workers import SelfplayExecutor, played_game
from pipeline.selfplay.playing import Plan, PlayedGame
from pipeline.train.command import train
from pipeline.train.config import ExportConfig, InitConfig, TrainConfig
from pipeline.train.export import export
from pipeline.train.init import init
from pipeline.upkeep.config import VerifyConfig
from pipeline.upkeep.verify.command import verify
from tests.families.text.reinforce.helpers import KUHN, SIZE, first_model
from tests.helpers import Heard
from tests.run.random_games import write_shard

GAMES = 24


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which one generation was made, with a critic; the tests work there."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(pretraining, "POSITIONS", 300)
        first_model(Path(), "a2c", steps=100)
        selfplay(SelfplayConfig(games=GAMES, seed=1, threads=2, opponents="random=1,mirror=2"))
        gather(GatherConfig(as_many_as_possible=True, positions_per_chunk=16, sampling_rewards="normalise"))
        train(TrainConfig(epochs=1, batch_size=16, learning_rate=0.01, weight_decay=0, activation_checkpointing=True))
        evaluate(EvaluateConfig(games=8, black_model="random", white_model="saved_models/000001-r4", promote=False))
        yield folder


def last_line(track: str) -> dict[str, Any]:
    """The last point of a track."""
    return json.loads(Path("data/logs", track, "points.jsonl").read_text().splitlines()[-1])


def test_what_is_tracked(run: Path) -> None:
    played = last_line("selfplay/w00")
    assert played["selfplay/games"] == GAMES and played["selfplay/tokens_per_second"] > 0
    found = of_newest_games(Path("data/selfplay"), pytest.fail)
    assert found.numbers
    for source, facts in found.numbers.items():
        for name, value in facts.items():
            share = "_share" if name in found.measures and found.measures[name].share else ""
            assert played[f"{source}/{name}{share}"] == pytest.approx(value)
    assert any(name.endswith("/mirror/unigrams_share") for name in played)
    trained = [json.loads(line) for line in Path("data/logs/train/points.jsonl").read_text().splitlines()]
    names = {name for line in trained for name in line if name.startswith("train/")}
    assert {"train/valid_share", "train/well_formed_share", "train/reward", "train/loss/kl"} <= names
    assert not {"train/loss/valid_share", "train/loss/reward"} & names
    assert last_line("evaluate")["evaluate/against/random/games"] == 8


def shards(folder: Path = Path("data/selfplay")) -> list[Shard]:
    return [read_shard(meta.path, meta) for meta in newest_shards(folder)]


def test_what_the_commands_leave_behind(run: Path) -> None:
    first, second = (read_model(path) for path in sorted(Path("saved_models").glob("00000*")))
    assert second.info.parents == ["000000-init"] and second.info.name == "000001-r4"
    assert second.info.architecture == first.info.architecture and first.info.architecture["base"] == "base"
    changed = [name for name, array in second.weights.items() if (array != first.weights[name]).any()]
    assert any(name.endswith("lora_B.weight") for name in changed)
    assert "value_head.weight" in changed and second.info.method == "a2c"
    assert sum(meta.games for meta in newest_shards(Path("data/selfplay"))) == GAMES
    terms = second.info.manifest["metrics"]["train"]
    assert {"policy", "kl", "value", "entropy", "reward", "well_formed_share"} <= set(terms) and 0 <= terms[
        "valid_share"
    ] <= 1
    for path in (Path("saved_models/000001-r4"), Path("data/selfplay"), Path("data/training_data"), Path()):
        assert KUHN in "\n".join(show(path))


def test_status_and_report_show_what_is_tracked(run: Path, tmp_path: Path) -> None:
    found = status(StatusConfig(directory=Path()))
    assert set(found.tracked.numbers) == {f"selfplay/KuhnPoker-v0/{opponent}" for opponent in ("mirror", "random")}
    assert sum(one["games"] for one in found.tracked.numbers.values()) == GAMES
    shown = io.StringIO()
    Console(file=shown, width=120).print(screen(found))
    assert "selfplay/KuhnPoker-v0/mirror" in shown.getvalue() and "unigrams" in shown.getvalue()
    assert 'mugo_tracked{source="selfplay/KuhnPoker-v0/random",name="invalid"}' in exposition(found)
    report(ReportConfig(directory=Path(), output=tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text()
    assert "Invalid moves" in page and "selfplay/KuhnPoker-v0/random" in page


def test_verify_finds_the_base_wherever_it_is_called_from(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    found = verify(VerifyConfig(directory=run))
    assert found.checked["models"] == {"model": 2, "champion": 1} and not found.problems


def test_records_hold_every_field_of_a_step(run: Path) -> None:
    game = parse_game(KUHN)
    for shard in shards():
        learned = shard.flags & 1 == 1
        assert (shard.surprises == learned).all()
        for number in range(shard.num_games):
            record = shard.game(number)
            own = record.own
            assert own["player"][0] == NOBODY and not own["text"][0].any()  # chance's seed
            for ply in range(1, len(record.moves)):
                its = record.learner in (BOTH, own["player"][ply])
                assert bool(record.flags[ply] & 1) == its == bool((own["answer"][ply] != NONE).any())
                assert bool(own["notes"][ply] & INVALID_MOVE) == (record.moves[ply] == INVALID)
                if its:
                    assert bool(own["notes"][ply] & WELL_FORMED) == (brackets(unpacked(own["text"][ply])) is not None)
                assert np.isnan(own["value"][ply]) == (not its)  # the critic said something
            sides = [own["reward"][own["player"] == side] for side in (0, 1)]
            assert all(len(set(side.tolist())) <= 1 for side in sides)
            assert record.result_first_player == np.sign(sides[0][0] if len(sides[0]) else -sides[1][0])
    assert {shard.opponent(number) for shard in shards() for number in range(shard.num_games)} == {None, "random"}
    assert game.reply_tokens == shards()[0].own["answer"].shape[1]


def test_a_critic_says_nothing_about_the_result_of_a_match(run: Path) -> None:
    found = read_match(Path("data/evaluate/000001-r4-vs-random"))
    assert len(found.games) == 8 and {value for one in found.games for value in one.values_to_move} == {None}


def test_only_steps_of_the_learner_are_trained_on(run: Path) -> None:
    chunks = newest_complete_set(Path("data/training_data"))
    assert chunks is not None
    columns = [read_chunk(path, KUHN, _types()).columns for path in chunks.chunks]
    tokens = np.concatenate([one["tokens"] for one in columns])
    prompt, answer = np.split(tokens, [80], axis=1)
    assert (prompt[:, -1] != NONE).all() and (answer[:, 0] != NONE).all()
    advantage = np.concatenate([one["advantage"] for one in columns])
    assert abs(advantage.mean()) < 1e-5 and advantage.std() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("lost", ["*-0000-of-*.h5", "*holdout*.h5"])
def test_a_set_that_lost_a_file_is_settled_over_all_its_examples(run: Path, tmp_path: Path, lost: str) -> None:
    config = GatherConfig(output_directory=tmp_path / "chunks", as_many_as_possible=True, positions_per_chunk=16,
                          holdout_fraction=0.2, final_rewards="role-advantage=0.05",
                          sampling_rewards="normalise")  # fmt: skip
    whole = gather(config)
    files = {path: path.read_bytes() for path in config.output_directory.glob("*.h5")}
    gone = next(path for path in files if path.match(lost))
    gone.unlink()
    again = gather(config)
    assert again.chunks_made == (0 if "holdout" in lost else whole.chunks) and whole.chunks > 1
    assert {path: path.read_bytes() for path in config.output_directory.glob("*.h5")} == files


def _types() -> Any:
    from pipeline.families.text.reinforce.columns import example_columns

    return example_columns(parse_game(KUHN))


def test_the_same_seed_plays_the_same_games_on_however_many_threads(run: Path) -> None:
    for threads in (1, 2):
        config = SelfplayConfig(games=6, seed=9, threads=threads, parallel_games=4, opponents="random=1,mirror=1")
        selfplay(
            config.model_copy(update={"output_dir": Path(f"again{threads}"), "network": Path("saved_models/000001-r4")})
        )
    played = [
        {record.game_id: (record.moves.tolist(), record.own["text"].tobytes())
         for shard in shards(Path(f"again{threads}")) for record in map(shard.game, range(shard.num_games))}
        for threads in (1, 2)
    ]  # fmt: skip
    assert len(played[0]) == 6 and played[0] == played[1]


def test_a_server_plays_the_same_games(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[Any] = []
    monkeypatch.setattr(language, "_SERVERS", servers)
    played = []
    for backend in ("auto", "server"):
        config = SelfplayConfig(games=4, seed=9, threads=1, network=Path("saved_models/000001-r4"), backend=backend)
        selfplay(config.model_copy(update={"output_dir": tmp_path / backend}))
        played.append({record.game_id: (record.moves.tolist(), record.own["text"].tobytes())
                       for shard in shards(tmp_path / backend)
                       for record in map(shard.game, range(shard.num_games))})  # fmt: skip
    servers[0].close()
    assert len(played[0]) == 4 and played[0] == played[1]
    with pytest.raises(UsageError, match="--backend openvino: language models have auto, torch, server, vllm"):
        selfplay(SelfplayConfig(games=1, network=Path("saved_models/000001-r4"), backend="openvino"))


def test_a_match_says_how_it_went_in_each_environment(tmp_path: Path) -> None:
    first_model(tmp_path, game="text:KuhnPoker-v0+KuhnChips-v0,show=round,prompt=80,reply=10")
    model = str(tmp_path / "saved_models/000000-init")
    match = evaluate(EvaluateConfig(games=8, black_model="random", white_model=model, promote=False,
                                    output_dir=tmp_path / "matches"))  # fmt: skip
    folder = tmp_path / "matches/000000-init-vs-random"
    shown = "\n".join(show(folder))
    assert match.games_played == 8 and "  in KuhnPoker-v0" in shown and "  in KuhnChips-v0" in shown


def test_a_model_meets_a_fixed_opponent_in_environments_that_it_did_not_learn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipeline import main

    first_model(tmp_path, game="text:SimpleTak-v0,show=grid,prompt=40,reply=5")
    model, output = tmp_path / "saved_models/000000-init", tmp_path / "matches"
    main.app(["evaluate", "--game", "text:SimpleTak-v0+KuhnPoker-v0,show=board,prompt=200,reply=10", "--white-model",
              str(model), "--black-model", "random", "--games", "8", "--no-promote", "--output-dir", str(output)],
             standalone_mode=False)  # fmt: skip
    shown = "\n".join(show(output / "000000-init-vs-random"))
    assert "  in SimpleTak-v0" in shown and "  in KuhnPoker-v0" in shown
    with pytest.raises(FileError, match=r"it plays text:SimpleTak-v0,.*; wanted a model that plays tictactoe"):
        evaluate(EvaluateConfig(game="tictactoe", games=2, black_model="random", white_model=str(model)))


def test_the_quick_start_runs_without_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset through all commands, with fewer games of a smaller model, as docs/text.md shows for a larger one."""
    from pipeline import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretraining, "POSITIONS", 100)
    init_lines = "game: text:SimpleTak-v0,show=grid,prompt=80,reply=12\n  network_size: l1d32r4"
    Path("small.yaml").write_text(f"extends: text-quickstart\ninit:\n  {init_lines}\n")
    for command, *options in (
        ["init"],
        ["selfplay", "--games", "4", "--threads", "1"],
        ["gather", "--positions-per-chunk", "8", "--chunks-to-make", "1"],
        ["train", "--batch-size", "8"],
        ["evaluate", "--games", "2", "--require-games", "4", "--threads", "1"],
    ):
        main.app([command, "--preset", "small.yaml", *options], standalone_mode=False)
    model = read_model(Path("saved_models/best_model"))
    assert model.info.name == "000001-r4" and model.info.architecture["reading"] == "boxed"
    assert all(shard.opponent(number) is None for shard in shards() for number in range(shard.num_games))
    said = [row for shard in shards() for row in zip(shard.own["text"], shard.own["notes"], strict=True)]
    learned = [(unpacked(text), notes) for text, notes in said if notes or text.any()]
    assert all((boxed(text) is not None) == bool(notes & WELL_FORMED) for text, notes in learned)
    assert any("\\boxed{" in text for text, _ in learned)


def test_show_csv_has_a_line_for_every_move(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pipeline import main

    main.app(["show", "data/selfplay", "--csv"], standalone_mode=False)
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines(keepends=True)))
    assert len(rows) == sum(shard.num_positions for shard in shards())
    steps = [row for row in rows if row["answer"]]
    assert len(steps) == sum(int(shard.surprises.sum()) for shard in shards())
    assert all("You are Player" in row["observation"] and row["environment"] == "KuhnPoker-v0" for row in steps)
    assert {row["well_formed"] for row in steps} <= {"0", "1"} and {row["reward"] for row in steps} <= {
        "1.0",
        "-1.0",
        "0.0",
    }
    assert all(row["move"].startswith("seed ") == (row["player"] == "") for row in rows)
    with pytest.raises(UsageError, match="--csv is for game shards"):
        list(csv_lines(Path("saved_models")))


def test_opponents_that_end_games_by_invalid_moves(run: Path, tmp_path: Path) -> None:
    """What is left of the learner's steps in those games, with the filter and without."""
    kept = {}
    for filtered in (False, True):
        output = tmp_path / str(filtered)
        selfplay(SelfplayConfig(games=60, seed=2, threads=1, output_dir=output, reply_temperature=1.5,
                                network=Path("saved_models/000001-r4"), filter_opponent_invalid=filtered))  # fmt: skip
        steps = [(shard.surprises, shard.own["notes"]) for shard in shards(output)]
        kept[filtered] = np.concatenate([one for one, _ in steps])
        others = np.concatenate([notes & OTHER_ENDED_BY_INVALID != 0 for _, notes in steps])
    assert 0 < others.sum() < kept[False].sum()
    assert (kept[True] == kept[False] * ~others).all() and kept[False][others].any()


def test_opponents_that_are_met_no_more_are_let_go(run: Path) -> None:
    game, met, closed = parse_game(KUHN), [], []
    model = read_model(Path("saved_models/000000-init"))
    learner = Learner("m", method_named("a2c").load(model, 2, 1, "auto", SILENT)[0])

    def make(game: TextGame, num_rows: int) -> Player:
        player = RandomPlayer(game, num_rows)
        player.close = lambda: closed.append(player)
        return player

    def always_another(seed: GameSeed, learner: Learner) -> Encounter:
        met.append(Opponent("random", make))
        return Encounter(met[-1], 0, 0)

    seeds, config = game_seeds(7, iter(range(14)), 0.0), SelfplayConfig(opponents="random=1")
    actor = TextActor(ActorJob(game, 2, config, seeds, lambda: learner, lambda _: None, always_another))
    actor.run(lambda: False)
    assert len(met) == 14 and 14 - 2 - MAX_IDLE_OPPONENTS <= len(closed) < 14
    actor.close()
    assert len(closed) == 14


def test_generalised_advantages_equal_a_plain_loop(run: Path, tmp_path: Path) -> None:
    game = parse_game(KUHN)
    shard = max(shards(), key=lambda one: one.num_positions)
    values = np.linspace(-3, 3, shard.num_positions).astype(np.float32)  # a critic's, of rewards without bounds
    again = write_shard(
        tmp_path, *(shard.header[name] for name in ("model", "worker", "game")),
        [replace(one, own={**one.own, "value": values[at : at + len(one.moves)]})
         for one, at in zip(map(shard.game, range(shard.num_games)), shard.move_offsets.tolist(), strict=False)],
        shard.header["provenance"], method="a2c", recorded=recorded_columns(game),
    )  # fmt: skip
    changed = read_shard(again)
    at = np.flatnonzero(shard.surprises > 0)
    games = np.searchsorted(shard.move_offsets, at, side="right") - 1
    wanted = Positions(np.zeros(len(at), np.int64), games, at - shard.move_offsets[games])
    gamma, lam = 0.9, 0.8
    config = GatherConfig(discount=gamma, td_lambda=lam)
    found = make_examples(game, [changed], wanted, np.full(len(at), lam, np.float32), config)
    for i, place in enumerate(at):
        its = [p for p in at if p >= place and p < shard.move_offsets[games[i] + 1]
               and shard.own["player"][p] == shard.own["player"][place]]  # fmt: skip
        advantage, ahead = 0.0, 0.0
        for step, p in reversed(list(enumerate(its))):
            reward = float(shard.own["reward"][p]) if step == len(its) - 1 else 0.0
            advantage = reward + gamma * ahead - values[p] + gamma * lam * advantage
            ahead = float(values[p])
        reward = found["final"][i, found["player"][i]]
        assert found["weight"][i] * reward + found["baseline"][i] == pytest.approx(advantage, abs=1e-5)


def test_clipping_compares_with_the_original_model_however_often_training_is_interrupted(
    run: Path, tmp_path: Path
) -> None:
    """And it matters: the same training with another limit ends with other weights."""

    class Stopper(Heard):
        def advance(self, count: int = 1) -> None:
            self.steps = getattr(self, "steps", 0) + count
            if self.steps == 4:
                raise KeyboardInterrupt

    def config(name: str, clip: float) -> TrainConfig:
        return TrainConfig(
            epochs=3, batch_size=16, learning_rate=0.02, warmup_steps=0, weight_decay=0, ratio_clip=clip,
            original_model="saved_models/000000-init", new_model=tmp_path / name / "000001-x",
        )  # fmt: skip

    whole, other = train(config("whole", 0.01)), train(config("other", 0.5))
    with pytest.raises(KeyboardInterrupt):
        train(config("parts", 0.01), Stopper())
    resumed = train(config("parts", 0.01))
    assert resumed.resumed_from_step == 4
    weights = [read_model(summary.model).weights for summary in (whole, resumed, other)]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    assert any((weights[0][name] != weights[2][name]).any() for name in weights[0])
    assert 0 < whole.metrics["train"]["clipped_share"] < 1


def test_final_rewards_are_those_of_both_players(run: Path, tmp_path: Path) -> None:
    """As recorded for whoever moved; who never did has won when the other's first two answers were invalid."""
    game, untrained = parse_game(KUHN), first_model(tmp_path)
    selfplay(SelfplayConfig(games=4, seed=2, threads=1, output_dir=tmp_path / "games", network=untrained))
    sides_without_moves = 0
    for shard in shards() + shards(tmp_path / "games"):
        at = np.flatnonzero(shard.surprises > 0)
        games = np.searchsorted(shard.move_offsets, at, side="right") - 1
        wanted = Positions(np.zeros(len(at), np.int64), games, at - shard.move_offsets[games])
        found = make_examples(game, [shard], wanted, np.ones(len(at), np.float32), GatherConfig())["final"]
        assert len(at) and (found.sum(axis=1) == 0).all()
        for number, final in zip(games.tolist(), found, strict=True):
            own = shard.game(number).own
            for side in (0, 1):
                recorded = own["reward"][own["player"] == side]
                assert (recorded == final[side]).all()
                sides_without_moves += not len(recorded)
                assert len(recorded) or final[side] == 1
    assert sides_without_moves >= 8


def test_games_of_another_version_of_the_environment_are_left_out(run: Path, tmp_path: Path) -> None:
    shard = shards()[0]
    record = shard.game(0)
    for number, (name, column) in enumerate(
        (("check", record.own["check"] + 1), ("reward", -record.own["reward"] + 5))
    ):
        own = {**record.own, name: np.where(record.own["check"] > 0, column, record.own[name])}
        output = tmp_path / name
        wrong = type(record)(**{**vars(record), "own": own, "game_id": number})
        good = [shard.game(number) for number in range(shard.num_games)]
        from pipeline.families.text.reinforce.columns import recorded_columns

        facts = {"method": shard.header["method"], "recorded": recorded_columns(parse_game(KUHN))}
        write_shard(output, "000000-init", "w00", KUHN, [wrong, *good], {"generation": 0}, **facts)
        config = GatherConfig(directory=output, output_directory=tmp_path / f"{name}-chunks", holdout_fraction=0)
        made = gather(config.model_copy(update={"as_many_as_possible": True, "positions_per_chunk": 2}))
        assert (made.shards_skipped, made.games_differing) == (0, 1), name


def test_an_environment_that_raises_ends_its_game_alone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse_game.cache_clear()
    kind = registered("KuhnPoker-v0").kind
    original = kind.step

    def step(self: Any, action: str) -> Any:
        if self.state.game_state["player_cards"][0] == 2:
            raise RuntimeError("a king")
        return original(self, action)

    monkeypatch.setattr(kind, "step", step)
    told = Heard()
    played = selfplay(SelfplayConfig(games=12, seed=3, threads=1, output_dir=tmp_path / "games"), told)
    assert 0 < played.games < 12 and len(told.warned) == played.dropped == 12 - played.games
    assert f"{played.dropped} further games counted for nobody" in "\n".join(played.lines())
    assert all(re.match(r"game \d+ counts for nobody: text:KuhnPoker-v0: at action", text) for text in told.warned)
    match = evaluate(EvaluateConfig(games=8, black_model="random", white_model="saved_models/000000-init",
                                    promote=False, output_dir=tmp_path / "matches"))  # fmt: skip
    assert 0 < match.games_played < 8
    assert played.games == len(played_by_a_worker(Path("saved_models/000000-init"), 12))
    parse_game.cache_clear()


def played_by_a_worker(model: Path, count: int) -> list[PlayedGame]:
    """Games of the same seed. All numbers must come back, those of the dropped ones too."""
    game = parse_game(KUHN)
    plan = Plan(SelfplayConfig(seed=3), game, method_named(read_info(model).method), rows=4)
    update = {"learner": str(model), "generation": 0, "others": {}, "fair_setups": {}}
    job = {**plan.to_job(), "update": update}
    worker = SelfplayExecutor(job, {str(model): model_files(model)})
    found: dict[int, PlayedGame] = {}
    try:
        worker.give(range(count))
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            said = map(worker.encode, worker.outcomes(0.1))
            found.update(played_game(outcome, {game.spec: game}) for outcome in said)
        assert sorted(found) == list(range(count)) and not worker._begun
        assert len(worker.warnings()) == sum(played.finished is None for played in found.values())
    finally:
        worker.close()
    return [played for played in found.values() if played.finished is not None]


def test_selfplay_waits_for_train(run: Path, tmp_path: Path) -> None:
    """Games of the newest generation count, those of earlier ones don't."""
    config = SelfplayConfig(games=3, seed=5, threads=1, output_dir=tmp_path / "games", max_lead=6)
    shutil.copytree("data/selfplay", tmp_path / "games")
    assert selfplay(config).games == 3  # what was played before 000001-r4 was made is no lead
    newest = [one for one in shards(tmp_path / "games") if one.header["provenance"]["generation"] == 1]
    played = sum(shard.num_positions for shard in newest)
    with pytest.raises(NotYet, match=f"{played} positions since model 000001 was made, wanted at most 6") as caught:
        selfplay(config)
    assert caught.value.missing == played - 6
    assert selfplay(config.model_copy(update={"max_lead": played})).games == 3


def test_models_that_can_not_play(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "saved_models"
    shutil.copytree("saved_models", copy, symlinks=True)
    shutil.move(copy / "base", copy / "elsewhere")
    with pytest.raises(FileError, match=r"its base model .*base is missing; restore that folder"):
        selfplay(SelfplayConfig(network=copy / "000000-init", output_dir=tmp_path / "games"))
    with pytest.raises(FileError, match=r"its base model .*base isn't on this node: .* same path on every node"):
        played_by_a_worker(copy / "000000-init", 1)
    first_model(tmp_path / "other", game=KUHN.replace("80", "90"))
    shutil.copytree(tmp_path / "other/saved_models/base", copy / "base")
    with pytest.raises(FileError, match="it is another base model"):
        selfplay(SelfplayConfig(network=copy / "000000-init", output_dir=tmp_path / "games"))
    for wrong, problem in (
        ({"network_size": "b2c32"}, "wanted rN, LoRA's rank, or lLdWrN"),
        ({"game": "go:9"}, "go:9 isn't a text game"),
        ({"value_head": "wdl"}, "--value-head wdl: method reinforce doesn't read it"),
        ({"base_model": copy / "000000-init", "network_size": "r4"}, "no config.json is here"),
    ):
        with pytest.raises((UsageError, FileError), match=problem):
            base = {"game": KUHN, "method": "reinforce", "network_size": "r4", "new_model": tmp_path / "x/000000-init"}
            init(InitConfig(**{**base, **wrong}))


def test_a_base_model_that_stands_there_is_taken_if_it_is_the_one_asked_for(tmp_path: Path) -> None:
    models = first_model(tmp_path).parent
    for path in (models / "best_model", models / "promotions.jsonl"):  # of them only the base model stands there
        path.unlink()
    shutil.rmtree(models / "000000-init")
    asked = {"game": KUHN, "method": "reinforce", "pretraining_steps": 0, "new_model": models / "000001-again"}
    for changed, problem in (
        ({"network_size": "l2d32r4"}, "l2d32r4: .*base is l1d32; remove it, or give r4"),
        ({"network_size": "l1d48r8"}, "l1d48r8: .*base is l1d32; remove it, or give r8"),
        ({"network_size": "r4", "game": KUHN.replace("80", "90")}, "base reads at most 90 tokens; wanted 100"),
    ):
        with pytest.raises(UsageError, match=problem):
            init(InitConfig(**{**asked, **changed}))
    for size in ("l1d100r4", "l1d0r4"):
        with pytest.raises(UsageError, match=f"{size}: wanted rN, .* of L layers and width W, a multiple of 16"):
            init(InitConfig(**{**asked, "network_size": size, "new_model": tmp_path / "elsewhere/000000-init"}))
    for name, size in (("000001-same", SIZE), ("000002-rank", "r8")):
        init(InitConfig(**{**asked, "network_size": size, "new_model": models / name}))


def test_what_init_refuses_leaves_no_base_model(tmp_path: Path) -> None:
    asked = {"game": KUHN, "method": "reinforce", "network_size": SIZE, "pretraining_steps": 0}
    saved_models = tmp_path / "saved_models"
    init(InitConfig(game="tictactoe", network_size="b1c8", new_model=saved_models / "000000-init"))
    for path, error, problem in (
        (saved_models / "000001-words", FileError, "best_model: plays tictactoe"),
        (tmp_path / "elsewhere/a-vs-b", UsageError, "a-vs-b"),
    ):
        with pytest.raises(error, match=problem):
            init(InitConfig(**asked, new_model=path))
    (tmp_path / "elsewhere/000000-init").mkdir(parents=True)
    with pytest.raises(FileError, match="exists already"):
        init(InitConfig(**asked, new_model=tmp_path / "elsewhere/000000-init"))
    assert list(tmp_path.rglob("base")) == []


def test_a_base_model_that_is_given_can_read_what_the_game_shows(tmp_path: Path) -> None:
    base = first_model(tmp_path).parent / "base"
    asked = {"method": "reinforce", "network_size": "r4", "base_model": base, "new_model": tmp_path / "x/000000-init"}
    with pytest.raises(UsageError, match=r"at most 90 tokens; wanted 100 for .*; choose another --base-model"):
        init(InitConfig(**asked, game=KUHN.replace("80", "90")))
    init(InitConfig(**asked, game=KUHN))


def test_an_exported_adapter_finds_its_base_from_where_it_lies(tmp_path: Path) -> None:
    path = first_model(tmp_path)
    base = str((tmp_path / "saved_models/base").resolve())
    for output, wanted in ((tmp_path / "given/mine", base), (path.with_name("mine"), "base")):
        found = export(ExportConfig(model=path, output=output))
        assert found.base == wanted and f"its base model {wanted} isn't part of it" in "\n".join(found.lines())
        assert method_named("reinforce").load(read_model(output), 1, 1, "auto", SILENT)
