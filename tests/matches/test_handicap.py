"""Matches in which one side takes handicap stones: turns, records, history, results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.go.game import Go
from pipeline.families.go.gtp_client import GtpEngine
from pipeline.families.go.gtp_player import set_up_stones, white_bonus
from pipeline.games.replay import handicap_start, move_names, replay, replay_one
from pipeline.games.sgf import read_sgf
from pipeline.games.specs import parse_game
from pipeline.matches.match import Pairing
from pipeline.matches.options import MatchOptions
from pipeline.matches.runner import MatchRunner, common_game, load_entrant
from pipeline.players.player import Player
from pipeline.progress import Progress
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.pool import make_member
from pipeline.ratings.tournament import tournament
from pipeline.reports.show import show
from pipeline.reports.show_as import records_of
from pipeline.run import layout
from pipeline.run.matches import MatchGame, read_match, read_results, verify_games
from tests.helpers import make_champion
from tests.matches.helpers import NAMES, heuristic_player, play, random_player, searching
from tests.players.scripted_engine import engine_command
from tests.reference.go import BLACK, WHITE, GoReference

GNUGO = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")
GNUGO_COMMAND = f"{GNUGO} --mode gtp --level 1 --never-resign --chinese-rules --capture-all-dead --positional-superko"
NEEDS_GNUGO = pytest.mark.skipif(GNUGO is None, reason="GNU Go is not installed (Debian: apt install gnugo)")

GO7 = parse_game("go:7")
STONES = [[16, 32], [16, 30], [18, 32]]  # of three games, two each


def movers(one: MatchGame) -> list[int]:
    return [int(GO7.to_move(state)[0]) for state in replay_one(GO7, one.moves, one.stones)][:-1]


def handicap_pairing(side: int, challenger=None, champion=None, openings=None) -> Pairing:
    makers = (challenger or random_player, champion or random_player)
    return Pairing(GO7, makers, NAMES, 0, openings or [[], [], []], side, STONES)


# The referee


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("other", [searching(1), searching(1, readouts=0), heuristic_player])
def test_one_side_is_black_in_every_game_and_white_begins(side, other) -> None:
    pairing = handicap_pairing(side, challenger=other)
    games = play(pairing, range(3), threads=2, rows=2)
    verify_games("here", GO7, list(games.values()))
    for index, one in games.items():
        assert one.challenger_player == side and one.stones == STONES[index] and one.opening_plies == 0
        assert one.challenger_began == (side == 1)
        made_by = movers(one)
        assert made_by[:3] == [1, 0, 1]
        with_values = {mover for mover, value in zip(made_by, one.values_to_move, strict=True) if value is not None}
        assert with_values == (set() if other is heuristic_player else {side})
        assert not set(STONES[index]) & set(one.moves[:2])
        *_, last = replay_one(GO7, one.moves, one.stones)
        assert GO7.returns(last)[0] == one.result_first_player
    with pytest.raises(IllegalMove):
        list(replay_one(GO7, [STONES[0][0]], STONES[0]))


def test_games_do_not_depend_on_rows_and_threads() -> None:
    pairing = handicap_pairing(1, challenger=searching(1))
    wanted = play(pairing, range(3), threads=1, rows=1)
    assert play(pairing, range(3), threads=2, rows=3) == wanted
    assert play(pairing, [2], threads=1, rows=1)[2] == wanted[2]


def test_opening_moves_follow_the_stones() -> None:
    openings = [[0, 1], [3], []]
    games = play(handicap_pairing(0, openings=openings), range(3))
    for index, one in games.items():
        assert one.moves[: one.opening_plies] == openings[index] and one.stones == STONES[index]
    assert movers(games[0])[:2] == [1, 0]


searching_player = searching(1)


@pytest.mark.parametrize("made", [random_player, searching_player])
def test_the_past_begins_with_the_stones(made) -> None:
    """The empty board has never been there, nor the board with some of the stones: superko doesn't know them."""
    start = handicap_start(GO7, STONES[0])
    _, history = next(replay(GO7, np.zeros((0, 1), np.int32), np.zeros(1, np.int64), start))
    assert history.lengths.tolist() == [1] and history.keys[0, 0] == GO7.keys(start)[0]
    assert GO7.keys(GO7.initial(1))[0] not in history.keys[0, :1]
    seen = []

    class Watching(Player):
        """Sees where its inner player stands."""

        def __init__(self, inner: Player) -> None:
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def set_up(self, rows, states, stones):
            self._inner.set_up(rows, states, stones)
            boards = self._inner.search if made is searching_player else self._inner._boards
            for row in rows:
                seen.append((boards.history.lengths[row], boards.history.keys[row, 0], boards.plies(rows)[0]))

        def new_games(self, rows, seeds):
            self._inner.new_games(rows, seeds)

        def advance(self, rows, actions):
            self._inner.advance(rows, actions)

        def begin(self, rows):
            self._inner.begin(rows)

        def step(self):
            return self._inner.step()

        def drop(self, rows):
            self._inner.drop(rows)

    play(handicap_pairing(0, challenger=lambda *words: Watching(made(*words))), range(3))
    wanted = [(1, GO7.keys(handicap_start(GO7, stones))[0], 0) for stones in STONES]
    assert sorted(seen) == sorted(wanted)


