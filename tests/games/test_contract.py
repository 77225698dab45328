"""What every game promises (pipeline/games/contract.py), checked on positions of random games.

Here is every registered game with a fixed list of actions; test_any_game.py has the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.extensions import GAMES, bundled
from pipeline.games.contract import Game, History, States, board_symmetries
from pipeline.games.specs import parse_game
from pipeline.games.stones import BoardGame
from tests.games.playing import (
    OTHERS,
    SPECS,
    boards_of,
    name_of,
    random_games,
    sample_positions,
    stones_of,
    symmetries_of_start,
)

NUM_GAMES = {"go:13": 6, "go:19": 2, "shogi": 4, "shogi,declaration=24,moves=300": 6, "gomoku:19,capture,pairs=7": 3}
SHARES = {"tictactoe": 0.5, "go:9": 0.04, "go:9,komi=7": 0.04, "go:13": 0.01, "go:19": 0.006,
          "gomoku:15": 0.02, "gomoku:19,capture,pairs=7": 0.01,
          "shogi": 0.006, "shogi,declaration=24,moves=300": 0.004, "shogi:5": 0.02}  # fmt: skip
LIMITED = {"go", "shogi"}  # whose games are ended by a limit on their length
NUM_SYMMETRIES = {"connect4": 2, "shogi": 1}  # of games with fewer than their board: stones fall, rooks stand right


@dataclass(frozen=True)
class Sample:
    game: Game
    states: States
    history: History


@pytest.fixture(scope="module", params=SPECS)
def sample(request: pytest.FixtureRequest) -> Sample:
    game = parse_game(request.param)
    return Sample(game, *sample_positions(game, NUM_GAMES.get(game.spec, 12), 1, SHARES.get(game.spec, 0.08)))


def verbs(sample: Sample, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Everything the contract lets one ask of these rows, name → array with the rows first."""
    game, states, history = sample.game, sample.states[rows], sample.history.select(rows)
    legal = game.legal(states, history)
    looked, seen = game.legal_and_observe(states, history)
    return {
        "legal": legal,
        "look legal": looked,
        "look planes": seen,
        "observe": game.observe(states, legal),
        "is_over": game.is_over(states),
        "returns": game.returns(states),
        "cut_short": game.cut_short(states),
        "to_move": game.to_move(states),
        "plies": game.plies(states),
        "keys": game.keys(states),
        "scores": game.scores(states),
        "ownership": game.ownership(states),
    }


def test_every_registered_game_is_in_the_list() -> None:
    missing = set(bundled(GAMES)) - {name_of(spec) for spec in (*SPECS, *OTHERS)}
    assert not missing, (
        f"no test plays {', '.join(sorted(missing))}: add a spec of each to tests/families/NAME/__init__.py"
    )


def test_shapes_types_and_ranges(sample: Sample) -> None:
    game, B = sample.game, len(sample.states)
    found = verbs(sample, np.arange(B))
    A, P, C = game.num_actions, game.num_points, game.num_planes
    wanted = {
        "legal": ((B, A), np.bool_),
        "look legal": ((B, A), np.bool_),
        "look planes": ((B, C, *game.board_shape), np.uint8),
        "observe": ((B, C, *game.board_shape), np.uint8),
        "is_over": ((B,), np.bool_),
        "cut_short": ((B,), np.bool_),
        "returns": ((B,), np.float32),
        "to_move": ((B,), np.int8),
        "plies": ((B,), np.int32),
        "keys": ((B,), np.uint64),
        "scores": ((B,), np.float32),
        "ownership": ((B, P), np.int8),
    }
    assert {name: (array.shape, array.dtype.type) for name, array in found.items()} == wanted
    assert sample.states.shape == (B, game.state_size) and sample.states.dtype == np.int16
    assert game.initial(3).shape == (3, game.state_size) and game.initial(3).dtype == np.int16
    assert set(np.unique(found["observe"])) <= {0, 1}
    assert set(np.unique(found["ownership"])) <= {-1, 0, 1}
    assert set(np.unique(found["to_move"])) == {0, 1}
    assert (found["look legal"] == found["legal"]).all()
    assert (found["look planes"] == found["observe"]).all()


