"""Shogi: rules by fixtures, the kernels against the plain twin, SFEN and names of moves."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import IllegalMove, UsageError
from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.games.contract import History, States
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from tests.families.shogi.oracles import likely_games
from tests.games.playing import NO_HISTORY
from tests.reference.shogi import ShogiReference

ENDS = {
    None: 0,
    "no move": kernels.NO_MOVE,
    "repetition": kernels.REPETITION,
    "perpetual check": kernels.PERPETUAL_CHECK,
    "declaration": kernels.DECLARATION,
    "both entered": kernels.BOTH_ENTERED,
    "move limit": kernels.MOVE_LIMIT,
}


def moves_of(game: Shogi, state: States) -> set[str]:
    """Legal moves of one state [1, S] in USI."""
    return {game.move_name(state[0], action) for action in np.flatnonzero(game.legal(state, NO_HISTORY)[0]).tolist()}


def played(game: Shogi, start: States, moves: str) -> tuple[States, History]:
    """Moves in USI from a state [1, S], and the positions that occurred."""
    state, history = start, game.initial_history(start)
    for move in moves.split():
        state = game.play(state, np.array([game.parse_move(state[0], move)], np.int32), history)
        history.append(np.arange(1), game.keys(state))
    return state, history


def refused(game: Shogi, state: States, move: str) -> str:
    """The reason why a move is refused, which also mustn't be among the legal moves."""
    assert move not in moves_of(game, state)
    with pytest.raises(IllegalMove) as raised:
        played(game, state, move)
    return str(raised.value).rpartition(": ")[2]


@pytest.mark.parametrize(
    ("spec", "twin", "num_games", "kind", "share"),
    [
        ("shogi,moves=150", ShogiReference(9, 27, 150), 6, "random", 0.4),
        ("shogi,declaration=24", ShogiReference(9, 24), 6, "likely", 0.4),
        ("shogi:5,moves=90", ShogiReference(5, 0, 90), 40, "random", 1.0),
        ("shogi:5", ShogiReference(5, 0, 256), 20, "likely", 1.0),
    ],
)
def test_the_twin_plays_the_same_games(
    spec: str, twin: ShogiReference, num_games: int, kind: str, share: float
) -> None:
    """Compares legal moves at a share of the positions, and everything else after every move."""
    game = parse_game(spec)
    steps = random_games(game, num_games, 7) if kind == "random" else likely_games(game, num_games, 8, 0.2)
    games = [ShogiReference(twin.size, twin.declaration, twin.max_plies) for _ in range(num_games)]
    generator, ended = np.random.default_rng(0), 0
    for step in steps:
        for i, row in enumerate(step.rows.tolist()):
            other, state, after = games[row], step.states[i], step.after[i : i + 1]
            if generator.random() < share:
                found = {game.move_name(state, action) for action in np.flatnonzero(step.legal[i]).tolist()}
                assert found == set(other.legal()), game.diagram(state)
            # The move was legal, so the twin needn't look at all of them again.
            move = game.move_name(state, int(step.actions[i]))
            other.legal = lambda only=move: [only]
            other.play(move)
            del other.legal
            assert ENDS[other.end] == game.ends(after)[0], game.diagram(after[0])
            result = 0 if other.winner is None else 1 - 2 * other.winner
            assert game.returns(after)[0] == result and bool(game.in_check(after)[0]) == other.past[-1][1]
            ended += other.end is not None
    assert ended == num_games


def test_start() -> None:
    game = parse_game("shogi")
    assert game.sfen(game.initial(1)[0]) == "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
    assert (game.num_actions, parse_game("shogi:5").num_actions) == (2187, 675)
    assert game.state_size == 60, "a row of 120 bytes"
    assert parse_game("shogi:9").spec == "shogi"


