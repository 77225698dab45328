"""Shogi's rules and records beside python-shogi, rsshogi and tsshogi, each skipped where it isn't installed.

pip install python-shogi rsshogi            npm install --global tsshogi

`python -m tests.families.shogi --libraries GAMES` compares more games. cshogi has its own tests (test_oracles,
test_kifu). Where a library is wrong, its class says so, and that is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.shogi import kernels, notation
from pipeline.families.shogi.board import GOLD, KING, PROMOTED, THEIRS
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import CSA, HANDICAPS, KIF, handicap, parse_kifu
from pipeline.games.contract import States
from pipeline.games.records import RecordText
from pipeline.games.specs import parse_game
from tests.families.shogi.oracles import PERFT, kifu_record
from tests.games.playing import NO_HISTORY

PLAYERS = ["one", "two"]
TEXT = RecordText(*PLAYERS, comment="a comment")
SEVEN = {"左七枚落ち", "右七枚落ち"}  # handicaps that none of them knows
OPEN = ["4k4/9/9/9/9/9/9/9/4K3R b - 1", "4k4/9/4p4/9/9/9/9/9/4K4 b RBrb 1",
        "7k1/9/9/9/9/9/9/8R/K8 b G 1", "k8/9/1R7/9/9/9/9/7r1/K8 w Gg 1"]  # fmt: skip  # where checks repeat


class Seen(NamedTuple):
    """A position as one program sees it. loser: who gave check with every move since the first occurrence, 0 or 1."""

    sfen: str
    moves: set[str]
    in_check: bool
    fourth: bool  # whether it is there for the fourth time
    loser: int | None


class Record(NamedTuple):
    """What a program reads in a record. points: 1 if the first player won; None if it doesn't tell."""

    start: str
    moves: list[str]
    players: list[str]
    points: int | None


class Played(NamedTuple):
    """A game that we play: T moves, T + 1 states [S], and the name of its beginning."""

    moves: list[int]
    states: list[States]
    begins: str

    def named(self, game: Shogi) -> list[str]:
        return [game.move_name(state, move) for state, move in zip(self.states, self.moves, strict=False)]


class PythonShogi:
    """Reads no diagrams in KIF, and in CSA forgets what there are several of in hand. Doesn't know perpetual check.
    Writes KIF only, of even games that somebody resigned.
    """

    def __init__(self) -> None:
        import shogi.CSA
        import shogi.KIF

        self.shogi, self.parsers = shogi, {KIF: shogi.KIF.Parser, CSA: shogi.CSA.Parser}

    def follow(self, start: str, moves: list[str]) -> Iterator[Seen]:
        board = self.shogi.Board(start)
        for move in [*moves, ""]:
            legal = {one.usi() for one in board.legal_moves}
            yield Seen(board.sfen(), legal, board.is_check(), board.is_fourfold_repetition(), None)
            if move:
                board.push_usi(move)

    def known(self, ours: Seen, theirs: Seen) -> Seen:
        return ours._replace(loser=None)

    def reads(self, form: str, begins: str, start: str) -> bool:
        return begins in {"", *HANDICAPS} - SEVEN if form == KIF else not re.search("[0-9]", start.split()[2])

    def read(self, form: str, text: str) -> Record:
        found = self.parsers[form].parse_str(text)[0]
        return Record(found["sfen"], found["moves"], found["names"], None)

    def write(self, form: str, start: str, moves: list[str]) -> str:
        if form == CSA or start != self.shogi.STARTING_SFEN:
            return ""
        told = {"names": PLAYERS, "sfen": start, "moves": moves, "win": "wb"[len(moves) % 2]}
        return self.shogi.KIF.Exporter.kif(told)


class RsShogi:
    """Finds no repetition of a position from before a capture."""

    def __init__(self) -> None:
        import rsshogi.core
        import rsshogi.record

        self.board, self.record = rsshogi.core.Board, rsshogi.record.Record

    def follow(self, start: str, moves: list[str]) -> Iterator[Seen]:
        board = self.board(start)
        for move in [*moves, ""]:
            legal, mover = {one.to_usi() for one in board.legal_moves()}, board.turn.value
            loser = {"rep_lose": mover, "rep_win": 1 - mover}.get(board.repetition_state().to_usi())
            yield Seen(board.to_sfen(), legal, board.is_in_check(), board.is_repetition(3), loser)
            if move:
                board.push_usi(move)

    def known(self, ours: Seen, theirs: Seen) -> Seen:
        return ours if theirs.fourth else ours._replace(fourth=False, loser=None)

    def reads(self, form: str, begins: str, start: str) -> bool:
        return form == CSA or begins not in SEVEN

    def read(self, form: str, text: str) -> Record:
        found = self.record.from_kif_str(text) if form == KIF else self.record.from_csa_str(text)
        players = [found.metadata.black_player, found.metadata.white_player]
        points = int(found.result.is_black_win()) - int(found.result.is_white_win())
        return Record(found.init_position_sfen, [one.move.to_usi() for one in found.moves], players, points)

    def write(self, form: str, start: str, moves: list[str]) -> str:
        second_resigns = (start.split()[1] == "b") == (len(moves) % 2 == 1)
        found = self.record.from_usi_main_line(start, moves, "BLACK_WIN" if second_resigns else "WHITE_WIN")
        return found.to_kif() if form == KIF else found.to_csa()


