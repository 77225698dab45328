"""A package of its own with a game, a player and a format of records: what makes it be imported, and what not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import extensions
from tests.plugins import Site, install

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "mugo-wide"
version = "0.3"

[project.entry-points."mugo.games"]
wide = "mugo_wide:from_spec"
broken = "mugo_wide:not_there"
odd = "mugo_wide:Odd.from_spec"
narrow = "mugo_wide:narrow"
late = "mugo_wide:Late.from_spec"

[project.entry-points."mugo.players"]
leftmost = "mugo_wide:Leftmost"

[project.entry-points."mugo.records"]
drops = "mugo_wide:Drops"
gone = "mugo_wide:not_there"
wrong = "mugo_wide:from_spec"

[tool.setuptools]
py-modules = ["mugo_wide"]
"""
MODULE = '''
"""Three in a row on a wide board, a player that takes the first free point, records of connect four."""

import os
from pathlib import Path

import numpy as np

from pipeline.errors import IllegalMove, UsageError
from pipeline.games.contract import board_symmetries
from pipeline.games.records import ReadGame, RecordFormat
from pipeline.games.specs import parse_game
from pipeline.families.lines.game import LineGame
from pipeline.players.builtin import ScoringPlayer

with Path(os.environ["WIDE_IMPORTS"]).open("a") as log:
    log.write("imported\\n")


class Wide(LineGame):
    height, width, length, falls = 3, 4, 3, False
    full = "the point is occupied"
    spec = "wide:4"
    symmetries = board_symmetries(3, 4)

    def action_name(self, action):
        return str(action)

    def parse_action(self, text):
        if text.strip().isdecimal() and int(text) < self.num_actions:
            return int(text)
        raise IllegalMove(f"{self.spec}: {text!r} is no point")


class Odd(Wide):
    spec = "odd"

    def returns(self, states):
        return super().returns(states).astype(float)


class Late(Wide):
    spec = "late"

    def is_over(self, states):
        if (self.plies(states) > 4).any():
            raise ZeroDivisionError("five stones")
        return super().is_over(states)


def narrow(size, options):
    return options["width"]


def from_spec(size, options):
    if size != "4":
        raise UsageError("game wide: wanted wide:4")
    return Wide()


class Leftmost(ScoringPlayer):
    def __init__(self, game, num_rows, thread):
        super().__init__(game, num_rows)

    def scores(self, rows):
        legal = self._boards.legal(rows)
        return np.where(legal, -np.arange(legal.shape[1], dtype=float), -np.inf)


class Drops(RecordFormat):
    games = ("connect4",)
    suffixes = reads = (".drp",)
    holds = "list of drops"

    def refusal(self, game):
        return "" if self.is_for(game) else "--drops is for connect4"

    def write(self, game, played):
        gave_up = "nobody" if played.resigned_by is None else str(played.resigned_by)
        return f"{played.text.first}|{played.text.second}|{gave_up}|{' '.join(map(str, played.moves))}\\n"

    def read(self, path):
        game, games = parse_game("connect4"), []
        for line in path.read_text().splitlines():
            first, second, gave_up, moves = line.split("|")
            end = "not decided" if gave_up == "nobody" else "resigned"
            games.append(ReadGame((first, second), game.initial(1), [int(move) for move in moves.split()], 0, end))
        return game, games
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Where the package is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "mugo_wide.py").write_text(MODULE)
    install(source, target)
    with Site(target, tmp_path_factory.mktemp("workshop")) as site:
        yield site


class Program:
    """Runs main.py where the package is installed, and tells whether it was imported."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site, self._log = site, folder / "imports"
        self.folder = folder

    def __call__(self, *arguments: str, code: int = 0, typed: str = "", fork: bool = True) -> str:
        self._log.write_text("")
        said = self._site.run(
            self.folder, *arguments, code=code, text=typed, fork=fork, WIDE_IMPORTS=str(self._log)
        )
        return " ".join(said.split())

    @property
    def imported(self) -> bool:
        return bool(self._log.read_text())


@pytest.fixture
def program(site: Site, tmp_path: Path) -> Program:
    return Program(site, tmp_path)


def test_its_game_is_played_gathered_and_shown(program: Program) -> None:
    program("init", "--game", "wide:4", "--network-size", "b1c8", fork=False)
    assert program.imported
    program("selfplay", "--games", "3", "--readouts", "2", "--threads", "1")
    assert program.imported
    shard = str(next((program.folder / "data" / "selfplay").rglob("*.gz")))

    gather = ("gather", "--positions-per-chunk", "4", "--chunks-to-make", "2", "--holdout-fraction", "0")
    program(*gather)
    assert program.imported
    assert "X to move" in program("show", shard, "--game", "0", "--moves")

    models, hidden = program.folder / "saved_models", program.folder / "elsewhere"
    models.rename(hidden)
    said = program("show", shard, code=2)
    assert "game 'wide:4' is another package's" in said and "wanted a run whose models play it" in said
    assert not program.imported, "a data file made a package be imported"
    assert "wanted a run whose models play it" in program(*gather, code=1)
    assert not program.imported, "a data file made a package be imported"
    program("init", "--game", "tictactoe", "--network-size", "b1c8")
    assert "wanted a run whose models play it" in program("show", shard, code=2)
    assert not program.imported, "a run of another game made a package be imported"


def test_models_of_a_run_are_those_around_the_file(program: Program) -> None:
    program("init", "--game", "wide:4", "--network-size", "b1c8")
    program("selfplay", "--games", "3", "--readouts", "2", "--threads", "1")
    shard = next((program.folder / "data/selfplay").rglob("*.gz"))
    run_folder = program.folder / "run"
    run_folder.mkdir()
    for name in ("data", "saved_models"):
        (program.folder / name).rename(run_folder / name)
    path = run_folder / shard.relative_to(program.folder)
    assert "X to move" in program("show", str(path), "--game", "0", "--moves")
    shutil.copy(path, run_folder / "stray.gz")
    program("show", str(run_folder / "stray.gz"), code=2)
    assert not program.imported, "a file beside data/ made a package be imported"
    (run_folder / "saved_models/000000-init/model.json").write_text("{")
    program("show", str(path), code=2)
    assert not program.imported


@pytest.mark.parametrize("name", ["odd", "narrow", "late"])
def test_a_game_that_breaks_names_its_package(program: Program, name: str) -> None:
    """When it is loaded, in play, and in a worker process."""
    wanted = {
        "odd": ("entry point 'odd' of mugo.games in package mugo-wide 0.3: odd, returns: found float64 of shape", 2),
        "narrow": ("in package mugo-wide 0.3: making 'narrow' failed (KeyError: 'width')", 2),
        "late": ("raised ZeroDivisionError: five stones (", 1),
    }[name]
    init = ("init", "--game", name, "--network-size", "b1c8")
    if name != "late":
        assert wanted[0] in program(*init, code=wanted[1])
        return
    program(*init)
    play = ("selfplay", "--games", "3", "--readouts", "2", "--threads", "1")
    for options in (play, (*play, "--workers", "1")):
        said = program(*options, code=1)
        assert wanted[0] in said and "mugo_wide.py:" in said and "Traceback" not in said
        assert "entry point 'late' of mugo.games in package mugo-wide 0.3: late, " in said
    said = program("loop", "--game", name, "--minutes", "1", "--directory", "new", code=1)
    assert wanted[0] in said and "Traceback" not in said and not (program.folder / "new").exists()


def test_its_player_plays_a_match(program: Program) -> None:
    players = ("--black-model", "random", "--white-model", "leftmost")
    said = program("evaluate", *players, "--game", "connect4", "--games", "4")
    assert "leftmost" in said and program.imported
    said = program("show", "data/evaluate/leftmost-vs-random")
    assert "leftmost" in said and not program.imported


def test_its_records_are_written_and_read(program: Program) -> None:
    program("evaluate", "--black-model", "random", "--white-model", "heuristic", "--game", "connect4", "--games", "4")
    match = "data/evaluate/heuristic-vs-random"
    assert not program.imported
    said = program("show", match, "--drops", "--sgf-output", "records", "--game", "1")
    (path,) = (program.folder / "records").iterdir()
    assert program.imported and said == "1 records in records" and path.name == "heuristic-vs-random-000001.drp"
    assert path.read_text().startswith("random|heuristic|nobody|")
    said = program("show", str(path))
    assert "list of drops of connect4" in said and "game 0: X random, O heuristic; draw, not decided" in said
    program("play", "--model", "random", "--game", "connect4", typed="1\nresign\nsgf mine.drp\n")
    assert (program.folder / "mine.drp").read_text().startswith("a person|random|0|0 ")

    assert "connect4 isn't written in SGF; connect4 has --drops" in program("show", match, "--sgf", code=2)
    program("evaluate", "--black-model", "random", "--white-model", "heuristic", "--game", "tictactoe", "--games", "2",
            "--output-dir", "other")  # fmt: skip
    said = program("show", "other", "--drops", code=2)
    assert "other/heuristic-vs-random holds games of tictactoe; --drops is for connect4" in said


def test_records_that_are_none_name_their_package(program: Program) -> None:
    (program.folder / "a.gone").write_text("")
    program("evaluate", "--black-model", "random", "--white-model", "heuristic", "--game", "connect4", "--games", "2")
    for arguments in (("a.gone",), ("data/evaluate", "--gone")):
        said = program("show", *arguments, code=2)
        assert "'gone' of mugo.records in package mugo-wide 0.3: importing 'mugo_wide:not_there' failed" in said
    said = program("show", "data/evaluate", "--wrong", code=2)
    assert "'wrong' of mugo.records in package mugo-wide 0.3: 'mugo_wide:from_spec' gave <function" in said
    assert "wanted a whole subclass of pipeline.games.records.RecordFormat" in said and "Traceback" not in said


def test_help_imports_nothing_of_it(program: Program) -> None:
    program("--help", fork=False)
    assert "--drops Print the games as DROPS." in program("show", "--help")
    program("init", "--help")
    assert not program.imported


def test_what_is_wrong_names_what_there_is(program: Program) -> None:
    said = program("init", "--game", "hex:5", code=2)
    known = ", ".join(sorted({*extensions.bundled(extensions.GAMES), "broken", "late", "narrow", "odd", "wide"}))
    assert f"known games: {known}" in said
    said = program("init", "--game", "broken", code=2)
    assert "'broken' of mugo.games in package mugo-wide 0.3: importing 'mugo_wide:not_there' failed" in said
