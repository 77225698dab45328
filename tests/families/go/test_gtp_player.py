"""The player made of GTP engines: what it tells them, what it makes of their answers, and that nothing is left."""

from __future__ import annotations

import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UsageError
from pipeline.families.go import gtp_client as gtp
from pipeline.families.go.game import Go
from pipeline.families.go.gtp_client import GtpEngine
from pipeline.families.go.gtp_player import GtpPlayer
from pipeline.families.go.player_kind import GtpKind
from pipeline.games.contract import Game
from pipeline.games.replay import handicap_start
from pipeline.games.specs import parse_game
from pipeline.players import engine_process as pipes
from pipeline.players.player import RESIGN, Boards, Decisions, PlayerFault
from tests.players.scripted_engine import engine_command, is_alive, open_files, wait_until_gone

GNUGO = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")
GNUGO_COMMAND = f"{GNUGO} --mode gtp --level 1 --chinese-rules --capture-all-dead --positional-superko"
NEEDS_GNUGO = pytest.mark.skipif(GNUGO is None, reason="GNU Go is not installed (Debian: apt install gnugo)")

LONG = 60.0  # seconds: never reached
GREETING = ["protocol_version", "list_commands"]
FRESH_BOARD = ["boardsize 5", "clear_board", "komi 7.5"]

MakeEngines = Callable[..., GtpPlayer]


@pytest.fixture
def go5() -> Go:
    game = parse_game("go:5")
    assert isinstance(game, Go)
    return game


@pytest.fixture
def make_player(go5: Go, tmp_path: Path) -> Iterator[MakeEngines]:
    """(mode, further arguments of the scripted engine, num_rows, seconds) → a player that is closed in the end."""
    made = []

    def make(*arguments: str, num_rows: int = 1, seconds: float = LONG) -> GtpPlayer:
        command = engine_command(*arguments, "--log", str(tmp_path / "log"))
        player = GtpPlayer(go5, num_rows, command, "fake", seconds)
        player.new_games(np.arange(num_rows), np.arange(num_rows, dtype=np.uint64))
        made.append(player)
        return player

    yield make
    for player in made:
        player.close()


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def decided(player: GtpPlayer, num_wanted: int) -> tuple[dict[int, int], dict[int, PlayerFault]]:
    """Step until so many rows are decided or faulty; then nothing more may be there. -> actions, faults by row."""
    actions: dict[int, int] = {}
    faults: dict[int, PlayerFault] = {}
    deadline = time.monotonic() + 60
    while len(actions) + len(faults) < num_wanted:
        assert time.monotonic() < deadline, "no decision came"
        found = player.step()
        assert not set(found.rows.tolist()) & set(actions), "decided twice"
        assert np.isnan(found.values).all()
        assert found.worked == bool(len(found.rows) or found.faults)
        actions.update(zip(found.rows.tolist(), found.actions.tolist(), strict=True))
        faults.update(found.faults)
        if not found.worked:
            player.wait(0.05)
    assert len(player.step().rows) == 0
    return actions, faults


def move(player: GtpPlayer, row: int = 0) -> int:
    """The player's move there, which is also played."""
    player.begin(rows(row))
    actions, faults = decided(player, 1)
    assert not faults, faults
    player.advance(rows(row), np.array([actions[row]]))
    return actions[row]


def fault(player: GtpPlayer, row: int = 0) -> PlayerFault:
    player.begin(rows(row))
    _, faults = decided(player, 1)
    assert list(faults) == [row]
    assert "\n" not in str(faults[row])
    return faults[row]


def told(tmp_path: Path) -> list[list[str]]:
    """Per process, in the order in which they started: what it was told, without the numbers."""
    lines: dict[str, list[str]] = defaultdict(list)
    for line in (tmp_path / "log").read_text().splitlines():
        pid, _, command = line.split(" ", 2)
        lines[pid].append(command)
    return list(lines.values())


def processes(tmp_path: Path) -> list[int]:
    """The numbers of the processes in the order in which they were first asked."""
    return list(dict.fromkeys(int(line.split()[0]) for line in (tmp_path / "log").read_text().splitlines()))


def test_only_go_is_spoken() -> None:
    with pytest.raises(UsageError, match="GTP engines play Go only; the game is tictactoe"):
        GtpKind().check_game(parse_game("tictactoe"), "gtp:x", engine_command("play"))


