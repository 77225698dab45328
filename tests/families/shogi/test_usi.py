"""The engine's side of USI: a scripted manager, cshogi's own client, and clocks."""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.families.shogi.usi import Usi, _parsed, centipawns
from pipeline.games.specs import parse_game
from pipeline.play import session as session_module
from pipeline.play.command_lines import CommandLines
from pipeline.play.config import EngineConfig
from pipeline.play.engine import engine
from pipeline.play.session import SearchSession
from tests.games.playing import NO_HISTORY
from tests.helpers import make_model

GAME = parse_game("shogi:5").without_move_limit()
MATE_IN_ONE = "4k/5/4P/5/K4 b G 1"  # the gold is dropped before the pawn
NO_HURRY = 120.0
ROOT = Path(__file__).parents[3]


def uniform(planes):
    return np.zeros((len(planes), GAME.num_actions), np.float32), np.zeros(len(planes), np.float32)


def usi_of(session: SearchSession, **options) -> Usi:
    return Usi(session.game, session.readouts, session.room(), lambda: session, **options)


def with_reply(move: str) -> str:
    """This first move and a legal reply."""
    begin = GAME.initial(1)
    state = GAME.play(begin, np.array([GAME.parse_move(begin[0], move)]), NO_HISTORY)
    return " ".join([move, *GAME.line_names(state, np.flatnonzero(GAME.legal(state, NO_HISTORY)[0]).tolist()[:1])])


class Manager:
    """Sends lines to an engine in a thread and reads its answers as they come."""

    def __init__(self, readouts: int = 16, evaluate=uniform, **options) -> None:
        self.session = SearchSession(GAME, evaluate, EngineConfig().search_options(), readouts)
        self.session.warm_up()
        read, write = os.pipe()
        self._typed, self.said, self._came = os.fdopen(write, "w"), [], threading.Condition()
        self._commands = os.fdopen(read)
        lines = CommandLines(self._commands, 65_536)
        self._thread = threading.Thread(target=usi_of(self.session, **options).run, args=(lines, self._take))
        self._thread.start()

    def _take(self, text: str) -> None:
        with self._came:
            self.said += text.splitlines()
            self._came.notify_all()

    def send(self, *lines: str) -> None:
        self._typed.write("".join(line + "\n" for line in lines))
        self._typed.flush()

    def until(self, begin: str) -> list[str]:
        """All lines up to the next one that begins with this."""
        with self._came:
            assert self._came.wait_for(lambda: any(line.startswith(begin) for line in self.said), NO_HURRY), self.said
            end = next(i for i, line in enumerate(self.said) if line.startswith(begin)) + 1
            taken, self.said = self.said[:end], self.said[end:]
            return taken

    def ask(self, *lines: str, until: str = "bestmove") -> list[str]:
        self.send(*lines)
        return self.until(until)

    def close(self) -> None:
        self._typed.close()
        self._thread.join(NO_HURRY)
        assert not self._thread.is_alive()
        self._commands.close()


@pytest.fixture
def manager():
    made = Manager()
    yield made
    made.close()


def test_the_sequence_of_a_manager(manager):
    """As ShogiGUI begins: usi, options that every engine must accept, isready, usinewgame, a position, a move."""
    options = manager.ask("usi", until="usiok")
    assert options[0].startswith("id name MuGo") and options[1].startswith("id author")
    known = ["USI_Ponder", "USI_Hash", "Readouts", "MultiPV", "USI_Variant"]
    assert [line.split()[2] for line in options[2:-1]] == known
    manager.send("setoption name USI_Ponder value true", "setoption name USI_Hash value 256")
    assert manager.ask("isready", until="readyok") == ["readyok"]
    *reports, best = manager.ask("usinewgame", "position startpos", "go btime 600000 wtime 600000 byoyomi 100")
    found = re.fullmatch(
        r"info depth (\d+) score cp (-?\d+) nodes (\d+) nps (\d+) time (\d+) pv ((?:\S+ ?)+)", reports[-1]
    )
    assert found and len(found[6].split()) == int(found[1])
    move = best.split()[1]
    assert found[6].split()[0] == move and best.split()[2] == "ponder"
    legal = np.flatnonzero(GAME.legal(GAME.initial(1), GAME.initial_history(GAME.initial(1)))[0])
    assert GAME.parse_move(GAME.initial(1)[0], move) in legal
    manager.send("gameover win", "quit")