def test_random_games_from_stones_are_legal_move_by_move_by_the_plain_twin() -> None:
    """Small boards, on which stones are captured and positions come back: legal moves and scores at every ply."""
    rng, captured, repeated = np.random.default_rng(4), 0, 0
    for number in range(60):
        game = Go(int(rng.integers(3, 6)))
        stones = rng.choice(game.num_points, rng.integers(2, 4), replace=False).tolist()
        twin = GoReference(game.board_shape[0], 7.5, game.max_plies)
        twin.stones[BLACK] = sum(1 << point for point in stones)
        twin.history, twin.to_move = {(twin.stones[BLACK], 0)}, WHITE
        state = handicap_start(game, stones)
        history = game.initial_history(state)
        while not twin.is_over:
            assert state[0, : game.num_points].tolist() == twin.board, number
            legal = np.flatnonzero(game.legal(state, history)[0])
            assert legal.tolist() == sorted(twin.legal()), number
            empty = [point for point in range(game.num_points) if twin.board[point] == 0]
            repeated += len(set(empty) - set(legal.tolist()))
            boards = legal[legal != game.pass_action]
            action = int(rng.choice(boards)) if boards.size and rng.random() < 0.97 else game.pass_action
            before = twin.board
            twin.play(action)
            captured += sum(1 for one, other in zip(before, twin.board, strict=True) if one and not other)
            state = game.play(state, np.array([action], np.int32), history)
            history.append(np.array([0]), game.keys(state))
        assert game.is_over(state)[0] and game.scores(state)[0] == twin.score(), number
    assert captured > 1_000 and repeated > 1_000


def test_a_ko_may_be_taken_back_once_but_the_set_up_board_not_repeated() -> None:
    """On a board that was set up in the middle of a ko, the position before the capture has never been there."""
    game = parse_game("go:5")
    blacks = [game.parse_action(vertex) for vertex in ("B1", "A2", "B3")]
    whites = [game.parse_action(vertex) for vertex in ("C1", "D2", "C3", "B2")]
    capture, back = (np.array([game.parse_action(vertex)], np.int32) for vertex in ("C2", "B2"))
    state = game.position(blacks, whites, 0)
    history = game.initial_history(state)
    after = game.play(state, capture, history)
    history.append(np.array([0]), game.keys(after))
    with pytest.raises(IllegalMove, match="repeats an earlier position"):
        game.play(after, back, history)
    # the same board, set up after the capture: what was before has never been there
    begun = game.position([*blacks, int(capture[0])], [vertex for vertex in whites if vertex != back[0]], 1)
    assert game.play(begun, back, game.initial_history(begun))[0, back[0]] != 0