TSSHOGI = """
const ts = require('tsshogi')
const WON = ['foulWin', 'enteringOfKing', 'winByDefault']
const LOST = ['resign', 'mate', 'timeout', 'foulLose', 'loseByDefault']
const value = (color) => color === ts.Color.BLACK ? 1 : -1

function legal(position) {
  const found = new Set()
  for (const from of [...ts.Square.all, ...ts.handPieceTypes])
    for (const to of ts.Square.all) {
      const move = position.createMove(from, to)
      if (!move) continue
      if (position.isValidMove(move)) found.add(move.usi)
      if (from instanceof ts.Square && position.isValidMove(move.withPromote())) found.add(move.withPromote().usi)
    }
  return [...found]
}

function begun(start, moves) {
  const record = new ts.Record(ts.Position.newBySFEN(start))
  for (const move of moves) record.append(record.position.createMoveByUSI(move), {ignoreValidation: true})
  return record
}

const answers = {
  follow({start, moves}) {
    const record = begun(start, moves), first = Number(start.split(' ')[3])
    return Array.from({length: moves.length + 1}, (_, ply) => {
      record.goto(ply)
      const loser = record.perpetualCheck
      return [record.position.getSFEN(first + ply), legal(record.position), record.position.checked, record.repetition,
              loser === null ? null : Number(loser === ts.Color.WHITE)]
    })
  },
  read({form, text}) {
    const record = form === 'kif' ? ts.importKIF(text) : ts.importCSA(text)
    if (record instanceof Error) throw record
    const moves = record.moves.filter(({move}) => move instanceof ts.Move).map(({move}) => move.usi)
    record.goto(record.length)
    const end = record.current.move, mover = value(record.position.color)
    const points = WON.includes(end.type) ? mover : LOST.includes(end.type) ? -mover : 0
    const players = [ts.getBlackPlayerName(record.metadata), ts.getWhitePlayerName(record.metadata)]
    return [record.initialPosition.sfen, moves, players, points]
  },
  write({form, start, moves}) {
    const record = begun(start, moves)
    record.append(ts.SpecialMoveType.RESIGN)
    return [form === 'kif' ? ts.exportKIF(record) : ts.exportCSA(record)]
  },
  declares({start}) {
    const position = ts.Position.newBySFEN(start)
    return ['general27', 'general24'].map((rule) => ts.judgeJishogiDeclaration(rule, position, position.color))
  },
}

require('readline').createInterface({input: process.stdin}).on('line', (line) => {
  const asked = JSON.parse(line)
  try { console.log(JSON.stringify(answers[asked.what](asked))) } catch (error) {
    console.log(JSON.stringify({error: String(error)}))
  }
})
"""