def test_a_position_that_goes_on_keeps_its_tree(manager):
    first = manager.ask("position startpos", "go nodes 200")[-1].split()
    assert first[2] == "ponder"
    manager.send(f"position startpos moves {first[1]} {first[3]}", "isready")
    manager.until("readyok")
    kept = sum(candidate.visits for candidate in manager.session.candidates())
    assert kept > 0
    report = manager.ask("go nodes 10")[-2]
    assert int(report.split(" nodes ")[1].split()[0]) == kept + 10
    manager.ask(f"position startpos moves {first[1]}", "isready", until="readyok")  # taken back
    assert manager.session.moves == [GAME.parse_move(GAME.initial(1)[0], first[1])]
    assert not manager.session.candidates()


def test_moves_are_the_boards_whoever_moves(manager):
    """The second player's moves are written from the first player's side, as SFEN's board is."""
    manager.ask("position startpos moves 5d5c", "isready", until="readyok")
    assert GAME.sfen(manager.session.state[0]) == "rbsgk/4p/P4/5/KGSBR w - 2"
    best = manager.ask("position sfen rbsgk/4p/5/P4/KGSBR w - 1", "go nodes 30")[-1].split()[1]
    assert best[1] in "ab", "a move of one of the pieces in the two upper rows"


def test_several_lines(manager):
    manager.send("setoption name MultiPV value 3")
    reports = manager.ask("position startpos", "go nodes 64")[:-1]
    assert [line.split(" multipv ")[1].split()[0] for line in reports[-3:]] == ["1", "2", "3"]
    assert len({line.split(" pv ")[1].split()[0] for line in reports[-3:]}) == 3


def test_a_mate_is_found_by_search_and_by_go_mate(manager):
    best = manager.ask(f"position sfen {MATE_IN_ONE}", "go nodes 200")
    assert best[-2].startswith("info depth 1 score cp 9999 ")  # G*1b, or a move that leaves no move
    assert manager.ask("go mate 60000", until="checkmate") == ["checkmate G*1b"]
    assert manager.ask("position startpos", "go mate infinite", until="checkmate") == ["checkmate nomate"]
    assert manager.ask("go mate 0", until="checkmate")[0] in ("checkmate nomate", "checkmate timeout")


def test_who_has_no_move_resigns_and_who_may_declare_has_won():
    lost = usi_of(SearchSession(GAME, uniform, EngineConfig().search_options(), 4))
    written = io.StringIO()
    lost.run(CommandLines(io.StringIO("position sfen 4k/4G/4P/5/K4 w - 1\ngo nodes 10\n"), 4096), written.write)
    assert written.getvalue().splitlines()[-1] == "bestmove resign"
    shogi = parse_game("shogi")
    entered = "1K+R+R+B+B3/GGGGSSSS1/NN7/9/9/9/9/4k4/9 b 2N4L18P 1"

    def network(planes):
        return np.zeros((len(planes), shogi.num_actions), np.float32), np.zeros(len(planes), np.float32)

    won, written = usi_of(SearchSession(shogi, network, EngineConfig().search_options(), 4)), io.StringIO()
    won.run(CommandLines(io.StringIO(f"position sfen {entered}\ngo nodes 10\n"), 4096), written.write)
    assert written.getvalue().splitlines()[-1] == "bestmove win"


ENTERED = "1K+R+R+B+B3/GGGGSSSS1/NN7/9/9/9/9/4k4/9 b 2N4L18P 1"
BOTH_ENTER = "1+P+P+P+P+P+P2/1+P+P+S+S4/9/K8/9/9/9/4+p+p+s+sk/2+p+p+p+p+p+p1 b RB4Lrb4g4n2p 1"
REPEATED = " ".join(["2e3d 4a3b 3d2e 3b4a"] * 3)


def piped_shogi(*script: str, spec: str = "shogi") -> list[str]:
    game, written = parse_game(spec).without_move_limit(), io.StringIO()

    def network(planes):
        return np.zeros((len(planes), game.num_actions), np.float32), np.zeros(len(planes), np.float32)

    usi = usi_of(SearchSession(game, network, EngineConfig().search_options(), 4))
    usi.run(CommandLines(io.StringIO("".join(f"{line}\n" for line in script)), 4096), written.write)
    return written.getvalue().splitlines()


