"""Mates by checks: known ones, and cshogi's own search over positions of random games."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.shogi import kernels
from pipeline.families.shogi.mate import Mate, MateSearch
from pipeline.games.contract import History
from pipeline.games.specs import parse_game

SHOGI = parse_game("shogi")
GAMES = 6


@pytest.mark.parametrize("sfen, plies", [
    ("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", 1),
    ("3sks3/9/4+P4/9/9/+B8/9/9/4K4 b S2rb4gs4n4l17p 1", 3),
    ("8k/9/8P/9/9/9/9/9/4K4 b 2G 1", 1),
    ("4k4/9/9/9/9/9/9/9/4K4 b G 1", None),
    ("4k4/9/4P4/9/9/9/9/9/4K4 w G 1", None),  # nothing to give check with
    ("7nk/7pp/9/9/9/9/9/9/4K4 b P 1", None),  # a pawn may not mate by being dropped: there is no check at all
])  # fmt: skip
def test_known_positions(sfen, plies):
    found = MateSearch(SHOGI).find(SHOGI.from_sfen(sfen))
    assert found is Mate.NONE if plies is None else len(found) == plies


def test_a_position_that_could_be_declared_has_its_mate():
    state = SHOGI.from_sfen("8k/GG7/KPPPPPPPP/9/9/9/9/9/9 b 2R2B2G 1")
    assert SHOGI.ends(state)[0] == kernels.DECLARATION
    found = MateSearch(SHOGI).find(state)
    assert isinstance(found, tuple) and SHOGI.line_names(state, found)[0] in ("G*1b", "G*2b")


def test_it_can_be_stopped():
    looked = []
    search = MateSearch(SHOGI, lambda: bool(looked.append(search.positions) or True))
    sfen = "3sks3/9/4+P4/9/9/+B8/9/9/4K4 b S2rb4gs4n4l17p 1"
    assert search.find(SHOGI.from_sfen(sfen)) is Mate.UNKNOWN and looked == [64]


def test_as_cshogi_finds_them():
    """Mates in one and in three are found in positions under attack, and every mate that is found is correct."""
    cshogi = pytest.importorskip("cshogi", reason="needs cshogi: pip install '.[test]'")
    rng, mates = np.random.default_rng(0), 0
    for _ in range(GAMES):
        states, history = SHOGI.initial(1), SHOGI.initial_history(SHOGI.initial(1))
        while not SHOGI.is_over(states)[0]:
            board = cshogi.Board(SHOGI.sfen(states[0]))
            if not board.is_check() and SHOGI.plies(states)[0] % 4 == 0:
                found = MateSearch(SHOGI, lambda: True).find(states)  # a small one
                if isinstance(found, tuple):
                    mates += 1
                    _check_line(cshogi, board, SHOGI.line_names(states, found))
                elif found is Mate.NONE:
                    assert not board.mate_move_in_1ply() and not board.mate_move(3), board.sfen()
            legal = np.flatnonzero(SHOGI.legal(states, history)[0])
            action = _wild(rng, legal, states, history)
            states = SHOGI.play(states, np.array([action], np.int32), history)
            history.append(np.zeros(1, np.int64), SHOGI.keys(states))
    assert mates > 2


def _wild(rng, legal, states, history: History) -> int:
    """A random move, more often one that gives check."""
    drawn = rng.choice(legal, min(8, len(legal)), replace=False).astype(np.int32)
    after = SHOGI.play(states.repeat(len(drawn), 0), drawn, history.select(np.zeros(len(drawn), np.int64)))
    checks = drawn[SHOGI.in_check(after)]
    return int(checks[0] if checks.size else drawn[0])


def _check_line(cshogi, board, names) -> None:
    """The attacker's moves all give check, the last one mates, and cshogi finds a mate as well."""
    solver = cshogi.DfPn()
    solver.set_max_search_node(100_000)
    assert solver.search(board.copy()), board.sfen()
    for ply, name in enumerate(names):
        move = board.move_from_usi(name)
        assert move in list(board.legal_moves)
        board.push(move)
        assert ply % 2 or board.is_check()
    assert len(names) % 2 and not list(board.legal_moves)