def test_a_missing_program_is_noticed_before_anything_starts(go5: Go) -> None:
    with pytest.raises(UsageError, match="no program 'gnuog'"):
        GtpKind().check_game(go5, "gtp:gnuog", "gnuog --mode gtp")


def test_processes_start_when_a_row_must_move(make_player: MakeEngines, tmp_path: Path) -> None:
    player = make_player("play", num_rows=3)
    player.begin(rows(2))
    decided(player, 1)
    assert len(processes(tmp_path)) == 1
    player.begin(rows(0, 1))
    decided(player, 2)
    assert len(processes(tmp_path)) == 3


def test_an_engine_is_told_every_move_once_and_its_own_never(make_player: MakeEngines, go5: Go, tmp_path: Path) -> None:
    player = make_player("play")
    player.advance(rows(0), np.array([go5.parse_action("C3")]))
    first = move(player)
    player.advance(rows(0), np.array([go5.pass_action]))
    second = move(player)
    assert first != second
    assert told(tmp_path) == [
        [*GREETING, *FRESH_BOARD, "play black C3", "genmove white", "play black pass", "genmove white"]
    ]


def test_the_next_game_has_the_same_process_and_a_fresh_board(
    make_player: MakeEngines, go5: Go, tmp_path: Path
) -> None:
    player = make_player("seeded")
    first = go5.action_name(move(player))
    player.advance(rows(0), np.array([go5.pass_action]))
    player.new_games(rows(0), np.array([2**31 + 7], np.uint64))
    move(player)
    player.new_games(rows(0), np.array([9], np.uint64))
    player.advance(rows(0), np.array([go5.parse_action(first)]))  # as if it went on from the first game
    move(player)
    assert told(tmp_path) == [
        [
            *GREETING,
            *(*FRESH_BOARD, "set_random_seed 0", "genmove black"),
            *(*FRESH_BOARD, "set_random_seed 7", "genmove black"),
            *(*FRESH_BOARD, "set_random_seed 9", f"play black {first}", "genmove white"),
        ]
    ]


def test_a_game_begun_elsewhere_is_told_from_the_start(make_player: MakeEngines, go5: Go, tmp_path: Path) -> None:
    """Another move than its own was played while it thought, so its own board is wrong."""
    player = make_player("play")
    player.begin(rows(0))
    while not (tmp_path / "log").exists() or "genmove" not in (tmp_path / "log").read_text():
        time.sleep(0.01)
    player.advance(rows(0), np.array([go5.pass_action]))
    player.begin(rows(0))
    decided(player, 1)
    commands = told(tmp_path)[0]
    assert commands[: len(GREETING) + 3] == [*GREETING, *FRESH_BOARD]
    assert commands[-5:] == [*FRESH_BOARD, "play black pass", "genmove white"]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("free", ["set_free_handicap B2 D4"]), ("play", ["play black B2", "play black D4"])],
)
def test_handicap_stones_come_first_and_white_begins(
    make_player: MakeEngines, go5: Go, tmp_path: Path, mode: str, wanted: list[str]
) -> None:
    player = make_player(mode)
    stones = [go5.parse_action(vertex) for vertex in ("B2", "D4")]
    player.set_up(rows(0), handicap_start(go5, stones), [stones])
    player.advance(rows(0), np.array([go5.parse_action("C3")]))  # white's
    move(player)
    player.advance(rows(0), np.array([go5.pass_action]))
    move(player)
    commands = told(tmp_path)[0]
    assert commands[len(GREETING) :] == [
        *FRESH_BOARD, *wanted, "play white C3", "genmove black", "play white pass", "genmove black",
    ]  # fmt: skip

    player.new_games(rows(0), np.array([5], np.uint64))  # the next game is even
    move(player)
    assert told(tmp_path)[0][-4:] == [*FRESH_BOARD, "genmove black"]


def test_points_that_an_engine_gives_for_stones_are_taken_from_the_komi(
    make_player: MakeEngines, go5: Go, tmp_path: Path
) -> None:
    """Found out once, on a board that is all black; each game then has the lower komi, and even ones the whole."""
    player = make_player("bonus", num_rows=2)
    for row, stones in enumerate(([6, 18], [8, 16])):
        player.set_up(rows(row), handicap_start(go5, stones), [stones])
        player.advance(rows(row), np.array([go5.pass_action]))
        assert move(player, row) not in stones
    first, second = told(tmp_path)
    assert [line for line in first if line.startswith("komi")] == ["komi 7.5", "komi 5.5"]
    assert first.count("final_score") == 1 and first.count("play white pass") == 25 - 4 + 1
    assert [line for line in first if line.startswith("play black")][:2] == ["play black B5", "play black D5"]
    assert "final_score" not in second and [line for line in second if line.startswith("komi")] == ["komi 5.5"]
    player.new_games(rows(0), np.array([5], np.uint64))
    move(player)
    assert [line for line in told(tmp_path)[0] if line.startswith("komi")][-1] == "komi 7.5"