# One row: a position, moves, whether each is legal, and if not, why.
MOVES = [
    # A pawn in hand, one on column 5: nowhere on it. A promoted one doesn't count.
    ("4k4/9/9/9/9/4P4/9/9/4K4 b P 1", "P*5d", "a second pawn on its column"),
    ("4k4/9/9/9/9/4+P4/9/9/4K4 b P 1", "P*5d", ""),
    ("4k4/9/9/9/9/9/4p4/9/4K4 w p 1", "P*5d", "a second pawn on its column"),
    # Where a piece could never move again it must promote, and can't be dropped.
    ("8k/4P4/9/9/9/9/9/9/4K4 b - 1", "5b5a", "the piece could never move again"),
    ("8k/4P4/9/9/9/9/9/9/4K4 b - 1", "5b5a+", ""),
    ("8k/9/4N4/9/9/9/9/9/4K4 b - 1", "5c4a", "the piece could never move again"),
    ("8k/9/9/4N4/9/9/9/9/4K4 b - 1", "5d4b", "the piece could never move again"),
    ("8k/9/9/4N4/9/9/9/9/4K4 b - 1", "5d4b+", ""),
    ("8k/9/9/9/4N4/9/9/9/4K4 b - 1", "5e4c", ""),
    ("8k/9/9/9/4N4/9/9/9/4K4 b - 1", "5e4c+", ""),
    ("8k/9/9/9/9/9/9/9/4K4 b NLP 1", "N*5b", "the piece could never move again"),
    ("8k/9/9/9/9/9/9/9/4K4 b NLP 1", "N*5c", ""),
    ("8k/9/9/9/9/9/9/9/4K4 b NLP 1", "L*5a", "the piece could never move again"),
    ("8k/9/9/9/9/9/9/9/4K4 b NLP 1", "P*5a", "the piece could never move again"),
    ("8k/9/9/9/9/9/9/9/4K4 w lp 1", "L*5i", "an own piece stands there, or a drop needs an empty point"),
    ("8k/9/9/9/9/9/9/9/4K4 w lp 1", "L*6i", "the piece could never move again"),
    # Promotion by a move into, within or out of the zone; not outside, not for kings and golds, not twice.
    ("8k/9/9/4S4/9/9/9/9/4K4 b - 1", "5d5c+", ""),
    ("8k/9/4S4/9/9/9/9/9/4K4 b - 1", "5c4d+", ""),
    ("8k/9/9/4S4/9/9/9/9/4K4 b - 1", "5d4e+", "it can't promote there"),
    ("8k/9/4G4/9/9/9/9/9/4K4 b - 1", "5c5b+", "it can't promote there"),
    ("8k/9/4+S4/9/9/9/9/9/4K4 b - 1", "5c5b+", "it can't promote there"),
    ("4k4/9/9/9/9/4r4/9/9/K8 w - 1", "5f5g+", ""),
    # Drops: from the hand, onto empty points, unpromoted.
    ("4k4/9/9/9/9/9/9/9/4K4 b G 1", "S*5e", "there is none in hand"),
    ("4k4/9/9/9/9/9/9/9/4K4 b Gs 1", "S*5e", "there is none in hand"),
    ("4k4/9/9/9/9/9/9/9/4K4 b G 1", "G*5a", "an own piece stands there, or a drop needs an empty point"),
    # A king may not stay in check, nor step into one; a pinned piece stays on its line.
    ("k3r4/9/9/9/9/9/9/9/4K4 b G 1", "G*4h", "the king could be taken"),
    ("k3r4/9/9/9/9/9/9/9/4K4 b G 1", "G*5h", ""),
    ("k3r4/9/9/9/9/9/9/9/4K4 b G 1", "5i5h", "the king could be taken"),
    ("k3r4/9/9/9/9/9/4G4/9/4K4 b - 1", "5g4g", "the king could be taken"),
    ("k3r4/9/9/9/9/9/4G4/9/4K4 b - 1", "5g5f", ""),
    ("k8/9/9/9/9/9/9/4r4/4K4 b - 1", "5i5h", ""),
    ("k8/9/9/9/9/9/4p4/4r4/4K4 b - 1", "5i5h", "the king could be taken"),
    # A dropped pawn may give check, and a moved one may mate, but a dropped one may not mate; unless by no check.
    ("3nkn3/3p1p3/4S4/9/9/9/9/9/4K4 b P 1", "P*5b", "a pawn may not mate by being dropped"),
    ("3nkn3/3g1p3/4S4/9/9/9/9/9/4K4 b P 1", "P*5b", ""),
    ("3nkn3/3p1r3/4S4/9/9/9/9/9/4K4 b P 1", "P*5b", ""),
    ("3nk4/3p1p3/4S4/9/9/9/9/9/4K4 b P 1", "P*5b", ""),
    ("3nkn3/3p1p3/9/9/9/9/9/9/4K4 b P 1", "P*5b", ""),
    ("3nkn3/3p1p3/4P4/4L4/9/9/9/9/4K4 b - 1", "5c5b", ""),
    # The gold could take the pawn; pinned by the rook it can't.
    ("3nkg3/3p1p3/4S4/9/9/9/9/9/4K4 b P 1", "P*5b", ""),
    ("3nkg1R1/3p1p3/4S4/9/9/9/9/9/4K4 b P 1", "P*5b", "a pawn may not mate by being dropped"),
    ("8k/9/9/9/9/9/9/9/4K4 b - 1", "5i5h+", "it can't promote there"),
]