def test_a_player_that_cannot_begin_there_says_so() -> None:
    class Old(Player):
        new_games = advance = begin = step = None  # type: ignore[assignment]

    Old.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="Old: it begins at the initial position only"):
        Old().set_up(np.array([0]), handicap_start(GO7, STONES[0]), [STONES[0]])


@pytest.mark.parametrize(
    ("spec", "stones", "problem"),
    [
        ("go:7", [16, 16], "two stones on"),
        ("go:7", [16, 49], "no point of the board"),
        ("tictactoe", [0, 1], "no handicap stones are known"),
        ("othello:8", [0, 1], "no handicap stones are known"),
    ],
)
def test_stones_that_cannot_stand(spec: str, stones: list[int], problem: str) -> None:
    with pytest.raises(IllegalMove, match=problem):
        handicap_start(parse_game(spec), stones)


# The records


def runner_of(**options) -> MatchRunner:
    options = {"readouts": 4, "parallel_games": 8, "threads": 1, "backend": "torch", **options}
    config = MatchOptions(game="go:7", **options)
    return MatchRunner(config, GO7, Progress())


def never(writer) -> bool:
    return False


def played(folder: Path, texts: tuple[str, str], num_games: int, settled=never, **options):
    entrants = (load_entrant(texts[0], 4), load_entrant(texts[1], 4))
    runner = runner_of(**options)
    writer = runner.open(folder, entrants, num_games)
    runner.play(writer, entrants, settled)
    return read_match(folder)


ENGINE = "fake=handicap:2:gtp:" + engine_command("free")


def test_a_match_says_what_it_was_and_goes_on(tmp_path: Path) -> None:
    wanted = played(tmp_path / "whole", ("random", ENGINE), 8)
    header = wanted.header
    assert (header.handicap, header.handicap_side, header.games) == (2, 1, 8)
    assert header.openings == [[]] * 8 and header.settings["opening_plies"] == 0
    assert len({tuple(stones) for stones in header.stones}) == 7  # the engine placed them; its line has no more
    assert [game.stones for game in wanted.games] == header.stones
    assert {game.challenger_player for game in wanted.games} == {1}

    folder = tmp_path / "match"
    part = played(folder, ("random", ENGINE), 8, lambda writer: len(writer.games) >= 3, parallel_games=2)
    assert 3 <= len(part.games) < 8 and part.header.stones == header.stones
    assert played(folder, ("random", ENGINE), 8).header == part.header
    # what the fake engine plays depends on what its process played before, so only the beginnings compare
    assert [game.stones for game in read_match(folder).games] == header.stones
    lines = (folder / layout.MATCH_GAMES).read_text().splitlines()
    assert len(lines) == 9 and all('"stones":[' in line for line in lines)


def test_worker_processes_play_the_same_match(tmp_path: Path) -> None:
    texts = ("heuristic", "handicap:2:random")
    wanted = played(tmp_path / "threads", texts, 6)
    assert played(tmp_path / "workers", texts, 6, workers=2).games == wanted.games