def test_an_engine_with_other_rules_is_found_out(make_player: MakeEngines, go5: Go) -> None:
    player = make_player("territory")
    player.set_up(rows(0), handicap_start(go5, [6, 18]), [[6, 18]])
    found = fault(player)
    assert found.kind == "protocol"
    assert "counts +5.5 for black, with 2 handicap stones and komi 7.5" in str(found)


@pytest.mark.parametrize(
    ("answer", "score"), [("B+3.5", 3.5), ("W+0.5", -0.5), ("0", 0.0), ("w+12", -12.0), (" Jigo ", 0.0)]
)
def test_scores(answer: str, score: float) -> None:
    assert gtp.parse_score("fake", answer) == score


@pytest.mark.parametrize("answer", ["", "B", "B+", "B+x", "3.5", "B+3.5 W+1", "B+1e9", "B+R"])
def test_what_is_no_score(answer: str) -> None:
    with pytest.raises(PlayerFault, match="answered final_score with"):
        gtp.parse_score("fake", answer)


def test_an_engine_may_have_white_against_handicap_stones(make_player: MakeEngines, go5: Go, tmp_path: Path) -> None:
    player = make_player("free")
    stones = [go5.parse_action(vertex) for vertex in ("B2", "D4")]
    player.set_up(rows(0), handicap_start(go5, stones), [stones])
    assert move(player) not in stones
    assert told(tmp_path)[0][-2:] == ["set_free_handicap B2 D4", "genmove white"]


def test_rows_play_their_own_games(make_player: MakeEngines, go5: Go) -> None:
    """Three rows, both sides' moves by the engines, to the end of the game; no row disturbs another."""
    player = make_player("play", num_rows=3)
    boards = Boards(go5, 3)
    going = rows(0, 1, 2)
    for _ in range(12):
        player.begin(going)
        actions, faults = decided(player, len(going))
        assert not faults
        moves = np.array([actions[row] for row in going.tolist()])
        boards.advance(going, moves)  # raises IllegalMove if a row's move came from another game
        player.advance(going, moves)
        going = going[~boards.over(going)]


def test_step_and_wait_never_block(make_player: MakeEngines) -> None:
    player = make_player("hang")
    player.wait(0.01)
    assert_nothing(player.step())
    player.begin(rows(0))
    assert_nothing(player.step())
    player.wait(0.01)
    assert_nothing(player.step())


def assert_nothing(decisions: Decisions) -> None:
    assert (len(decisions.rows), decisions.faults, decisions.worked) == (0, {}, False)


def test_resignation(make_player: MakeEngines) -> None:
    player = make_player("resign")
    player.begin(rows(0))
    assert decided(player, 1) == ({0: RESIGN}, {})


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("die", "broken", "ended with status 3 while it was asked 'genmove white'; its standard error ends with"),
        ("signal", "broken", "was ended by SIGSEGV"),
        ("hang", "broken", "gave no answer to 'genmove white' within 2 s"),
        ("garbage", "protocol", "wanted a line that begins with = or ?"),
        ("wrong-id", "protocol", "answered 'genmove white', number 9, with '=8 "),
        ("no-vertex", "protocol", "answered genmove with 'Z99'; wanted a vertex of go:5, pass or resign"),
        ("refuse-genmove", "refusal", "refused 'genmove white': 'no idea'"),
        ("occupied", "illegal", "at ply 3, which go:5 forbids: the point is occupied"),
    ],
)
def test_a_fault_ends_the_process_and_the_next_game_gets_a_fresh_one(
    make_player: MakeEngines, go5: Go, tmp_path: Path, mode: str, kind: str, words: str
) -> None:
    player = make_player(mode, "--at", "2", num_rows=2, seconds=2.0 if mode == "hang" else LONG)
    for row in (0, 1):
        player.advance(rows(row), np.array([go5.pass_action]))
        move(player, row)
    player.advance(rows(0), np.array([go5.pass_action]))
    found = fault(player)
    assert (found.kind, found.player) == (kind, "fake")
    assert words in str(found)
    broken, healthy = processes(tmp_path)
    wait_until_gone(broken)
    assert is_alive(healthy)
    player.new_games(rows(0), np.array([5], np.uint64))
    assert 0 <= move(player) < go5.num_actions
    assert len(processes(tmp_path)) == 3