@pytest.mark.parametrize(("sfen", "move", "why"), MOVES)
def test_moves(sfen: str, move: str, why: str) -> None:
    game = parse_game("shogi")
    state = game.from_sfen(sfen)
    if why:
        assert refused(game, state, move) == why
    else:
        assert move in moves_of(game, state)
        played(game, state, move)


def test_a_pawn_that_leaves_no_move_without_check_wins() -> None:
    """Without a legal move a player loses even if not in check; the rule about pawn drops is about mates only."""
    game = parse_game("shogi")
    for start, move in (("k8/9/9/P8/9/9/9/9/1R6K b - 1", "9d9c"), ("k8/9/9/9/9/9/9/9/1R6K b P 1", "P*9c")):
        stuck, _ = played(game, game.from_sfen(start), move)
        assert game.ends(stuck)[0] == kernels.NO_MOVE and not game.in_check(stuck)[0] and game.returns(stuck)[0] == 1


def test_captured_pieces_go_to_the_hand_unpromoted() -> None:
    game = parse_game("shogi")
    state, _ = played(game, game.from_sfen("4k4/9/9/4+r4/4P4/9/9/9/4K4 b - 1"), "5e5d")
    assert game.sfen(state[0]) == "4k4/9/9/4P4/9/9/9/9/4K4 w R 2"


def test_the_fourth_occurrence_is_a_draw() -> None:
    game = parse_game("shogi")
    around = "2h3h 8b7b 3h2h 7b8b "
    state, history = played(game, game.initial(1), around * 2 + "2h3h 8b7b 3h2h")
    assert not game.is_over(state)[0]
    action = np.array([game.parse_move(state[0], "7b8b")])
    over = game.play(state, action, history)
    assert game.ends(over)[0] == kernels.REPETITION and game.returns(over)[0] == 0 and not game.cut_short(over)[0]
    assert not game.is_over(game.play(state, action, NO_HISTORY))[0], "without the past it has occurred once"


def test_the_planes_count_occurrences() -> None:
    game = parse_game("shogi")
    names = [game.plane_names.index(name) for name in ("second occurrence", "third occurrence")]
    for times, wanted in ((0, [0, 0]), (1, [1, 0]), (2, [1, 1])):
        state, _ = played(game, game.initial(1), "2h3h 8b7b 3h2h 7b8b " * times)
        planes = game.observe(state, game.legal(state, NO_HISTORY))
        assert planes[0, names, 4, 4].tolist() == wanted


def test_hands_are_part_of_a_position() -> None:
    """The initial board occurs again, with other hands, after pieces were exchanged and dropped."""
    game = parse_game("shogi")
    first = game.from_sfen("4k4/9/9/9/9/9/9/9/4K4 b Pp 1")
    other = game.from_sfen("4k4/9/9/9/9/9/9/9/4K4 b 2P 1")
    turned = game.from_sfen("4k4/9/9/9/9/9/9/9/4K4 w Pp 1")
    assert len({int(game.keys(state)[0]) for state in (first, other, turned)}) == 3


PERPETUAL = [  # the rook follows the king; who gives check, is it with every move?
    ("8k/9/9/9/9/9/9/7R1/K8 b - 1", "2h1h 1a2a 1h2h 2a1a " * 3, kernels.PERPETUAL_CHECK, -1),
    ("k8/9/9/9/9/9/9/7r1/8K w - 1", "2h1h 1i2i 1h2h 2i1i " * 3, kernels.PERPETUAL_CHECK, 1),
    ("8k/9/9/9/9/9/9/7R1/K8 b - 1", "2h3h 1a2a 3h2h 2a1a " * 3, kernels.REPETITION, 0),
    ("8k/9/9/9/9/9/9/6R2/K8 b - 1", "3h1h 1a2a 1h3h 2a1a " * 3, kernels.REPETITION, 0),
    # The position of the first check is the first to come up four times.
    ("8k/9/9/9/9/9/9/6R2/K8 b - 1", "3h1h " + "1a2a 1h2h 2a1a 2h1h " * 3, kernels.PERPETUAL_CHECK, -1),
    # A quiet move before the position first came up is no excuse.
    ("8k/9/9/9/9/9/9/5R3/K8 b - 1", "4h3h 1a2a 3h2h " + "2a1a 2h1h 1a2a 1h2h " * 3, kernels.PERPETUAL_CHECK, -1),
]  # fmt: skip