class TsShogi:
    """In a process of Node that answers a line of JSON with another. In KIF it takes a handicap that it doesn't know
    for an even game. In CSA it takes %+ILLEGAL_ACTION for a win of the first player; the standard says a loss.
    """

    def __init__(self) -> None:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise ImportError("needs node and npm")
        folder = subprocess.run([npm, "root", "--global"], capture_output=True, text=True).stdout.strip()
        env = {**os.environ, "NODE_PATH": os.pathsep.join(filter(None, [os.environ.get("NODE_PATH"), folder]))}
        if subprocess.run([node, "-e", "require('tsshogi')"], env=env, capture_output=True).returncode:
            raise ImportError("needs tsshogi: npm install --global tsshogi")
        self.process = subprocess.Popen(
            [node, "-e", TSSHOGI], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, what: str, **more: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps({"what": what, **more}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, list), answer
        return answer

    def follow(self, start: str, moves: list[str]) -> Iterator[Seen]:
        for sfen, legal, *more in self.ask("follow", start=start, moves=moves):
            yield Seen(sfen, set(legal), *more)

    def known(self, ours: Seen, theirs: Seen) -> Seen:
        return ours

    def reads(self, form: str, begins: str, start: str) -> bool:
        return form == CSA or begins not in {*SEVEN, "三枚落ち", "五枚落ち", "左五枚落ち"}

    def read(self, form: str, text: str) -> Record:
        found = Record(*self.ask("read", form=form, text=text))
        return found._replace(points=None) if "ILLEGAL_ACTION" in text else found

    def write(self, form: str, start: str, moves: list[str]) -> str:
        return self.ask("write", form=form, start=start, moves=moves)[0]


Library = PythonShogi | RsShogi | TsShogi
LIBRARIES: dict[str, type[Library]] = {"python-shogi": PythonShogi, "rsshogi": RsShogi, "tsshogi": TsShogi}


def beginnings(game: Shogi) -> dict[str, States]:
    """[1, S] positions to begin from, by name: the usual one, handicaps, others."""
    others = {name: game.from_sfen(sfen) for name, (sfen, _) in PERFT.items() if name != "start"}
    return {"": game.initial(1)} | {name: handicap(game, name) for name in HANDICAPS} | others


def play(game: Shogi, begins: str, state: States, plies: int, seed: int, circling: bool = False) -> Played:
    """At most this many moves: random ones if seed is even, else such as the heuristic evaluation likes. circling:
    moves back to earlier positions and checks come first, and repetitions don't end the game.
    """
    generator, evaluate, history = np.random.default_rng(seed), game.heuristic(), game.initial_history(state)
    found = Played([], [state[0]], begins)
    while len(found.moves) < plies and not game.is_over(state)[0]:
        legal = game.legal(state, history)[0]
        scores = generator.random(len(legal)) + (evaluate(state, history)[0] if seed % 2 else 0)
        if circling:
            actions = np.flatnonzero(legal).astype(np.int32)
            rows = np.zeros(len(actions), np.int64)
            after = game.play(state[rows], actions, history.select(rows))
            been = np.isin(game.keys(after), history.keys[0, : history.lengths[0]])
            scores[actions] += 2 * been + game.in_check(after) * generator.integers(0, 2)
        move = np.where(legal, scores, -np.inf).argmax(keepdims=True).astype(np.int32)
        state = game.play(state, move, history)
        history.append(np.arange(1), game.keys(state))
        found.moves.append(int(move[0]))
        found.states.append(state[0])
        if circling:
            state = game.played_on(state)
    return found


def games_of(game: Shogi, num_games: int, plies: int, seed: int, to_the_end: bool) -> list[Played]:
    """From all beginnings in turn, and as many that go round in circles, of twice as many plies.

    to_the_end: each up to its first end, as records are.
    """
    begin, found = list(beginnings(game).items()), []
    for number in range(num_games):
        found.append(play(game, *begin[number % len(begin)], plies, seed + number))
        circling = game.from_sfen(OPEN[number % len(OPEN)])
        found.append(play(game, "a diagram", circling, 2 * plies, seed + number, circling=True))
    return [up_to_its_end(game, one) for one in found] if to_the_end else found


def up_to_its_end(game: Shogi, one: Played) -> Played:
    ends = np.flatnonzero(game.ends(np.stack(one.states)))
    last = int(ends[0]) if ends.size else len(one.moves)
    return Played(one.moves[:last], one.states[: last + 1], one.begins)


def seen(game: Shogi, state: States) -> Seen:
    """A state [S] as we see it."""
    one = state[None]
    end = int(game.ends(one)[0])
    legal = np.flatnonzero(game.legal(game.played_on(one), NO_HISTORY)[0]).tolist()
    fourth = end in (kernels.REPETITION, kernels.PERPETUAL_CHECK)
    loser = int(game.returns(one)[0] > 0) if end == kernels.PERPETUAL_CHECK else None
    moves = {game.move_name(state, action) for action in legal}
    return Seen(game.sfen(state), moves, bool(game.in_check(one)[0]), fourth, loser)


def compare_positions(library: Library, game: Shogi, games: list[Played]) -> Counter[str]:
    """Legal moves, SFEN, checks, repetitions and perpetual checks after every move."""
    counts: Counter[str] = Counter()
    for one in games:
        theirs = library.follow(game.sfen(one.states[0]), one.named(game))
        for state, other in zip(one.states, theirs, strict=True):
            our = library.known(seen(game, state), other)
            assert our == other, f"{our} isn't {other}: {our.moves ^ other.moves}"
            counts += Counter(positions=1, moves=len(our.moves), fourth=our.fourth, perpetual=our.loser is not None)
    return counts


def position(game: Shogi, sfen: str) -> str:
    """An SFEN as we write it, without the number of the next move."""
    return game.sfen(game.from_sfen(sfen)[0]).rpartition(" ")[0]


def compare_records(library: Library, game: Shogi, games: list[Played]) -> Counter[str]:
    """A library reads what we write, and we read what it writes: beginning, moves, players and result."""
    counts: Counter[str] = Counter()
    for one in games:
        start, moves, last = game.sfen(one.states[0]), one.named(game), one.states[-1][None]
        over, mover = bool(game.is_over(last)[0]), int(game.to_move(last)[0])
        points = int(game.returns(last)[0]) if over else 2 * mover - 1
        for form in (KIF, CSA):
            if library.reads(form, one.begins, start):
                resigned_by = None if over else mover
                record = kifu_record(form, game, one.moves, TEXT, [], resigned_by, one.states[0][None])
                found = library.read(form, record)
                told = points if found.points is not None else None
                wanted = Record(position(game, start), moves, PLAYERS, told)
                assert found._replace(start=position(game, found.start)) == wanted, record
                counts[f"{form} read"] += 1
            if record := library.write(form, start, moves):
                _, (ours,) = parse_kifu(record.encode(), f".{form}")
                assert position(game, game.sfen(ours.start[0])) == position(game, start), record
                assert ours.moves == one.moves and not ours.notes and (over or ours.points == points), record
                counts[f"{form} written"] += 1
    return counts


def entered(generator: np.random.Generator) -> str:
    """An SFEN with pieces in both zones, so that declarations are close."""
    kinds = generator.permutation([1] * 18 + [2] * 4 + [3] * 4 + [4] * 4 + [5] * 4 + [6] * 2 + [7] * 2).tolist()
    board, held, mover = [0] * 81, [[0] * 8 for _ in range(2)], int(generator.integers(2))
    for side, count in ((mover, generator.integers(8, 13)), (1 - mover, generator.integers(6, 12))):
        for number in range(int(count) + 1):
            kind = kinds.pop() if number else KING
            promoted = PROMOTED * (kind < GOLD or (GOLD < kind < KING and generator.random() < 0.5))
            near = range(27) if generator.random() < 0.9 else range(27, 54)  # seen by the side
            free = [point for at in near if not board[point := 80 - at if side else at]]
            board[int(generator.choice(free))] = kind + promoted + THEIRS * side
    for kind in kinds:
        held[mover if generator.random() < 0.6 else 1 - mover][kind] += 1
    return notation.board_sfen(board, held, mover, 1, 9)


def compare_declarations(library: TsShogi, num_positions: int, seed: int) -> Counter[str]:
    """Whether the player to move wins by declaring, by both rules, and whether both players' points make a draw."""
    games = [parse_game(f"shogi,declaration={rule}") for rule in (27, 24)]
    generator, counts = np.random.default_rng(seed), Counter[str]()
    while counts["near declarations"] < num_positions:
        sfen = entered(generator)
        try:
            ends = [int(game.ends(game.from_sfen(sfen))[0]) for game in games]
        except IllegalMove:
            continue
        if kernels.NO_MOVE in ends:
            continue
        turned = re.sub(" [bw] ", lambda turn: " w " if turn[0] == " b " else " b ", sfen, count=1)
        asked = library.ask("declares", start=sfen)
        wins = [end == kernels.DECLARATION for end in ends]
        assert wins == [answer == "win" for answer in asked], sfen
        both = asked[1] == "draw" and library.ask("declares", start=turned)[1] != "lose"
        assert (ends[1] == kernels.BOTH_ENTERED) == both, sfen
        counts += Counter({"near declarations": 1, "won by 27": wins[0], "won by 24": wins[1], "drawn by 24": both})
    return counts


@pytest.fixture(params=LIBRARIES, scope="module")
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    try:
        made = LIBRARIES[request.param]()
    except ImportError as error:
        pytest.skip(f"{request.param} isn't installed: {error}")
    yield made
    if isinstance(made, TsShogi):
        made.process.communicate()


@pytest.fixture(scope="module")
def game() -> Shogi:
    return parse_game("shogi,declaration=off,moves=600")


def test_positions_are_seen_alike(library: Library, game: Shogi) -> None:
    counts = compare_positions(library, game, games_of(game, len(beginnings(game)), 25, 3, to_the_end=False))
    assert counts["positions"] > 1000 and counts["fourth"] > 100, counts
    assert counts["perpetual"] > 10 or isinstance(library, PythonShogi)


def test_records_are_read_alike(library: Library, game: Shogi) -> None:
    counts = compare_records(library, game, games_of(game, len(beginnings(game)), 40, 3, to_the_end=True))
    assert counts["kif read"] > 13 and counts["csa read"] > 30 and counts["kif written"] > 0, counts


@pytest.mark.parametrize("library", ["tsshogi"], indirect=True)
def test_declarations_are_allowed_alike(library: TsShogi) -> None:
    counts = compare_declarations(library, 500, 1)
    assert min(counts.values()) > 3, counts