def test_a_match_with_a_handicap_may_grow_and_its_results_are_kept(tmp_path: Path) -> None:
    entrants = (load_entrant("random", 4), load_entrant(ENGINE, 4))
    runner, folder = runner_of(), tmp_path / "match"
    for games in (4, 6):
        writer = runner.open(folder, entrants, 0)
        runner.extend(writer, entrants, (games - writer.num_games) // 2)
        runner.play(writer, entrants, lambda writer: False)
        found = read_results(folder, checked=True, keep=True)
        match = read_match(folder)
        assert found.num_games == match.num_games == len(found.games) == games
        assert [one.challenger_result for one in found.games] == [one.challenger_result for one in match.games]
        assert {one.challenger_player for one in found.games} == {1}
        assert len(match.stones) == games and [game.stones for game in match.games] == list(match.stones)
    kept = json.loads((folder / layout.MATCH_RESULTS).read_text())
    assert kept["num_more"] == 6 and read_results(folder).games == found.games
    assert len({tuple(stones) for stones in match.stones}) == 6  # those that are added are others


def test_a_handicap_match_is_another_match(tmp_path: Path) -> None:
    played(tmp_path, ("random", "x=heuristic"), 4)
    with pytest.raises(FileError, match="champion's handicap 0, now it is 2"):
        played(tmp_path, ("random", "x=handicap:2:heuristic"), 4)


def damaged(tmp_path: Path, old: str, new: str) -> FileError:
    folder = tmp_path / "match"
    played(folder, ("random", "handicap:2:random"), 4)
    path = folder / layout.MATCH_GAMES
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FileError) as caught:
        read_match(folder)
        verify_games(path, GO7, read_match(folder).games)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"version":1', '"version":2', "version 2; this program reads version 1"),
        ('"handicap":2', '"handicap":3', "stones for 4 openings; wanted 3 each for 4 of 4"),
        ('"stones":[[30,18],', '"stones":[[30],', "wanted 2 each"),
        ('"stones":[[30,18],', '"stones":[', "stones for 3 openings"),
        ('"stones":[[30,18],', '"stones":[[30,17],', "doesn't begin with the handicap stones of its opening"),
        ('"stones":[30,18]', '"stones":[30,17]', "doesn't begin with the handicap stones of its opening"),
        ('"challenger_player":1', '"challenger_player":0', "the challenger moves second, it must move first"),
        ('"games":4', '"games":8', "4 openings for 8 games"),
    ],
)
def test_damage_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert problem in str(damaged(tmp_path, old, new))


def test_stones_off_the_board_are_found_by_the_rules(tmp_path: Path) -> None:
    folder = tmp_path / "match"
    played(folder, ("random", "handicap:2:random"), 2)
    path = folder / layout.MATCH_GAMES
    path.write_text(path.read_text().replace("[30,18]", "[30,30]"))
    match = read_match(folder)
    with pytest.raises(FileError, match="two stones on C3; wanted handicap stones on free points"):
        verify_games(path, GO7, match.games)


# Commands


def test_who_may_take_a_handicap() -> None:
    entrants = [load_entrant(text, 4) for text in ("handicap:2:random", "handicap:3:heuristic")]
    with pytest.raises(UsageError, match="both take handicap stones"):
        runner_of().open(Path("nowhere"), tuple(entrants), 2)
    with pytest.raises(UsageError, match="tictactoe knows no handicap stones"):
        common_game("tictactoe", entrants[:1])
    with pytest.raises(UsageError, match="5 handicap stones on 7×7; wanted 2 to 4"):
        common_game("go:7", [load_entrant("handicap:5:random", 4)])
    with pytest.raises(UsageError, match="members meet in even games"):
        make_member("handicap:2:random")


def test_openings_of_a_file_are_for_even_games(tmp_path: Path) -> None:
    path = tmp_path / "openings.json"
    path.write_text(json.dumps({
        "format": "mugo-openings", "version": 1, "game": "go:7", "origin": {}, "openings": [["C3"], ["D4"]],
    }))  # fmt: skip
    with pytest.raises(UsageError, match="--openings: random-h2 takes handicap stones"):
        played(tmp_path / "match", ("random", "handicap:2:random"), 4, openings=path)


def test_models_sample_openings_after_the_stones_if_they_are_asked_to(tmp_path: Path) -> None:
    model = make_champion(tmp_path / "saved_models", spec="go:7", size="b1c8")
    match = played(tmp_path / "match", (f"a={model}", f"b=handicap:2:{model}"), 4, opening_plies=3)
    assert [len(opening) for opening in match.header.openings] == [3] * 4
    assert match.header.stones == [[30, 18]] * 4  # of a model: GTP's table
    verify_games("here", GO7, match.games)
    assert {player.rated_as for player in match.header.players} == {"a@4", "b@4-h2"}


