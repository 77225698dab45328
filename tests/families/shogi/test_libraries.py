"""Shogi's rules and records beside python-shogi, rsshogi and tsshogi, each skipped where it isn't installed.

pip install python-shogi rsshogi            npm install --global tsshogi

`python -m tests.families.shogi --libraries GAMES` compares more games. cshogi has its own tests: test_oracles, test_kifu.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import CSA, HANDICAPS, KIF, USI, handicap, parse_kifu
from pipeline.games.contract import States
from pipeline.games.records import RecordText
from pipeline.games.specs import parse_game
from tests.families.shogi.oracles import PERFT, kifu_record

FIRST, SECOND = 0, 1


class Seen(NamedTuple):
    """A position as one program sees it. loser: who gave check with every move since the first occurrence."""

    sfen: str
    moves: set[str]
    in_check: bool
    fourth: bool  # whether it is there for the fourth time
    loser: int | None


class Record(NamedTuple):
    """What a record says. points: 1 if the first player won, None if the program doesn't tell."""

    start: str
    moves: list[str]
    points: int | None


class Played(NamedTuple):
    """A game of ours: T moves, T + 1 states [S]."""

    moves: list[int]
    states: list[States]


class PythonShogi:
    """Doesn't know perpetual check. Writes KIF of even games that somebody resigned."""

    forms = (KIF, CSA)
    unknown = ("その他",)

    def __init__(self) -> None:
        import shogi.CSA
        import shogi.KIF

        self.shogi = shogi
        self.readers = {KIF: shogi.KIF.Parser, CSA: shogi.CSA.Parser}

    def follow(self, start: str, moves: list[str]) -> Iterator[Seen]:
        board = self.shogi.Board(start)
        for move in [*moves, ""]:
            legal = {one.usi() for one in board.legal_moves}
            yield Seen(board.sfen(), legal, board.is_check(), board.is_fourfold_repetition(), None)
            if move:
                board.push_usi(move)

    def read(self, form: str, text: str) -> Record:
        found = self.readers[form].parse_str(text)[0]
        return Record(found["sfen"], found["moves"], None)

    def write(self, form: str, start: str, moves: list[str]) -> str:
        if form != KIF or start != self.shogi.STARTING_SFEN:
            return ""
        winner = "bw"[len(moves) % 2 == 0]
        return self.shogi.KIF.Exporter.kif({"names": ["a", "b"], "sfen": start, "moves": moves, "win": winner})


class RsShogi:
    forms = (KIF, CSA)

    def __init__(self) -> None:
        import rsshogi.core
        import rsshogi.record

        self.rsshogi = rsshogi
        self.record = rsshogi.record.Record

    def follow(self, start: str, moves: list[str]) -> Iterator[Seen]:
        board = self.rsshogi.core.Board(start)
        for move in [*moves, ""]:
            legal = {one.to_usi() for one in board.legal_moves()}
            fourth, state = board.is_repetition(3), board.repetition_state().to_usi()
            mover = board.turn.value
            loser = {"rep_lose": mover, "rep_win": 1 - mover}.get(state)
            yield Seen(board.to_sfen(), legal, board.is_in_check(), fourth, loser)
            if move:
                board.push_usi(move)

    def read(self, form: str, text: str) -> Record:
        found = (self.record.from_kif_str if form == KIF else self.record.from_csa_str)(text)
        points = int(found.result.is_black_win()) - int(found.result.is_white_win())
        return Record(found.init_position_sfen, [one.move.to_usi() for one in found.moves], points)

    def write(self, form: str, start: str, moves: list[str]) -> str:
        winner = (start.split()[1] == "b") == (len(moves) % 2 == 1)
        result = "BLACK_WIN" if winner else "WHITE_WIN"
        found = self.record.from_usi_main_line(start, moves, self.rsshogi.record.GameResult.from_str(result))
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
    return [record.initialPosition.sfen, moves, WON.includes(end.type) ? mover : LOST.includes(end.type) ? -mover : 0]
  },
  write({form, start, moves}) {
    const record = begun(start, moves)
    record.append(ts.SpecialMoveType.RESIGN)
    return form === 'kif' ? ts.exportKIF(record) : ts.exportCSA(record)
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
    """In a process of Node that answers a line of JSON with another."""

    forms = (KIF, CSA)

    def __init__(self) -> None:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise ImportError("node and npm")
        folder = subprocess.run([npm, "root", "--global"], capture_output=True, text=True).stdout.strip()
        env = {**os.environ, "NODE_PATH": os.pathsep.join(filter(None, [os.environ.get("NODE_PATH"), folder]))}
        if subprocess.run([node, "-e", "require('tsshogi')"], env=env, capture_output=True).returncode:
            raise ImportError("tsshogi")
        self.process = subprocess.Popen(
            [node, "-e", TSSHOGI], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, what: str, **more: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"what": what, **more}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, dict):
            raise ValueError(answer["error"])
        return answer

    def follow(self, start: str, moves: list[str]) -> Iterator[Seen]:
        for sfen, legal, *more in self.ask("follow", start=start, moves=moves):
            yield Seen(sfen, set(legal), *more)

    def read(self, form: str, text: str) -> Record:
        return Record(*self.ask("read", form=form, text=text))

    def write(self, form: str, start: str, moves: list[str]) -> str:
        return self.ask("write", form=form, start=start, moves=moves)