def test_a_refusal_of_our_move_and_of_the_board(make_player: MakeEngines, go5: Go) -> None:
    player = make_player("refuse-play")
    player.advance(rows(0), np.array([go5.parse_action("B2")]))
    found = fault(player)
    assert (found.kind, str(found)) == ("refusal", "fake: refused 'play black B2': 'illegal move'")
    game = parse_game("go:7")
    small = GtpPlayer(game, 1, engine_command("small"), "fake", LONG)
    small.new_games(rows(0), np.zeros(1, np.uint64))
    found = fault(small)
    small.close()
    assert (found.kind, "refused 'boardsize 7': 'unacceptable size'" in str(found)) == ("refusal", True)


def test_an_engine_that_cannot_play(make_player: MakeEngines) -> None:
    found = fault(make_player("poor"))
    assert (found.kind, "doesn't know komi, genmove" in str(found)) == ("protocol", True)


def test_a_failure_of_ours_is_a_fault_and_the_thread_goes_on(
    make_player: MakeEngines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    player = make_player("play")
    with monkeypatch.context() as patch:
        patch.setattr(player, "_bring_up_to_date", lambda *_: {}["bug"])
        found = fault(player)
    assert (found.kind, str(found)) == ("crash", "fake: KeyError: 'bug'")
    player.new_games(rows(0), np.zeros(1, np.uint64))
    move(player)
    assert len(processes(tmp_path)) == 2


def test_the_move_of_a_game_that_was_given_up_is_not_seen(make_player: MakeEngines, go5: Go, tmp_path: Path) -> None:
    """Its answer comes when the row's second game is already being played."""
    player = make_player("slow", num_rows=2)
    player.begin(rows(0))
    player.begin(rows(1))  # stands in the queue behind the slow one
    player.new_games(rows(0, 1), np.zeros(2, np.uint64))
    player.advance(rows(0), np.array([go5.parse_action("C3")]))
    player.begin(rows(0))
    actions, faults = decided(player, 1)
    assert (list(actions), faults) == ([0], {})
    assert told(tmp_path)[0][-2:] == ["play black C3", "genmove white"]
    assert len(told(tmp_path)) == 1, "what was dropped before it was asked is never asked"
    player.drop(rows(0))
    assert_nothing(player.step())


def test_close_asks_idle_engines_to_quit(make_player: MakeEngines, tmp_path: Path) -> None:
    player = make_player("play", num_rows=2)
    for row in (0, 1):
        move(player, row)
    player.close()
    assert [commands[-1] for commands in told(tmp_path)] == ["quit", "quit"]
    assert not any(is_alive(pid) for pid in processes(tmp_path))


def test_close_while_an_engine_hangs(make_player: MakeEngines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.3)
    make_player("play").close()  # whatever is opened once and kept is open now
    files, threads = open_files(), threading.active_count()
    (tmp_path / "log").unlink(missing_ok=True)
    player = make_player("stubborn", "--at", "2", num_rows=3)
    played = [move(player, row) for row in (0, 1, 2)]
    player.advance(rows(1), np.array([(played[1] + 1) % 25]))  # any point that is empty
    player.begin(rows(1))
    while sum(command.startswith("genmove") for commands in told(tmp_path) for command in commands) < 4:
        time.sleep(0.01)
    player.begin(rows(2))
    running = processes(tmp_path)
    assert [is_alive(pid) for pid in running] == [True] * 3
    player.close()
    assert [is_alive(pid) for pid in running] == [False] * 3
    assert (open_files(), threading.active_count()) == (files, threads)


def test_close_while_an_engine_starts(make_player: MakeEngines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.3)
    threads = threading.active_count()
    player = make_player("deaf")
    player.begin(rows(0))
    while player._asked is None:
        time.sleep(0.01)
    pid = player._asked.pid
    player.close()
    assert not is_alive(pid)
    assert threading.active_count() == threads


class EyeKeeper:
    """Random moves, but none into an own one-point eye; passes if nothing else is left."""

    def __init__(self, game: Go, seed: int) -> None:
        self.game = game
        self.seed = seed

    def __call__(self, boards: Boards, row: int) -> int:
        size, own = self.game.size, int(boards.to_move(rows(row))[0]) + 1
        stones = np.full((size + 2, size + 2), own)  # the edge is like own stones
        stones[1:-1, 1:-1] = boards.states[row, : self.game.num_points].reshape(size, size)
        mine = stones == own
        eyes = mine[:-2, 1:-1] & mine[2:, 1:-1] & mine[1:-1, :-2] & mine[1:-1, 2:]
        useful = np.flatnonzero(boards.legal(rows(row))[0, :-1] & ~eyes.ravel())
        # From the row and the ply alone: in which order the engines answer must not matter.
        rng = np.random.default_rng([self.seed, row, int(self.game.plies(boards.states[rows(row)])[0])])
        return int(rng.choice(useful)) if useful.size else self.game.pass_action


def play_gnugo(game: Game, num_rows: int, seed: int) -> tuple[list[list[int]], Boards]:
    """GNU Go has black in even rows; all rows are played at once to the end. -> the games' moves, the last positions.

    Boards.advance checks every move by our rules, GNU Go every move of ours by its own: a refusal would be a fault.
    """
    assert isinstance(game, Go)
    player = GtpPlayer(game, num_rows, GNUGO_COMMAND, "gnugo", LONG)
    opponent = EyeKeeper(game, seed)
    boards = Boards(game, num_rows)
    games: list[list[int]] = [[] for _ in range(num_rows)]
    player.new_games(np.arange(num_rows), np.arange(num_rows, dtype=np.uint64) + np.uint64(seed))
    thinking: set[int] = set()
    try:
        while not boards.over(np.arange(num_rows)).all():
            for row in np.flatnonzero(~boards.over(np.arange(num_rows))).tolist():
                if boards.to_move(rows(row))[0] == row % 2 and row not in thinking:
                    player.begin(rows(row))
                    thinking.add(row)
            chosen = {
                row: opponent(boards, row)
                for row in range(num_rows)
                if row not in thinking and not boards.over(rows(row))[0]
            }
            if not chosen:
                player.wait(10.0)
                found = player.step()
                assert not found.faults, found.faults
                chosen = dict(zip(found.rows.tolist(), found.actions.tolist(), strict=True))
                thinking -= set(chosen)
            for row, action in chosen.items():
                assert action != RESIGN
                boards.advance(rows(row), np.array([action]))
                player.advance(rows(row), np.array([action]))
                games[row].append(action)
    finally:
        player.close()
    return games, boards


@NEEDS_GNUGO
def test_gnugo_plays_several_games_at_once_and_agrees_on_the_result() -> None:
    """Every move of either side is legal by both rules to the end; who has won is compared where it can be.

    Compared are games that ended by two passes: GNU Go has then captured everything dead, and its opponent has nothing
    left to play but its own eyes. Where the two count differently all the same (neutral points: GNU Go may judge a seki
    otherwise), the game is left out.
    """
    game = parse_game("go:9,moves=480")
    assert isinstance(game, Go)
    games, boards = play_gnugo(game, num_rows=4, seed=3)
    num_compared = 0
    engine = GtpEngine(GNUGO_COMMAND, "gnugo", LONG)
    try:
        engine.handshake()
        for row, moves in enumerate(games):
            if moves[-2:] != [game.pass_action] * 2 or (game.ownership(boards.states[[row]])[0] == 0).any():
                continue
            for command in ("boardsize 9", "clear_board", f"komi {game.komi:g}"):
                engine.send(command)
            for ply, action in enumerate(moves):
                engine.send(f"play {('black', 'white')[ply % 2]} {game.action_name(action)}")
            theirs = engine.send("final_score")
            ours = float(boards.returns(rows(row))[0])
            assert theirs[0] == ("B" if ours > 0 else "W"), f"{theirs}\n{game.diagram(boards.states[row])}"
            num_compared += 1
    finally:
        engine.close()
    assert num_compared >= 2, f"only {num_compared} games ended with nothing to judge"


@NEEDS_GNUGO
def test_gnugo_repeats_its_games() -> None:
    """The same seeds give the same games."""
    game = parse_game("go:5")
    assert play_gnugo(game, 2, seed=8)[0] == play_gnugo(game, 2, seed=8)[0]