def test_zero_rows(sample: Sample) -> None:
    none = np.arange(0)
    assert all(len(array) == 0 for array in verbs(sample, none).values())
    game = sample.game
    states = game.initial(0)
    assert len(states) == 0
    assert game.play(states, np.zeros(0, np.int32), game.initial_history(states)).shape == (0, game.state_size)


def test_batch_equals_one_by_one(sample: Sample) -> None:
    rows = np.arange(len(sample.states))
    together = verbs(sample, rows)
    for row in rows:
        alone = verbs(sample, rows[row : row + 1])
        for name, array in alone.items():
            assert (array[0] == together[name][row]).all(), f"{name} of row {row} depends on its neighbours"
    rows, actions = np.nonzero(together["legal"])
    picked = np.random.default_rng(0).permutation(len(rows))[:300]
    rows, actions = rows[picked], actions[picked].astype(np.int32)
    after = sample.game.play(sample.states[rows], actions, sample.history.select(rows))
    for i, row in enumerate(rows):
        one = sample.game.play(sample.states[row : row + 1], actions[i : i + 1], sample.history.select(rows[i : i + 1]))
        assert (one[0] == after[i]).all()


def test_inputs_stay_unchanged_and_outputs_are_fresh(sample: Sample) -> None:
    game = sample.game
    live = np.flatnonzero(~game.is_over(sample.states))
    states, history = sample.states[live], sample.history.select(live)
    legal = game.legal(states, history)
    actions = legal.argmax(axis=1).astype(np.int32)
    inputs = (states, history.keys, history.lengths, legal, actions)
    before = [array.copy() for array in inputs]
    outputs = [
        game.play(states, actions, history),
        game.legal(states, history),
        game.observe(states, legal),
        *game.legal_and_observe(states, history),
        game.is_over(states),
        game.returns(states),
        game.to_move(states),
        game.plies(states),
        game.keys(states),
        game.scores(states),
        game.ownership(states),
    ]
    for array, copy in zip(inputs, before, strict=True):
        assert (array == copy).all()
    assert not any(np.shares_memory(given, made) for given in inputs for made in outputs)