@pytest.mark.parametrize(("start", "moves", "end", "result"), PERPETUAL)
def test_perpetual_check_loses(start: str, moves: str, end: int, result: int) -> None:
    game = parse_game("shogi")
    *before, last = moves.split()
    state, history = played(game, game.from_sfen(start), " ".join(before))
    assert not game.is_over(state)[0]
    state = game.play(state, np.array([game.parse_move(state[0], last)]), history)
    assert game.ends(state)[0] == end and game.returns(state)[0] == result


def test_in_minishogi_the_first_player_loses_by_repetition() -> None:
    game = parse_game("shogi:5")
    around = "2e3d 4a3b 3d2e 3b4a "
    state, _ = played(game, game.initial(1), around * 3)
    assert game.ends(state)[0] == kernels.REPETITION and game.returns(state)[0] == -1


TEN = "1+P+P+P+P+P+P2/K+P+P+P+P4/9"  # the first player's king and ten pieces, 10 points
# What the first player has in hand beside those ten, and what follows once it is the first player's turn.
DECLARED = [
    ("shogi", f"{TEN}/9/9/9/9/9/8k w 2R2B 1", "1i2i", kernels.DECLARATION, 1),  # 10 + 20 points
    ("shogi", f"{TEN}/9/9/9/9/9/8k w 2RB3G 1", "1i2i", kernels.DECLARATION, 1),  # 28
    ("shogi", f"{TEN}/9/9/9/9/9/8k w 2RB2G 1", "1i2i", 0, 0),  # 27 are too few for the first player
    ("shogi", "1+P+P+P+P+P+P2/K+P+P+P5/9/9/9/9/9/9/8k w 2R2B4G4S 1", "1i2i", 0, 0),  # nine pieces
    ("shogi", "1+P+P+P+P+P+P2/1+P+P+P+P4/9/K8/9/9/9/9/8k w 2R2B4G4S 1", "1i2i", 0, 0),  # the king is outside
    ("shogi", f"{TEN}/9/9/9/9/9/1r6k w R2B4G4S 1", "8i9i", 0, 0),  # in check
    ("shogi,declaration=24", f"{TEN}/9/9/9/9/9/8k w 2R2BG 1", "1i2i", kernels.DECLARATION, 1),  # 31
    ("shogi,declaration=24", f"{TEN}/9/9/9/9/9/8k w 2R2B 1", "1i2i", 0, 0),  # 30, the other king isn't in
    ("shogi,declaration=off", f"{TEN}/9/9/9/9/9/8k w 2R2B 1", "1i2i", 0, 0),
    # The second player needs 27 only: the board turned.
    ("shogi", "K8/9/9/9/9/9/9/4+p+p+p+pk/2+p+p+p+p+p+p1 b 2rb2g 1", "9a8a", kernels.DECLARATION, -1),
    ("shogi", "K8/9/9/9/9/9/9/4+p+p+p+pk/2+p+p+p+p+p+p1 b 2rbg 1", "9a8a", 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "sfen", "move", "end", "result"), DECLARED)
def test_declarations(spec: str, sfen: str, move: str, end: int, result: int) -> None:
    game = parse_game(spec)
    state, _ = played(game, game.from_sfen(sfen), move)
    assert (game.ends(state)[0], game.returns(state)[0]) == (end, result), game.diagram(state[0])


