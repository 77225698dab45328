"""Backgammon's rules on boards; its kernels against the plain twin, GNU Backgammon and OpenSpiel.

Boards are written as in boards.py: point → checkers, each player counting from their own side.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.backgammon.game import MAX_PLIES, THROW_NAMES, THROWS, Backgammon
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE, NUM_POINTS, PLY, TURN
from pipeline.games.contract import CHANCE, States
from pipeline.games.specs import parse_game
from tests.families.backgammon.boards import board, mirrored, random_positions, seen_by, with_every_throw
from tests.games.playing import NO_HISTORY

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")
GAMES = [BACKGAMMON, HYPERGAMMON]


def names(state: States, game: Backgammon = BACKGAMMON) -> list[str]:
    return [game.move_name(state[0], action) for action in range(len(game.successors(state).states))]


def test_the_start() -> None:
    for game, points in ((BACKGAMMON, {24: 2, 13: 5, 8: 3, 6: 5}), (HYPERGAMMON, {24: 1, 23: 1, 22: 1})):
        start = game.initial(1)[0]
        for player in range(2):
            mine = seen_by(start, player).mine
            assert {point: count for point, count in enumerate(mine) if count} == points


def test_the_opening_throw_shows_two_different_dice() -> None:
    state = BACKGAMMON.initial(2)
    assert BACKGAMMON.to_move(state).tolist() == [CHANCE, CHANCE]
    chances = dict(zip(THROW_NAMES, BACKGAMMON.chance(state)[1].tolist(), strict=True))
    assert all(p == (0 if name[0] == name[1] else pytest.approx(1 / 15)) for name, p in chances.items())
    with pytest.raises(IllegalMove, match=r"row 1: action 0 \(11\): no such move"):
        BACKGAMMON.play(state, np.array([1, 0], np.int32), NO_HISTORY)
    after = BACKGAMMON.play(state, np.array([1, 3], np.int32), NO_HISTORY)
    assert after[:, [HIGH_DIE, LOW_DIE]].tolist() == [[2, 1], [3, 1]] and BACKGAMMON.to_move(after).tolist() == [0, 0]


def test_later_throws_have_the_chances_of_two_dice() -> None:
    chances = dict(zip(THROW_NAMES, BACKGAMMON.chance(board({6: 15}, {6: 15}))[0].tolist(), strict=True))
    pairs = Counter(f"{max(one, other)}{min(one, other)}" for one in range(1, 7) for other in range(1, 7))
    assert chances == {name: pytest.approx(count / 36) for name, count in pairs.items()}


def test_the_sixteen_ways_to_play_the_opening_31() -> None:
    state = BACKGAMMON.happen(BACKGAMMON.initial(1), np.array([THROW_NAMES.index("31")]))
    assert names(state) == [
        "24/23 24/21", "24/20", "24/21 8/7", "24/21 6/5", "24/23 13/10", "24/23 8/5", "24/23 6/3", "13/9",
        "13/10 8/7", "13/10 6/5", "8/7 8/5", "8/5 6/5", "8/4", "8/7 6/3", "6/5 6/3", "6/2",
    ]  # fmt: skip


# The opponent's only checkers; points are seen from there: their 11 is the mover's 14.
AWAY = {25: 1}
LEGAL_TURNS = [
    # Two checkers far from anything: each with one die, or one with both.
    ({20: 1, 18: 1}, AWAY, "21", ["20/17", "20/19 18/16", "18/15"]),
    # The bar comes first, and only with a die whose point is open.
    ({25: 1, 10: 1}, {3: 2}, "31", ["bar/21", "bar/24 10/7"]),
    ({25: 1, 10: 1}, {3: 2, 1: 2}, "31", ["pass"]),
    # Two on the bar, one die enters: the other checker stays, and nothing else moves.
    ({25: 2, 10: 1}, {3: 2}, "31", ["bar/24"]),
    ({25: 1, 10: 1}, {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2}, "65", ["pass"]),
    # Either die can be played, but not both: the larger.
    ({20: 1}, {16: 2}, "65", ["20/14"]),
    # Only the smaller can be played.
    ({20: 1}, {11: 2, 16: 2}, "65", ["20/15"]),
    # Both can be played, the smaller first.
    ({20: 1, 3: 2}, {11: 2}, "65", ["20/9"]),
    # 20/14 alone is no turn, though the larger die could be played: 20/15 leaves it for the other checker.
    ({20: 1, 10: 1}, {16: 2, 20: 2}, "65", ["20/15 10/4"]),
    # A double is four moves, or as many as are possible.
    ({20: 1}, AWAY, "44", ["20/4"]),
    ({20: 1}, {17: 2}, "44", ["20/12"]),
    ({24: 1, 20: 2}, {13: 2}, "44", ["24/16 20/16(2)"]),
    # A blot is hit only by who lands on it.
    ({20: 1}, {7: 1}, "21", ["20/17", "20/18*/17"]),
    # Bearing off, exactly or from the highest point if that is lower.
    ({6: 1, 4: 1}, AWAY, "64", ["6/off 4/off", "6/2 4/off"]),
    ({5: 1, 2: 1}, AWAY, "64", ["5/off 2/off", "5/1 2/off"]),
    ({6: 1, 2: 2}, AWAY, "41", ["6/1"]),
    # Not with a checker outside; it may come home in the same turn.
    ({8: 1, 3: 1}, AWAY, "31", ["8/4", "8/5 3/2"]),
    ({7: 1, 3: 1}, AWAY, "31", ["7/3", "7/4 3/2", "7/6 3/off"]),
    # 6/off would end the game with one die, but both can be played: the opponent is hit first.
    ({6: 1}, {20: 1, 1: 1}, "61", ["6/5*/off"]),
    ({1: 1}, AWAY, "65", ["1/off"]),
    ({3: 4, 1: 1}, AWAY, "33", ["3/off(4)"]),
    ({2: 2}, AWAY, "66", ["2/off(2)"]),
]


@pytest.mark.parametrize(("mine", "theirs", "dice", "wanted"), LEGAL_TURNS)
@pytest.mark.parametrize("mover", [0, 1])
def test_legal_turns(mine: dict[int, int], theirs: dict[int, int], dice: str, wanted: list[str], mover: int) -> None:
    assert sorted(names(board(mine, theirs, dice, mover))) == sorted(wanted)


def test_a_turn_changes_the_board_the_bar_and_whose_turn_it_is() -> None:
    for mover in range(2):
        state = board({25: 1, 10: 1}, {4: 1, 12: 3}, "43", mover)
        after = BACKGAMMON.play(state, np.array([BACKGAMMON.parse_move(state[0], "bar/21*/18")]), NO_HISTORY)
        wanted = board({18: 1, 10: 1}, {25: 1, 12: 3}, mover=mover)
        wanted[0, TURN], wanted[0, PLY] = 1 - mover, 21
        assert after.tolist() == wanted.tolist()
        assert BACKGAMMON.to_move(after)[0] == CHANCE and BACKGAMMON.turns(after)[0] == 1 - mover


@pytest.mark.parametrize(
    ("loser", "points"),
    [
        ({6: 14}, 1),  # has one off, wherever the others are
        ({25: 1, 24: 13}, 1),
        ({6: 15}, 2),
        ({18: 1, 6: 14}, 2),  # their point 18 is the winner's 7
        ({19: 1, 6: 14}, 3),
        ({24: 1, 6: 14}, 3),
        ({25: 1, 6: 14}, 3),
    ],
)
def test_points_for_a_game(loser: dict[int, int], points: int) -> None:
    for winner, sign in ((0, 1), (1, -1)):
        state = board({}, loser, mover=winner)
        for ended in (state, np.where(np.arange(state.shape[1]) == TURN, 1 - state, state)):  # whoever's turn it is
            assert BACKGAMMON.is_over(ended).all() and BACKGAMMON.to_move(ended)[0] != CHANCE
            assert BACKGAMMON.returns(ended).tolist() == [sign * points]
            reduced = parse_game("backgammon,reward=2.5").returns(ended)
            assert reduced.tolist() == [sign * (2.5 if points == 3 else points)]
            assert abs(reduced[0]) <= parse_game("backgammon,reward=2.5").max_result == 2.5
            assert len(BACKGAMMON.successors(ended).states) == 0


def test_a_hypergammon_counts_like_backgammon() -> None:
    for loser, points in (({3: 2}, 1), ({3: 3}, 2), ({3: 2, 22: 1}, 3), ({3: 2, 25: 1}, 3)):
        assert HYPERGAMMON.returns(board({}, loser, checkers=3)).tolist() == [points]


def test_a_game_without_end_is_cut_off_and_nobodys() -> None:
    states = np.concatenate([board({6: 15}, {6: 15}, dice) for dice in ("00", "31")])
    states[:, PLY] = MAX_PLIES
    assert BACKGAMMON.is_over(states).all() and not BACKGAMMON.returns(states).any()
    assert CHANCE not in BACKGAMMON.to_move(states)
    assert BACKGAMMON.moves(states, NO_HISTORY).counts.tolist() == [0, 0]
    with pytest.raises(IllegalMove, match="the game is over"):
        BACKGAMMON.play(states, np.zeros(2, np.int32), NO_HISTORY)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.spec)
def test_kernels_equal_the_plain_twin(game: Backgammon) -> None:
    states, ends = random_positions(game, 60, 1)
    states = with_every_throw(states[:2000])
    found = game.successors(states)
    for i, state in enumerate(states):
        mover = int(state[TURN])
        wanted = seen_by(state, mover).successors(int(state[HIGH_DIE]), int(state[LOW_DIE]))
        after = found.states[found.offsets[i] : found.offsets[i + 1]]
        assert [seen_by(one, mover) for one in after] == wanted, game.diagram(state)
        assert (after[:, [TURN, HIGH_DIE, LOW_DIE, PLY]] == [1 - mover, 0, 0, state[PLY] + 1]).all()
    assert [seen_by(end, 0).points_won() for end in ends] == game.returns(ends).tolist()
    assert set(game.returns(ends).tolist()) == {-3, -2, -1, 1, 2, 3}


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.spec)
def test_players_exchanged_everything_is_the_other_way_round(game: Backgammon) -> None:
    states, ends = random_positions(game, 40, 2)
    found, swapped = game.successors(states), game.successors(mirrored(states))
    assert (found.offsets == swapped.offsets).all()
    assert (mirrored(found.states) == swapped.states).all()
    assert (game.returns(mirrored(ends)) == -game.returns(ends)).all()


def test_successors_do_not_depend_on_how_many_positions_are_asked_about() -> None:
    spread = board({24: 3, 20: 3, 16: 3, 12: 3, 8: 3}, AWAY, "11")
    states = np.concatenate([random_positions(BACKGAMMON, 20, 3)[0], np.repeat(spread, 1000, axis=0)])
    together = BACKGAMMON.successors(states)
    assert np.diff(together.offsets)[-1000:].tolist() == [185] * 1000  # more than there was room for at first
    for part in np.array_split(np.arange(len(states)), 20):
        alone = BACKGAMMON.successors(states[part])
        assert (alone.states == together.states[together.offsets[part[0]] : together.offsets[part[-1] + 1]]).all()


def test_gnu_backgammon_finds_the_same_turns() -> None:
    gnubg = pytest.importorskip("gnubg_nn", reason="GNU Backgammon isn't installed: pip install gnubg-nn")

    def key(state: np.ndarray, mover: int) -> str:
        one = seen_by(state, mover)
        return gnubg.key_of_board([list(one.theirs[1:]), list(one.mine[1:])])  # each player's points, then the bar

    met = Counter[str]()
    for game, num_games in ((BACKGAMMON, 50), (HYPERGAMMON, 40)):
        states = with_every_throw(random_positions(game, num_games, 4)[0][:4000])
        found = game.successors(states)
        for i, state in enumerate(states):
            mover = int(state[TURN])
            one = seen_by(state, mover)
            turns = gnubg.moves([list(one.theirs[1:]), list(one.mine[1:])], int(state[HIGH_DIE]), int(state[LOW_DIE]))
            after = found.states[found.offsets[i] : found.offsets[i + 1]]
            assert sorted({key(end, mover) for end in after}) == sorted(set(turns) or {key(state, mover)}), (
                game.diagram(state)
            )
            farthest = [max(point for point in range(26) if side[point]) for side in (one.mine, one.theirs)]
            met["bar"] += one.mine[25] > 0
            met["bearing off"] += farthest[0] <= 6
            met["race"] += sum(farthest) < 25
            met["pass"] += not turns
            met["throws " + "".join(map(str, state[[HIGH_DIE, LOW_DIE]]))] += 1
    assert min(met.values()) > 150 and len(met) == 4 + len(THROWS), met


@pytest.mark.parametrize(
    ("game", "options", "num_games"), [(BACKGAMMON, "", 12), (HYPERGAMMON, ",hyper_backgammon=true", 30)]
)
def test_open_spiel_plays_the_same_games(game: Backgammon, options: str, num_games: int) -> None:
    """Whole games. There a double is two turns of two checkers, unless nothing is left to move after the first."""
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel isn't installed: pip install open_spiel")
    oracle = pyspiel.load_game(f"backgammon(scoring_type=full_scoring{options})")
    rng = np.random.default_rng(5)

    def points(other) -> tuple[int, ...]:
        return tuple(other.board(player, point) for player in range(2) for point in range(NUM_POINTS))

    def own_points(state: np.ndarray) -> tuple[int, ...]:
        return (*state[NUM_POINTS - 1 :: -1].clip(0).tolist(), *(-state[NUM_POINTS - 1 :: -1]).clip(0).tolist())

    results = Counter[float]()
    for _ in range(num_games):
        states, other = game.initial(1), oracle.new_initial_state()
        while not game.is_over(states)[0]:
            assert not other.is_terminal() and own_points(states[0]) == points(other)
            chances = game.chance(states)[0].astype(np.float64)
            throw = int(rng.choice(len(THROWS), p=chances / chances.sum()))
            states = game.happen(states, np.array([throw]))
            # Its opening throws also say who starts; the first player here is its X.
            outcomes = {other.action_to_string(outcome): outcome for outcome, _ in other.chance_outcomes()}
            wanted = f"(roll: {THROW_NAMES[throw][::-1]})"
            other.apply_action(next(o for text, o in outcomes.items() if wanted in text and "O starts" not in text))
            assert other.current_player() == states[0, TURN]
            ends = [other.child(action) for action in other.legal_actions()]
            if THROWS[throw, 0] == THROWS[throw, 1]:
                ends = [
                    end
                    for half in ends
                    for end in (map(half.child, half.legal_actions()) if half.is_player_node() else [half])
                ]
            theirs = {points(end): end for end in ends}
            after = game.successors(states).states
            assert sorted(theirs) == sorted(map(own_points, after)), game.diagram(states[0])
            states = after[rng.integers(len(after))][None]
            other = theirs[own_points(states[0])]
        assert other.is_terminal()
        results[float(game.returns(states)[0])] += 1
        if game is BACKGAMMON:  # in its hypergammon it counts nothing: it waits for 15 checkers
            assert other.returns()[0] == game.returns(states)[0], game.diagram(states[0])
    assert len(results) >= 4