def test_a_game_goes_on_behind_a_declaration_that_nobody_made():
    """If the opponent could declare and plays on, each answer is a move in the position that was sent."""
    goes_on = f"position sfen {ENTERED} moves 8a9a 5h5g 9a8a"
    *_, best = piped_shogi(goes_on, "go nodes 10")
    game = parse_game("shogi,declaration=off")
    state = game.from_sfen("1K+R+R+B+B3/GGGGSSSS1/NN7/9/9/9/4k4/9/9 w 2N4L18P 4")
    legal = game.legal(state, game.initial_history(state))[0]
    assert legal[game.parse_move(state[0], best.split()[1])]
    said = piped_shogi(goes_on, "go nodes 10", f"{goes_on} 5g5f", "go nodes 10")
    assert said[-1] == "bestmove win" and not any("info string" in line for line in said)


@pytest.mark.parametrize(("spec", "position"), [
    ("shogi:5", f"startpos moves {REPEATED}"),
    ("shogi,declaration=24", f"sfen {BOTH_ENTER} moves 9d9c"),
])  # fmt: skip
def test_a_draw_is_neither_resigned_nor_declared(spec, position):
    best = piped_shogi(f"position {position}", "go nodes 10", spec=spec)[-1].split()
    assert best[0] == "bestmove" and best[1] not in ("resign", "win")


def test_behind_a_position_that_is_refused_no_other_is_searched():
    said = piped("position startpos", "go nodes 5", "position startpos moves 1a1b", "go nodes 5", "go mate 0",
                 "position startpos", "go nodes 5")  # fmt: skip
    refused = next(i for i, line in enumerate(said) if "position: move 1 1a1b" in line)
    assert said[refused + 1 : refused + 3] == ["bestmove resign", "checkmate timeout"]
    assert said[-1].split()[1] not in ("resign", "win")


def test_pondering_ends_with_a_hit_or_with_stop(manager):
    manager.send("position startpos", "go ponder btime 0 wtime 0 byoyomi 300")
    time.sleep(0.8)
    assert not any(line.startswith("bestmove") for line in manager.said)
    started = time.monotonic()
    manager.ask("ponderhit")
    assert 0.05 < time.monotonic() - started < NO_HURRY
    manager.ask("position startpos moves 5d5c", "go ponder btime 1000 wtime 1000", "stop")
    manager.ask("go infinite", "stop")


def test_lines_behind_a_search_without_end_wait_for_it_too(manager):
    """ShogiHome once sent options during an analysis; other managers forget stop."""
    manager.send("position startpos", "go infinite", "setoption name MultiPV value 2", "position startpos moves 5d5c")
    assert manager.ask("isready", until="readyok")[-1] == "readyok"
    manager.ask("stop")
    said = manager.ask("go nodes 4")
    assert any("multipv 2" in line for line in said) and manager.session.moves, "the last position counts"


def test_a_go_ends_a_search_without_end(manager):
    manager.send("position startpos", "go infinite", "position startpos moves 5d5c", "go nodes 4", "isready")
    said = manager.until("readyok") + manager.ask("isready", until="readyok")
    said += manager.until("bestmove") if ends_of_searches(said) < 2 else []
    assert ends_of_searches(said) == 2


def test_ponderhit_brings_the_time(manager):
    """ShogiHome and YaneuraOu ponder before they know how much time is left."""
    manager.send("position startpos", "go ponder")
    started = time.monotonic()
    manager.ask("ponderhit btime 0 wtime 0 byoyomi 300")
    assert 0.05 < time.monotonic() - started < NO_HURRY
    said = manager.ask("position startpos moves 5d5c", "go ponder", "ponderhit")
    nodes = [int(line.split(" nodes ")[1].split()[0]) for line in said if " nodes " in line]
    assert nodes and nodes[-1] < 1000, "no time and no nodes: the option Readouts"