def test_evaluate_plays_on_and_promotes_nobody(tmp_path: Path) -> None:
    model = make_champion(tmp_path / "saved_models", spec="go:7", size="b1c8")
    options = {"games": 4, "readouts": 4, "output_dir": tmp_path / "evaluate", "backend": "torch", "threads": 1}
    champion = f"handicap:3:{tmp_path}/saved_models/best_model"
    config = EvaluateConfig(white_model=f"again={model}", black_model=champion, **options)
    summary = evaluate(config)
    assert summary.games_played == 4 and not summary.promoted and summary.champion == f"{model.name}-h3"
    assert summary.moving_first.games == 4 and summary.moving_second.games == 0
    match = read_match(Path(summary.match))
    text = "\n".join(show(Path(summary.match)))
    assert f"3 stones for {model.name}-h3, who is black in every game; white moves first" in text
    assert "(C3 E5 C5)" in text
    for (name, record), one in zip(records_of(Path(summary.match)), match.games, strict=True):
        assert "HA[3]" in record and "PL[W]" in record and "RU[NZ]" in record, name
        assert (Path(summary.match) / layout.MATCH_SGF / f"{one.index:06d}.sgf").exists()
        found = read_sgf(record.encode(), GO7)
        assert np.array_equal(found.start, handicap_start(GO7, one.stones))
        assert [action for _, action in found.moves] == one.moves and found.moves[0][0] == 1
    passing = EvaluateConfig(
        white_model=f"again={model}", black_model=champion, **{**options, "output_dir": tmp_path / "b"}, threshold=0.0
    )
    assert "took handicap stones" in evaluate(passing).reason


def test_move_names_after_stones() -> None:
    assert move_names(GO7, [0, 1], [16, 32]) == ["A7", "B7"]
    assert move_names(GO7, [0, 99], [16, 32]) == ["A7", "#99"]


def test_a_tournament_rates_a_player_with_stones_as_another(tmp_path: Path) -> None:
    config = TournamentConfig(
        player=["random", "handicap:2:random", "heuristic"], place="heuristic", game="go:7", games=8, threads=1,
        matchmaking="round-robin", pairs_per_round=1, output_dir=tmp_path / "tournament",
    )  # fmt: skip
    summary = tournament(config)
    assert {one.name for one in summary.rows} == {"random", "random-h2", "heuristic"}
    again = tournament(config.model_copy(update={"games": 12}))
    assert sum(one.games for one in again.rows) == 24
    folders = sorted(path.name for path in (tmp_path / "tournament").iterdir() if path.is_dir())
    assert "heuristic-vs-random-h2" in folders or "random-h2-vs-heuristic" in folders


# Scores


@NEEDS_GNUGO
def test_gnugo_counts_as_we_do_though_it_gives_white_points_for_the_stones() -> None:
    """Its final score after a whole game with stones that it placed is ours, where nothing is left to judge."""
    game = parse_game("go:9,moves=480")
    folder_players = (load_entrant("heuristic", 4), load_entrant(f"g=handicap:4:gtp:{GNUGO_COMMAND}", 4))
    runner = MatchRunner(MatchOptions(game=game.spec, threads=1), game, Progress())
    openings, stones = runner._openings(folder_players, 3)
    assert len({frozenset(points) for points in stones}) == 3
    pairing = runner._factory_for(1, 16).pairing(game, folder_players, openings, stones)
    games = play(pairing, range(3), rows=3)
    engine = GtpEngine(GNUGO_COMMAND, "gnugo", 60.0)
    compared = 0
    try:
        engine.handshake()
        bonus = white_bonus(engine, game, stones[0], 60.0)
        assert bonus == 4  # by Chinese rules, as it understands them
        for one in games.values():
            *_, last = replay_one(game, one.moves, one.stones)
            if one.end != "played_out" or (game.ownership(last)[0] == 0).any():
                continue
            set_up_stones(engine, game, one.stones, 1, 60.0, bonus)
            for ply, action in enumerate(one.moves):
                engine.send(f"play {('white', 'black')[ply % 2]} {game.action_name(action)}")
            margin = float(game.scores(last)[0])
            assert engine.send("final_score") == f"{'B' if margin > 0 else 'W'}+{abs(margin):.1f}"
            compared += 1
    finally:
        engine.close()
    assert compared, "no game ended with nothing to judge"