def test_play_accepts_what_legal_allows_and_nothing_else(sample: Sample) -> None:
    game = sample.game
    legal = game.legal(sample.states, sample.history)
    rows, actions = np.nonzero(legal)
    for part in np.array_split(np.arange(len(rows)), 1 + len(rows) // 4000):
        history = sample.history.select(rows[part])
        after = game.play(sample.states[rows[part]], actions[part].astype(np.int32), history)
        assert (game.plies(after) == game.plies(sample.states[rows[part]]) + 1).all()
        assert (game.to_move(after) != game.to_move(sample.states[rows[part]])).all()
    outside = [(row, action) for row in range(len(legal)) for action in (-1, game.num_actions, 30_000)]
    for row, action in [*np.argwhere(~legal), *outside]:
        with pytest.raises(IllegalMove, match=rf"row 0: action {action}\b"):
            game.play(
                sample.states[row : row + 1], np.array([action], np.int32), sample.history.select(np.array([row]))
            )


def test_illegal_move_names_the_first_row_at_fault(sample: Sample) -> None:
    game = sample.game
    states = game.initial(4)
    history = game.initial_history(states)
    first, second = np.flatnonzero(game.legal(states, history)[0])[:2]
    with pytest.raises(IllegalMove, match=r"row 2: action -7\b") as raised:
        game.play(states, np.array([first, second, -7, -8], np.int32), history)
    assert game.spec in str(raised.value) and "\n" not in str(raised.value)


def test_over_means_no_legal_action(sample: Sample) -> None:
    over = sample.game.is_over(sample.states)
    assert (over == ~sample.game.legal(sample.states, sample.history).any(axis=1)).all()
    assert over.any() and not over.all()


def test_returns_are_results_of_finished_games(sample: Sample) -> None:
    game = sample.game
    over, returns = game.is_over(sample.states), game.returns(sample.states)
    assert set(np.unique(returns)) <= {-1, 0, 1}
    assert (returns[~over] == 0).all()
    assert (returns[over] == np.sign(game.scores(sample.states[over]))).all()
    assert np.unique(returns[over]).size > 1 or game.num_points > 100, "the sample shows one result only"


def test_games_end_within_max_plies(sample: Sample) -> None:
    game = sample.game
    plies = np.zeros(3, np.int32)
    for step in random_games(game, 3, 2, pass_share=0):
        assert (game.plies(step.states) == plies[step.rows]).all()
        plies[step.rows] += 1
    assert plies.max() <= game.max_plies


def test_only_the_move_limit_cuts_games_short(sample: Sample) -> None:
    game, states = sample.game, sample.states
    cut = game.cut_short(states)
    assert not (cut & ~game.is_over(states)).any()
    assert not (cut & (game.plies(states) != game.move_limit)).any()
    assert not cut.any() or name_of(game.spec) in LIMITED


def test_first_player_starts(sample: Sample) -> None:
    states = sample.game.initial(2)
    assert (sample.game.to_move(states) == 0).all() and (sample.game.plies(states) == 0).all()
    assert not sample.game.is_over(states).any()
    assert (sample.game.initial_history(states).lengths == 1).all()


def test_keys_are_equal_exactly_where_the_positions_are(sample: Sample) -> None:
    """The same position: the same stones or pieces, or besides the same player to move."""
    game = sample.game
    states = np.concatenate([sample.states, game.initial(1)])
    keys = game.keys(states).tolist()
    boards = boards_of(game, states)
    with_mover = list(zip(boards, game.to_move(states).tolist(), strict=True))
    counts = [(len(set(zip(same, keys, strict=True))), len(set(same))) for same in (boards, with_mover)]
    assert (len(set(keys)),) * 2 in counts


def test_stones_of_planes_are_those_of_the_diagram(sample: Sample) -> None:
    game = sample.game
    if not isinstance(game, BoardGame):
        pytest.skip("only a BoardGame says which planes show stones")
    planes = game.observe(sample.states, game.legal(sample.states, sample.history))
    own, theirs = planes[:, :2].reshape(len(planes), 2, game.num_points).astype(bool).swapaxes(0, 1)
    stones_to_move = stones_of(game, sample.states) * (1 - 2 * game.to_move(sample.states))[:, None]
    assert (own == (stones_to_move == 1)).all() and (theirs == (stones_to_move == -1)).all()


def test_a_move_places_one_stone(sample: Sample) -> None:
    game = sample.game
    if not isinstance(game, BoardGame):
        pytest.skip("only a BoardGame's moves place a stone each")
    turned_over = set()
    for step in random_games(game, 1, 3, pass_share=0):
        side = 1 - 2 * game.to_move(step.states)[0]
        before, after = side * stones_of(game, step.states)[0], side * stones_of(game, step.after)[0]
        passed = int(step.actions[0]) == game.pass_action
        assert ((before == 0) & (after != 0)).sum() == ((before == 0) & (after == 1)).sum() == (0 if passed else 1)
        assert (after[before == 1] == 1).all()  # the mover loses none; the other's may be captured
        assert not passed or (before == after).all()
        if not passed:
            turned_over.add(bool(((before == -1) & (after == 1)).any()))
        if game.plies(step.after)[0] > 60:
            break
    assert len(turned_over) == 1, "either every stone turns others over, as in Othello, or none does"


def test_symmetries_are_permutations_with_inverses(sample: Sample) -> None:
    symmetries, game = sample.game.symmetries, sample.game
    K = symmetries.count
    assert symmetries.actions.shape == (K, game.num_actions) and symmetries.points.shape == (K, game.num_points)
    for table, size in ((symmetries.actions, game.num_actions), (symmetries.points, game.num_points)):
        assert table.dtype == np.int32
        assert (table[0] == np.arange(size)).all()
        assert (np.sort(table, axis=1) == np.arange(size)).all()
        for k in range(K):
            assert (table[symmetries.inverse[k]][table[k]] == np.arange(size)).all()
    board, start = board_symmetries(*game.board_shape).points, stones_of(game, game.initial(1))[0]
    images = {row.tobytes() for row in symmetries.points}
    assert images <= {row.tobytes() for row in board} and len(images) == K
    # All of the board's; where the start isn't symmetric, those that leave it as it is will do.
    kept = board[(start[board] == start).all(axis=1)]
    assert NUM_SYMMETRIES.get(name_of(game.spec), len(board)) == K or images == {row.tobytes() for row in kept}
    if isinstance(game, BoardGame) and game.num_actions >= game.num_points:  # actions are points; others never move
        assert (symmetries.actions[:, : game.num_points] == symmetries.points).all()
        assert (symmetries.actions[:, game.num_points :] == np.arange(game.num_points, game.num_actions)).all()


def test_a_transformed_game_is_the_same_game(sample: Sample) -> None:
    """Play the images of one random game beside it: everything must be transformed alike."""
    game = sample.game
    symmetries, kept = game.symmetries, symmetries_of_start(game)
    images = game.initial(len(kept))
    history = game.initial_history(images)
    everyone = np.arange(len(kept))
    check_from = max(0, game.max_plies - 20) if game.num_points > 100 else 0
    ply = 0
    for step in random_games(game, 1, 5):
        images = game.play(images, symmetries.actions[kept, step.actions[0]], history)
        history.append(everyone, game.keys(images))
        ply += 1
        if ply < check_from and ply % 23 and not game.is_over(step.after)[0]:
            continue
        past = step.history.select(np.arange(1))
        past.append(np.arange(1), game.keys(step.after))
        legal = game.legal(step.after, past)
        image_legal = game.legal(images, history)
        planes = game.observe(step.after, legal).reshape(1, game.num_planes, game.num_points)
        image_planes = game.observe(images, image_legal).reshape(len(kept), game.num_planes, game.num_points)
        ownership, image_ownership = game.ownership(step.after), game.ownership(images)
        for row, k in enumerate(kept):
            assert (image_legal[row, symmetries.actions[k]] == legal[0]).all()
            assert (image_planes[row][:, symmetries.points[k]] == planes[0]).all()
            assert (image_ownership[row, symmetries.points[k]] == ownership[0]).all()
        assert (game.returns(images) == game.returns(step.after)).all()
        assert (game.scores(images) == game.scores(step.after)).all()
        assert (game.is_over(images) == game.is_over(step.after)).all()


def test_action_names_round_trip(sample: Sample) -> None:
    game = sample.game
    names = [game.action_name(action) for action in range(game.num_actions)]
    assert len({name.lower() for name in names}) == game.num_actions
    for action, name in enumerate(names):
        for text in (name, name.lower(), name.upper(), f" {name}\n"):
            assert game.parse_action(text) == action


@pytest.mark.parametrize("text", ["", " ", "?", "A0", "0", "A20", "Z1", "A", "5A", "passs", "-1", "A1 B2", "A-1"])
def test_garbage_is_no_action(sample: Sample, text: str) -> None:
    game = sample.game
    if text.strip().upper() in {game.action_name(action).upper() for action in range(game.num_actions)}:
        pytest.skip("a name of this game")
    with pytest.raises(IllegalMove) as raised:
        game.parse_action(text)
    assert repr(text) in str(raised.value) and game.spec in str(raised.value)


def test_a_heuristic_scores_legal_moves_and_each_row_for_itself(sample: Sample) -> None:
    game = sample.game
    evaluate = game.heuristic()
    if evaluate is None:
        pytest.skip("a game without a heuristic evaluation")
    going = np.flatnonzero(~game.is_over(sample.states))
    states, history = sample.states[going], sample.history.select(going)
    together = evaluate(states, history)
    assert together.dtype == np.float64
    assert (np.isfinite(together) == game.legal(states, history)).all()
    for at in range(len(going)):
        np.testing.assert_array_equal(together[at], evaluate(states[at : at + 1], history.select(np.array([at])))[0])