def test_a_ponderhit_that_comes_when_the_tree_is_full_brings_the_time_too(manager, monkeypatch):
    """Or the second search of a decided position would have no clock."""
    over: list[bool] = []

    def decide(enough, readouts):
        time.sleep(0.3)
        over.append(enough())
        return manager.session.best()

    monkeypatch.setattr(manager.session, "decide", decide)
    monkeypatch.setattr(manager.session, "room", lambda: 20)
    manager.send("position startpos", "go ponder btime 0 wtime 0 byoyomi 200")
    time.sleep(0.5)  # 20 readouts take some milliseconds
    manager.ask("ponderhit")
    assert over == [True]


# Each go with the answers that it may have, [] for any; "stop" is sent half a second after it.
ODD_GOES = {
    "depth": [("go depth 3", []), ("go depth 1 nodes 40", []), ("go nodes 40 depth 2", [])],
    "movestogo": [
        ("go btime 800 wtime 800 movestogo 10", []), ("go movestogo 1 btime 600 wtime 600 binc 0 winc 0", []),
    ],
    "negative": [
        ("go btime -100 wtime 5000 byoyomi 300", []), ("go btime -1 wtime -1 binc 200 winc 200", []),
        ("go btime 1000 wtime -20 byoyomi 200", []),
    ],
    "searchmoves": [
        ("go nodes 40 searchmoves 3e3d 4e4d", ["3e3d", "4e4d"]), ("go btime 500 wtime 500 searchmoves 3e3d", ["3e3d"]),
        ("go searchmoves 4e4d nodes 20", ["4e4d"]), ("go nodes 20 searchmoves 1a1b zz 3e3d", ["3e3d"]),
        ("go nodes 20 searchmoves 1a1b", []), ("go nodes 0 searchmoves 3e3d", ["3e3d"]),
    ],
    "infinite": [
        ("go infinite searchmoves 3e3d 4e4d", ["3e3d", "4e4d"]), ("stop", []),
        ("go infinite searchmoves 4e4d", ["4e4d"]), ("stop", []),
    ],
    "unknown": [
        ("go rtime 300", []), ("stop", []), ("go movetime 200 tempo 3", []), ("go depth", []), ("stop", []),
        ("go movetime 99.5", []), ("go nodes", []), ("go nodes -3", []), ("go depth 99999999999 nodes 8", []),
        ("go btime 99999999999999 wtime 1e9 movetime 50", []),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD_GOES)
def test_every_go_has_one_bestmove(manager, kind):
    """What managers, bots and scripts for other engines write behind go."""
    manager.ask("usi", "isready", "usinewgame", "position startpos", "isready", until="readyok")
    answers = 0
    for line, among in ODD_GOES[kind]:
        if line.startswith("go infinite"):
            manager.send(line)
            time.sleep(0.1)
            best = manager.ask("stop")[-1].split()[1]
        elif line != "stop":
            best = manager.ask(line)[-1].split()[1]
        else:
            manager.send(line)
            continue
        answers += 1
        assert best in (among or set(manager_moves(manager))), line
    manager.send("isready", "quit")
    assert ends_of_searches(manager.until("readyok")) == 0
    assert answers == sum(line.startswith("go") for line, _ in ODD_GOES[kind])


def manager_moves(manager: Manager) -> list[str]:
    state = manager.session.state[0]
    return [GAME.move_name(state, int(action)) for action in np.flatnonzero(manager.session.legal())]


def test_depth_doubles_the_readouts_and_what_is_ignored_is_named(manager):
    def nodes(line):
        manager.send("usinewgame", "position startpos")
        said = manager.ask(line)
        return said[0], max(int(info.split(" nodes ")[1].split()[0]) for info in said if " nodes " in info)

    assert [nodes(f"go depth {depth}")[1] for depth in (1, 3, 6)] == [2, 8, 64]
    assert nodes("go depth 6 nodes 20")[1] == 20
    ignored, _ = nodes("go rtime 300 depth 2")
    assert ignored.startswith("info string go: ignored rtime 300; known: btime, wtime")
    assert nodes("go nodes 4 searchmoves zz")[0] == (
        "info string go searchmoves: no legal move here: zz, so all moves are searched"
    )


def test_a_search_of_all_moves_follows_one_of_few(manager):
    (best,) = manager.ask("usinewgame", "position startpos", "go nodes 0 searchmoves 3e3d")[-1:]
    assert best.startswith("bestmove 3e3d")
    said = manager.ask("setoption name MultiPV value 100", "go nodes 50")
    assert len({line.split(" pv ")[1].split()[0] for line in said if " pv " in line}) > 5


ENDS = ["resign", "rep_inf", "rep_draw", "rep_sup", "win", "draw", "timeout resign", "timeup",
        "illegal_move", "jishogi", "max_moves"]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_moves_are_read_up_to_the_end_of_the_game(manager, end):
    said = manager.ask(f"position startpos moves 5d5c 1b1c {end}", "isready", until="readyok")
    assert said == ["readyok"] and len(manager.session.moves) == 2


@pytest.mark.parametrize("end", ["(null)", "none", "TORYO", "mate"])
def test_an_unknown_end_of_the_game_is_named(manager, end):
    said = manager.ask(f"position startpos moves 5d5c 1b1c {end}", "isready", until="readyok")
    assert said == [f"info string position: {end} counts as the end of the game", "readyok"]
    assert len(manager.session.moves) == 2


def test_the_variant_is_an_option(manager):
    said = manager.ask("usi", until="usiok")
    assert "option name USI_Variant type combo default minishogi var minishogi" in said
    said = manager.ask(
        "setoption name USI_Variant value minishogi", "setoption name USI_Variant value shogi", "isready",
        until="readyok",
    )  # fmt: skip
    assert said[:-1] == ["info string setoption USI_Variant: found 'shogi'; this model plays minishogi"]


@pytest.mark.parametrize("go", ["go infinite", "go ponder"])
def test_in_a_finished_position_the_answer_waits_to_be_asked_for(manager, go):
    said = manager.ask("position sfen 4k/4G/4P/5/K4 w - 1", go, "isready", until="readyok")
    assert said == ["readyok"]
    assert manager.ask("stop") == ["bestmove resign"]


def piped(*script: str) -> list[str]:
    """The answers to lines that come all at once, followed by the end of the input."""
    usi, written = usi_of(SearchSession(GAME, uniform, EngineConfig().search_options(), 16)), io.StringIO()
    lines = CommandLines(io.StringIO("".join(f"{line}\n" for line in script)), 4096)
    running = threading.Thread(target=usi.run, args=(lines, written.write), daemon=True)
    running.start()
    running.join(NO_HURRY)
    assert not running.is_alive(), written.getvalue()
    return written.getvalue().splitlines()


def ends_of_searches(said: list[str]) -> int:
    return sum(line.startswith(("bestmove", "checkmate")) for line in said)


def test_lines_behind_a_search_with_an_end_wait_for_it():
    """So that a script can be piped in."""
    said = piped("position startpos", "go nodes 300", "position startpos moves 5d5c", "go nodes 300", "quit")
    assert ends_of_searches(said) == 2


@pytest.mark.parametrize("script", [
    ("go infinite", "stop", "quit"), ("go infinite", "gameover lose"), ("go infinite",), ("go infinite", "quit"),
    ("go ponder byoyomi 1", "ponderhit", "quit"), ("go mate infinite", "stop", "quit"),
])  # fmt: skip
def test_lines_that_waited_end_the_search_behind_them(script):
    assert ends_of_searches(piped("position startpos", "go nodes 300", *script)) == 2


@pytest.mark.parametrize("ending", ["stop", "gameover win", "quit"])
def test_a_line_that_waits_keeps_no_search_from_being_ended(ending):
    said = piped("position startpos", "go nodes 15000", "setoption name MultiPV value 2", ending)
    assert ends_of_searches(said) == 1 and all(" nodes 15000 " not in line for line in said)
    said = piped("position startpos", "go nodes 500", "usinewgame", "go nodes 15000", ending)
    nodes = [int(line.split(" nodes ")[1].split()[0]) for line in said if " nodes " in line]
    assert ends_of_searches(said) == 2 and 500 in nodes and max(nodes) < 15000, "it ends the second search"


def test_readouts_beyond_the_tree_are_refused_or_said(monkeypatch):
    monkeypatch.setattr(session_module, "LEAST_ROOM", 100)
    assert "option name Readouts type spin default 16 min 0 max 100" in piped("usi")
    (refused,) = piped("setoption name Readouts value 101")
    assert refused == "info string setoption Readouts: found '101'; wanted a whole number from 0 to 100"
    said = piped("setoption name Readouts value 100", "position startpos", "go", "go nodes 100")
    assert not any(line.startswith("info string") for line in said)
    first, *_, last, best = piped("position startpos", "go nodes 101")
    assert first == "info string 101 readouts: the tree has room for 100; a larger --readouts makes room for more"
    assert " nodes 100 " in last and best.startswith("bestmove")


@pytest.mark.parametrize("line, answer", [
    ("foo", "unknown command foo; known: gameover, go, isready"),
    ("position", "wanted startpos or sfen SFEN"),
    ("position startpos 5d5c", "found 5d5c; wanted moves"),
    ("position startpos moves 5d5c 5d5c", "Minishogi: '5d5c' is no move here"),
    ("position startpos moves 1e1a", "move 1 1e1a: "),
    ("position startpos moves 5d5c resign 1b1c", "position: move 1b1c behind the end of the game, resign"),
    ("position sfen 4k/5/5/5/5 b - 1", "0 kings of the first player"),
    ("position sfen kk3/5/5/5/K4 b - 1", "2 kings of the second player"),
    ("position sfen 4k/5/5/5/K4 b - 1 moves", ""),
    ("setoption MultiPV 3", "wanted name NAME value VALUE"),
    ("setoption name Threads value 3", "unknown option Threads; known: MultiPV"),
    ("setoption name Own Book value true", "unknown option Own Book; known: MultiPV"),
    ("setoption name Clear Hash", "unknown option Clear Hash; known: MultiPV"),
    ("setoption name MultiPV value 0", "found '0'; wanted a whole number from 1 to 100"),
    ("ponderhit", "nothing is pondered"),
    ("stop", ""),
    ("", ""),
    ("\0\x1b[31mx", "unknown command ??[31mx"),
])  # fmt: skip
def test_a_bad_line_is_answered_and_changes_nothing(manager, line, answer):
    before = manager.ask("position startpos moves 5d5c", "isready", until="readyok")
    assert before == ["readyok"]
    here = manager.session.here().state.copy()
    said = manager.ask(line, "isready", until="readyok")
    if answer:
        assert len(said) == 2 and said[0].startswith("info string ") and answer in said[0]
        assert np.array_equal(manager.session.here().state, here)
    else:
        assert said == ["readyok"]


def test_a_network_that_gives_up_resigns():
    def broken(planes):
        return np.full((len(planes), GAME.num_actions), np.nan, np.float32), np.zeros(len(planes), np.float32)

    written = io.StringIO()
    usi = usi_of(SearchSession(GAME, broken, EngineConfig().search_options(), 4))
    usi.run(CommandLines(io.StringIO("position startpos\ngo nodes 5\nisready\n"), 4096), written.write)
    assert "not finite" in written.getvalue()
    assert written.getvalue().splitlines()[-2:] == ["bestmove resign", "readyok"]


def test_hopeless_games_are_resigned_by_option():
    def lost(planes):
        return np.zeros((len(planes), GAME.num_actions), np.float32), np.full(len(planes), -0.99, np.float32)

    manager = Manager(4, lost, resign_threshold=-0.1)
    try:
        first = manager.ask("usinewgame", "position startpos", "go nodes 0")[-1]
        second = manager.ask("position startpos moves 5d5c 1b1c", "go nodes 0")[-1]
        assert first != "bestmove resign" and second == "bestmove resign"
    finally:
        manager.close()


def test_what_was_pondered_or_analysed_is_no_hopeless_move():
    def lost(planes):
        return np.zeros((len(planes), GAME.num_actions), np.float32), np.full(len(planes), -0.99, np.float32)

    manager = Manager(4, lost, resign_threshold=-0.1)
    try:
        for go in ("go infinite nodes 0", "go ponder nodes 0", "go infinite nodes 0"):
            assert manager.ask("position startpos", go, "stop")[-1] != "bestmove resign"
        first = manager.ask("go nodes 0")[-1]
        assert first != "bestmove resign", "the first move"
        assert manager.ask("go nodes 0")[-1] == first, "asked again, it is no second move"
        later = f"position startpos moves {with_reply(first.split()[1])}"
        assert manager.ask(later, "go ponder nodes 0", "ponderhit")[-1] == "bestmove resign"
    finally:
        manager.close()


def test_scores_as_shogi_programs_give_them():
    """600 ln(p / (1 - p)): 0.75 of the points, value 0.5, is 600 ln 3."""
    assert centipawns(0.0) == 0 and centipawns(0.5) == round(600 * math.log(3)) == -centipawns(-0.5)
    assert centipawns(1.0) == 9999 and centipawns(-1.0) == -9999


@pytest.mark.parametrize("limits, most", [
    ("movetime 400", 0.4), ("byoyomi 400", 0.4), ("btime 0 wtime 0 byoyomi 400", 0.4), ("btime 5000 wtime 1", 2.0),
    ("btime 0 wtime 0 binc 400 winc 0", 0.4), ("btime 4000 wtime 1 movestogo 10", 0.55),
    ("btime 600 wtime 600 movestogo 1", 0.6), ("btime -5 wtime -5 binc 400", 0.4), ("btime -5 wtime 3000", 0.15),
])  # fmt: skip
def test_how_long_a_move_may_take(manager, limits, most):
    """By the engine's own clock, so that a busy machine doesn't matter: see the time of the last report."""
    assert 0 <= usi_of(manager.session)._seconds(_parsed(limits.split())) <= most - 0.15


def test_cshogi_plays_with_it(tmp_path):
    usi = pytest.importorskip("cshogi.usi", reason="needs cshogi: pip install '.[test]'")
    model = make_model(tmp_path, spec="shogi")
    script = tmp_path / "engine"
    command = [sys.executable, str(ROOT / "main.py"), "engine", "--model", str(model), "--readouts", "8",
               "--backend", "torch"]  # fmt: skip
    script.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")
    script.chmod(0o755)
    import cshogi

    client = usi.Engine(str(script))
    try:
        assert client.name.startswith("MuGo")
        client.isready()
        client.usinewgame()
        board, moves = cshogi.Board(), []
        for _ in range(6):
            client.position(moves)
            best, _ = client.go(byoyomi=100)
            assert board.move_from_usi(best) in list(board.legal_moves)
            board.push_usi(best)
            moves.append(best)
    finally:
        client.quit()


def test_who_can_speak_it(tmp_path):
    with pytest.raises(UsageError, match=r"plays 5×5 Go, komi 7\.5; wanted a model of shogi"):
        engine(EngineConfig(model=make_model(tmp_path / "go", spec="go:5"), protocol="usi"))
    with pytest.raises(UsageError, match=r"plays Minishogi; wanted .* or --protocol usi"):
        engine(EngineConfig(model=make_model(tmp_path / "shogi", spec="shogi:5"), protocol="gtp"))


def test_a_manager_hears_usiok_before_the_model_is_loaded():
    """ShogiHome waits ten seconds for it."""
    loaded: list[int] = []

    def load() -> SearchSession:
        loaded.append(len(written.getvalue()))
        return SearchSession(GAME, uniform, EngineConfig().search_options(), 4)

    usi, written = Usi(GAME, 4, 4, load), io.StringIO()
    for line in ("usi", "setoption name MultiPV value 2", "stop", ""):
        usi._write = written.write
        usi.answer(line)
    assert written.getvalue().endswith("usiok\n") and not loaded
    usi.answer("isready")
    usi.answer("usinewgame")
    assert len(loaded) == 1 and written.getvalue().endswith("readyok\n")


def test_a_model_that_cannot_be_loaded_ends_the_engine():
    def load() -> SearchSession:
        raise FileError(Path("saved_models/x"), "damaged")

    usi = Usi(GAME, 4, 4, load)
    usi.answer("usi")
    with pytest.raises(FileError, match="damaged"):
        usi.answer("isready")


def test_a_move_that_was_taken_back_is_no_second_one_with_a_low_value():
    def lost(planes):
        return np.zeros((len(planes), GAME.num_actions), np.float32), np.full(len(planes), -0.99, np.float32)

    usi = usi_of(SearchSession(GAME, lost, EngineConfig().search_options(), 0), resign_threshold=-0.9)
    written = io.StringIO()
    usi._write = written.write

    def best(position: str) -> str:
        usi.answer(f"position {position}")
        usi.answer("go")
        return written.getvalue().splitlines()[-1]

    first = best("startpos")
    assert first != "bestmove resign" and best("startpos") == first
    assert best(f"startpos moves {with_reply(first.split()[1])}") == "bestmove resign"
