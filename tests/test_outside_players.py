"""Another package's kind of player, with an argument, and its protocol, from the command line; faults name it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import extensions
from tests.helpers import make_champion
from tests.plugins import Site

ENTRY_POINTS = """
[mugo.players]
nth = mugo_nth.kinds:Nth
broken = mugo_nth.broken:Kind
seven = mugo_nth.kinds:SEVEN
unwritten = mugo_nth.kinds:Unwritten
hidden = mugo_nth.kinds:Hidden
nobody = mugo_nth.kinds:nobody
[mugo.protocols]
plain = mugo_nth.protocol:Plain
broken = mugo_nth.broken:Protocol
seven = mugo_nth.kinds:SEVEN
"""
KINDS = """
from pipeline.errors import UsageError
from pipeline.players.kinds import PlayerKind

SEVEN = 7


class Nth(PlayerKind):
    help, argument = "the legal move of this number", "NUMBER"

    def default_name(self, spec, argument):
        if not argument.isdecimal():
            raise UsageError(f"player {spec!r}: {argument!r}; wanted a number")
        return super().default_name(spec, argument)

    def check_game(self, game, spec, argument):
        if game.spec != "tictactoe":
            raise UsageError(f"player {spec!r}: plays tictactoe only; the game is {game.spec}")

    def make(self, argument, name, seconds):
        from mugo_nth.player import NthPlayer

        return lambda game, rows, thread: NthPlayer(game, rows, int(argument))


class Unwritten(PlayerKind):
    pass


class Hidden(Nth):
    argument, runs_program = "", True


def nobody(game, num_rows, thread):
    return None
"""
PLAYER = """
import numpy as np

from pipeline.players.builtin import ScoringPlayer


class NthPlayer(ScoringPlayer):
    def __init__(self, game, num_rows, number):
        super().__init__(game, num_rows)
        self._number = number
        if number > 97:
            raise RuntimeError("late") if number == 99 else OSError(2, "late")

    def scores(self, rows):
        legal = self._boards.legal(rows)
        rank = np.cumsum(legal, axis=1) - 1
        wanted = np.minimum(self._number, legal.sum(axis=1) - 1)[:, None]
        return np.where(legal, -np.abs(rank - wanted).astype(float), -np.inf)
"""
PROTOCOL = """
from pipeline.play.protocol import Protocol


class Plain(Protocol):
    help, wanted = "a move a line", "tictactoe"

    def plays(self, game):
        return game.spec == "tictactoe"

    def run(self, model, config, manager, progress):
        from pipeline.play.engine import open_session

        session, _ = open_session(model, config, progress)
        while (line := manager.lines.next()) is not None:
            session.play(session.game.parse_action(line))
            action = session.think(None)
            session.play(action)
            manager.write(session.game.action_name(action) + "!\\n")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    package, info = folder / "mugo_nth", folder / "mugo_nth-0.4.dist-info"
    package.mkdir()
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mugo-nth\nVersion: 0.4\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    for name, text in (("__init__", ""), ("kinds", KINDS), ("player", PLAYER), ("protocol", PROTOCOL),
                       ("broken", "raise OSError('no licence')")):  # fmt: skip
        (package / f"{name}.py").write_text(text)
    with Site(folder, tmp_path_factory.mktemp("workshop")) as site:
        yield site


class Program:
    """main.py in a folder, where the package is installed."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site, self.folder = site, folder

    def run(self, *arguments: str, code: int = 0, typed: str = "", fork: bool = True) -> str:
        """What it says."""
        return " ".join(self._site.run(self.folder, *arguments, code=code, text=typed, fork=fork).split())

    def match(self, player: str, *further: str, game: str = "tictactoe", code: int = 0, fork: bool = True) -> str:
        players = ("--black-model", "random", "--white-model", player)
        return self.run("evaluate", *players, "--game", game, "--games", "4", *further, code=code, fork=fork)


@pytest.fixture
def program(installed: Site, tmp_path: Path) -> Program:
    return Program(installed, tmp_path)


def test_a_kind_with_an_argument_plays_a_match(program: Program) -> None:
    assert "nth-2" in program.match("nth:2", fork=False)
    assert (program.folder / "data/evaluate/nth-2-vs-random/games.jsonl").exists()
    assert "wanted a number" in program.match("nth:two", code=2)
    assert "plays tictactoe only; the game is connect4" in program.match("nth:2", game="connect4", code=2)
    assert "player 'nth': wanted nth:NUMBER" in program.match("nth", code=2)
    assert "player 'random:3': wanted random alone" in program.match("random:3", code=2)


def test_a_kind_plays_against_a_person(program: Program) -> None:
    said = program.run("play", "--model", "nth:2", "--game", "tictactoe", typed="b2\nquit\n")
    assert "nth-2" in said and "no such model" not in said
    said = program.run("play", "--model", "nth:two", "--game", "tictactoe", code=2)
    assert "wanted a number" in said


def test_a_preset_may_not_start_it_without_leave(program: Program) -> None:
    """It runs no program, but to know that the package would have to be imported for the file."""
    preset = program.folder / "nth.yaml"
    preset.write_text("evaluate: {white_model: 'nth:1', game: tictactoe}\n")
    options = ("evaluate", "--preset", str(preset), "--black-model", "random", "--games", "2")
    assert "wanted --allow-engines" in program.run(*options, code=2)
    assert "nth-1" in program.run(*options, "--allow-engines")


@pytest.mark.parametrize(
    ("player", "problem"),
    [
        ("broken:1", "importing 'mugo_nth.broken:Kind' failed (OSError: no licence)"),
        ("seven", "gave 7; wanted a subclass of PlayerKind, or a function"),
        ("unwritten", "making 'mugo_nth.kinds:Unwritten' failed (TypeError"),
        ("hidden", "wanted an argument, as it runs a program"),
        ("nobody", "gave None; wanted a function (game, num_rows, thread) that gives a Player"),
    ],
)
def test_a_kind_that_is_none(program: Program, player: str, problem: str) -> None:
    said = program.match(player, code=2)
    name = player.partition(":")[0]
    assert f"entry point '{name}' of mugo.players in package mugo-nth 0.4" in said and problem in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [98, 99])
def test_any_exception_of_a_package_is_one_line(program: Program, number: int) -> None:
    said = program.match(f"nth:{number}", code=1)
    assert "package mugo-nth 0.4: " in said and "late (" in said and "in __init__); update or uninstall" in said
    assert "Traceback" not in said


def test_a_protocol_answers(program: Program) -> None:
    make_champion(program.folder / "saved_models")
    options = ("engine", "--readouts", "8", "--protocol")
    assert "!" in program.run(*options, "plain", typed="B2\n")
    said = program.run(*options, "plane", code=2)
    known = ", ".join(sorted({*extensions.bundled(extensions.PROTOCOLS), "broken", "plain", "seven"}))
    assert f"unknown name 'plane'; known protocols: {known}" in said
    for name, problem in (("broken", "failed (OSError: no licence)"), ("seven", "wanted a subclass of Protocol")):
        said = program.run(*options, name, code=2)
        assert f"entry point '{name}' of mugo.protocols in package mugo-nth 0.4" in said and problem in said


def test_help_names_them_and_imports_none(program: Program) -> None:
    said = program.run("evaluate", "--help")
    assert "nth of package mugo-nth 0.4" in said and "gtp:COMMAND an engine that speaks GTP" in said
    said = program.run("engine", "--help")
    assert "plain of package mugo-nth 0.4" in said and "gtp the Go Text Protocol" in said