def test_a_game_goes_on_behind_a_declaration_that_nobody_made() -> None:
    """It also goes on after a repetition, but not after a mate."""
    game = parse_game("shogi")
    state, history = played(game, game.from_sfen(f"{TEN}/9/9/9/9/9/8k w 2R2B 1"), "1i2i")
    assert game.is_over(state)[0] and not game.is_over(game.played_on(state))[0]
    after = game.play(game.played_on(state), np.array([game.parse_move(state[0], "R*9i")]), history)
    assert not game.is_over(after)[0] and game.to_move(after)[0] == 1
    names = ["1i2i", "R*9i", "2i1h", "9i9h"]
    start = game.from_sfen(f"{TEN}/9/9/9/9/9/8k w 2R2B 1")
    actions, here = [], start
    for name in names:
        actions.append(game.parse_move(here[0], name))
        here = game.play(game.played_on(here), np.array(actions[-1:]), NO_HISTORY)
    assert game.line_names(start, actions) == names
    repeated, _ = played(game, game.initial(1), "2h3h 8b7b 3h2h 7b8b " * 3)
    assert game.ends(repeated)[0] == kernels.REPETITION and not game.is_over(game.played_on(repeated))[0]
    mated, _ = played(game, game.from_sfen("4k4/9/4P4/9/9/9/9/9/4K4 b G 1"), "G*5b")
    assert game.is_over(game.played_on(mated))[0]


def test_both_kings_entered_with_24_points_draw() -> None:
    game = parse_game("shogi,declaration=24")
    start = "1+P+P+P+P+P+P2/1+P+P+S+S4/9/K8/9/9/9/4+p+p+s+sk/2+p+p+p+p+p+p1 b RB4Lrb4g4n2p 1"
    state, _ = played(game, game.from_sfen(start), "9d9c")  # 10 + 10 + 4 points, and 10 + 10 + 10
    assert game.ends(state)[0] == kernels.BOTH_ENTERED and game.returns(state)[0] == 0
    state, _ = played(game, game.from_sfen(start.replace("4L", "3L")), "9d9c")
    assert not game.is_over(state)[0], "the first player has 23"


def test_the_move_limit_cuts_a_game_short() -> None:
    game = parse_game("shogi,moves=2")
    state, _ = played(game, game.initial(1), "7g7f 3c3d")
    assert game.cut_short(state)[0] and game.returns(state)[0] == 0
    assert game.ends(state)[0] == kernels.MOVE_LIMIT
    free, _ = played(game.without_move_limit(), game.initial(1), "7g7f 3c3d 8h2b+")
    assert not game.is_over(free)[0]


def test_a_mate_at_the_move_limit_counts() -> None:
    start = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
    state, _ = played(parse_game("shogi,moves=100"), parse_game("shogi").from_sfen(start.replace(" 1", " 100")), "G*5b")
    assert parse_game("shogi").ends(state)[0] == kernels.NO_MOVE


@pytest.mark.parametrize("spec", ["shogi", "shogi:5"])
def test_sfen_and_usi_round_trip(spec: str) -> None:
    game = parse_game(spec)
    words = kernels.words_of(game.num_points)
    for step in random_games(game, 3, 1):
        for i, state in enumerate(step.states):
            again = game.from_sfen(game.sfen(state))
            for word in (kernels.REPEATS, kernels.LAST):  # it doesn't carry these
                again[0, words + word] = state[words + word]
            assert (again[0] == state).all()
            for action in np.flatnonzero(step.legal[i]).tolist():
                name = game.move_name(state, action)
                assert game.parse_move(state, name) == game.parse_move(state, f" {name.upper()} ") == action


SFENS = [
    ("lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNK b - 1", "2 kings of the first player"),
    ("lnsg1gsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1", "0 kings of the second player"),
    ("4k4/9/9/9/9/9/9/4K4 b - 1", "8 rows"),
    ("4k4/9/9/9/9/9/9/9/4K3 b - 1", "row 9 is '4K3'"),
    ("4k4/9/9/9/9/9/9/9/4K5 b - 1", "row 9 is '4K5'"),
    ("4k4/9/9/9/9/9/9/9/4K31PPPPPPPPPP b - 1", "row 9"),
    ("4k4/9/9/9/9/9/9/9/4K4 b", "2 fields"),
    ("4k4/9/9/9/9/9/9/9/4K4 x - 1", "'x' to move"),
    ("4k4/9/9/9/9/9/9/9/4K4 b 0P 1", "hands '0P'"),
    ("4k4/9/9/9/9/9/9/9/4K4 b K 1", "hands 'K'"),
    ("4k4/9/9/9/9/9/9/9/4K4 b 19P 1", "19 of P"),
    ("4k4/9/9/9/9/9/9/9/4K4 b 99P99p 1", "198 of P"),
    ("4k4/9/9/9/9/9/9/9/4K4 b 2R2r 1", "4 of R"),
    ("4k4/9/9/9/9/9/9/9/4K4 b - x", "'x' as the number"),
    ("4k4/9/4P4/4P4/9/9/9/9/4K4 b - 1", "two pawns on column 5"),
    ("4k3P/9/9/9/9/9/9/9/4K4 b - 1", "P in row a can never move again"),
    ("4k4/9/9/9/9/9/9/4n4/4K4 b - 1", "n in row h can never move again"),
    ("4k4/9/9/9/9/9/9/9/4K+G3 b - 1", "no piece is written +G"),
    ("4k4/9/9/9/9/9/9/9/4KX3 b - 1", "no piece is written X"),
    ("4k4/9/9/9/4R4/9/9/9/4K4 b - 1", "the player who isn't to move is in check"),
    ("", "0 fields"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), SFENS)