def usi_of(game: Shogi, one: Played) -> list[str]:
    return [game.move_name(state, move) for state, move in zip(one.states, one.moves, strict=False)]


def play_games(game: Shogi, starts: list[States], plies: int, seed: int, circling: bool = False) -> list[Played]:
    """Games of at most this many plies, one from each start [1, S]: random moves in every other game, moves that the
    heuristic evaluation likes in the rest. circling: moves back to earlier positions and checks come first, and the
    games go on after a repetition.
    """
    generator, evaluate, games = np.random.default_rng(seed), game.heuristic(), []
    for number, state in enumerate(starts):
        history, one = game.initial_history(state), Played([], [state[0]])
        while len(one.moves) < plies and not game.is_over(state)[0]:
            legal = game.legal(state, history)[0]
            scores = generator.random(len(legal)) + (evaluate(state, history)[0] if number % 2 else 0)
            if circling:
                actions = np.flatnonzero(legal).astype(np.int32)
                rows = np.zeros(len(actions), np.int64)
                after = game.play(state[rows], actions, history.select(rows))
                been = np.isin(game.keys(after), history.keys[0, : history.lengths[0]])
                scores[actions] += 2 * been + game.in_check(after) * generator.integers(0, 2)
            move = int(np.where(legal, scores, -np.inf).argmax())
            state = game.play(state, np.array([move], np.int32), history)
            history.append(np.arange(1), game.keys(state))
            one.moves.append(move)
            one.states.append(state[0])
            if circling:
                state = game.played_on(state)
        games.append(one)
    return games


def ours(game: Shogi, one: Played) -> Iterator[Seen]:
    """A position as we see it."""
    past: list[States] = []
    for state in one.states:
        history = game.initial_history(state[None])
        legal = game.legal(game.played_on(state[None]), history)[0]
        moves = {game.move_name(state, action) for action in np.flatnonzero(legal).tolist()}
        end = int(game.ends(state[None])[0])
        fourth = end in (kernels.REPETITION, kernels.PERPETUAL_CHECK)
        loser = (FIRST if game.returns(state[None])[0] < 0 else SECOND) if end == kernels.PERPETUAL_CHECK else None
        yield Seen(game.sfen(state), moves, bool(game.in_check(state[None])[0]), fourth, loser)
        past.append(state)


def starts(game: Shogi) -> dict[str, States]:
    """Positions to begin from by name: [1, S]."""
    more = {name: game.from_sfen(sfen) for name, (sfen, _) in PERFT.items()}
    return {"": game.initial(1)} | {name: handicap(game, name) for name in HANDICAPS} | more