def test_a_wrong_sfen_is_refused_with_a_reason(text: str, found: str) -> None:
    with pytest.raises(IllegalMove) as raised:
        parse_game("shogi").from_sfen(text)
    assert found in str(raised.value) and repr(text) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "7g", "7g7f7e", "7g7z", "0g7f", "7g7h", "7g7d", "8h2b", "P*5e+", "K*5e", "5i5i"])
def test_garbage_is_no_move(text: str) -> None:
    game = parse_game("shogi")
    state = game.initial(1)
    with pytest.raises(IllegalMove):
        game.play(state, np.array([game.parse_move(state[0], text)]), NO_HISTORY)


@pytest.mark.parametrize(
    "spec",
    ["shogi:7", "shogi,komi=7", "shogi,declaration=28", "shogi:5,declaration=27", "shogi,moves=1", "shogi,moves=x"],
)
def test_unknown_specs_are_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="shogi"):
        parse_game(spec)


def test_planes_show_the_mover_s_view() -> None:
    """Both players see the same initial position but for the player to move; a turned position gives turned planes."""
    game = parse_game("shogi")
    start = game.initial(1)
    turned = game.from_sfen(game.sfen(start[0]).replace(" b ", " w "))
    first, second = (game.observe(state, game.legal(state, NO_HISTORY))[0] for state in (start, turned))
    differs = [name for name, a, b in zip(game.plane_names, first, second, strict=True) if (a != b).any()]
    assert differs == ["second player to move"]
    assert (game.legal(start, NO_HISTORY) == game.legal(turned, NO_HISTORY)).all()


def test_planes_of_one_position() -> None:
    game = parse_game("shogi")
    state = game.from_sfen("4k4/9/9/4+r4/9/9/4N4/9/3K5 b 3PB 1")
    planes = dict(zip(game.plane_names, game.observe(state, game.legal(state, NO_HISTORY))[0], strict=True))
    assert np.flatnonzero(planes["own knight"]).tolist() == [6 * 9 + 4]
    assert np.flatnonzero(planes["opponent's promoted rook"]).tolist() == [3 * 9 + 4]
    assert [int(planes[f"own hand, {n} pawn"][0, 0]) for n in range(1, 9)] == [1, 1, 1, 0, 0, 0, 0, 0]
    assert [int(planes[f"own hand, {n} bishop"].sum()) for n in (1, 2)] == [81, 0]
    # The knight attacks two points, the king eight, none of them twice; the rook what it sees.
    assert planes["own attacks, 1"].sum() == 2 + 5 and planes["own attacks, 2"].sum() == 0
    # Its row and column (to the king behind it, and the knight before it), and four points beside it diagonally.
    assert planes["opponent's attacks, 1"].sum() == 8 + 3 + 3 + 4 + 4
    assert not planes["in check"].any() and not planes["last move"].any()


def test_a_heuristic_mates_takes_and_saves() -> None:
    game = parse_game("shogi")
    evaluate = game.heuristic()
    assert evaluate is not None

    def best(sfen: str) -> str:
        state = game.from_sfen(sfen)
        return game.move_name(state[0], int(evaluate(state, NO_HISTORY)[0].argmax()))

    assert best("4k4/9/4P4/9/9/9/9/9/4K4 b G 1") == "G*5b"
    assert best("k8/9/9/9/4r4/9/9/4R4/K8 b - 1") == "5h5e"
    assert best("k8/9/9/4p4/4r4/9/9/4R4/K8 w - 1") == "5e5h+"
    assert best("4k4/9/9/4p4/4R4/9/9/9/4K4 b - 1") == "5e5d"
    saved = best("4k4/9/9/3gp4/4R4/9/9/9/4K4 b - 1")
    assert saved.startswith("5e") and saved != "5e5d"
