"""SGF as another library reads it."""

import numpy as np
import pytest

from pipeline.errors import IllegalMove, MuGoError
from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.sgf import AnotherGame, is_sgf, line_sgf, read_sgf, sgf_name
from pipeline.games.specs import parse_game
from tests.games.playing import game_sgf


def parse(text):
    return pytest.importorskip("sgfmill.sgf").Sgf_game.from_bytes(text.encode())


def random_moves(game, seed):
    rng = np.random.default_rng(seed)
    state = game.initial(1)
    history = game.initial_history(state)
    moves = []
    while not game.is_over(state)[0]:
        moves.append(int(rng.choice(np.flatnonzero(game.legal(state, history)[0]))))
        state = game.play(state, np.array(moves[-1:], np.int32), history)
        history.append(np.array([0]), game.keys(state))
    return moves, state


@pytest.mark.parametrize("charset", ["idna", "punycode", "undefined", "rot13", "base64", "zip", "x", "gb18030"])
def test_no_name_of_an_encoding_breaks_or_delays_it(charset):
    """Some that Python knows are none of texts, raise what no other does, or take forever."""
    text = f"(;GM[1]SZ[5]CA[{charset}]PB[{'é' * 50_000}];B[aa])".encode()
    assert read_sgf(text, parse_game("go:5")).moves == [(0, 0)]


def test_rectangles_set_up_no_more_stones_than_there_are_points():
    with pytest.raises(MuGoError, match="AW sets up more stones than go:5 has points"):
        read_sgf(b"(;GM[1]SZ[5]AB[aa]AW" + b"[aa:ee]" * 99_999 + b")", parse_game("go:5"))


@pytest.mark.parametrize(("spec", "seed"), [("go:5", 1), ("go:9,komi=7", 2), ("go:19,moves=60", 3)])
def test_a_game_is_read_back(spec, seed):
    game = parse_game(spec)
    moves, state = random_moves(game, seed)
    text = RecordText("000002-b", "000001-a", event="000002-b-vs-000001-a", round="7")
    read = parse(game_sgf(game, moves, text, [f"move {i}" for i in range(len(moves))]))
    assert read.get_size() == game.size
    assert read.get_komi() == game.komi
    assert (read.get_player_name("b"), read.get_player_name("w")) == ("000002-b", "000001-a")
    assert read.get_root().get("EV") == "000002-b-vs-000001-a"
    assert read.get_root().get("RO") == "7"
    nodes = read.get_main_sequence()[1:]
    assert [node.get("C") for node in nodes] == [f"move {i}" for i in range(len(moves))]
    played = []
    for ply, node in enumerate(nodes):
        colour, point = node.get_move()
        assert colour == "bw"[ply % 2]
        # sgfmill counts rows from below
        played.append(game.pass_action if point is None else (game.size - 1 - point[0]) * game.size + point[1])
    assert played == moves
    score = float(game.scores(state)[0])
    wanted = "0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}"
    assert read.get_root().get("RE") == wanted
    assert read.get_winner() == ({"0": None}.get(wanted, wanted[0].lower()))


def test_unfinished_and_drawn_games():
    game = parse_game("go:5,komi=0")
    assert "RE[?]" in game_sgf(game, [3], RecordText("a", "b"))
    two_passes = [game.pass_action, game.pass_action]
    record = game_sgf(game, two_passes, RecordText("a", "b"))
    assert "RE[0]" in record and ";B[]" in record and ";W[]" in record
    assert parse(record).get_winner() is None


def test_the_player_to_move_resigned():
    game = parse_game("go:5")
    for moves, result, winner in (([], "W+R", "w"), ([3], "B+R", "b"), ([3, game.pass_action], "W+R", "w")):
        read = parse(game_sgf(game, moves, RecordText("a", "b"), resigned=True))
        assert (read.get_root().get("RE"), read.get_winner()) == (result, winner)
        assert len(read.get_main_sequence()) == len(moves) + 1
    ended = game_sgf(game, [3, game.pass_action, game.pass_action], RecordText("a", "b"), resigned=True)
    assert not parse(ended).get_root().get("RE").endswith("R")  # a game that is over can't be given up


def test_text_is_escaped():
    nasty = "a]b\\c:d [e]\n(;x) ü"
    record = game_sgf(parse_game("go:5"), [0, 1], RecordText("x]y\\", "z", comment=nasty), [nasty, ""])
    read = parse(record)
    assert read.get_player_name("b") == "x]y\\"
    assert read.get_root().get("C") == nasty
    first, second = read.get_main_sequence()[1:]
    assert first.get("C") == nasty
    assert not second.has_property("C")


def test_white_space_before_the_first_node_is_no_matter():
    for text in (b"( ;GM[1]SZ[5];B[aa](;W[bb])(;W[cc]))", b"a note\n(\r\n\t;GM[1]SZ[5](;B[aa];W[bb])(;B[cc]))"):
        assert is_sgf(text) and read_sgf(text, parse_game("go:5")).moves == [(0, 0), (1, 6)]
    assert not is_sgf(b"(GM[1];)") and not is_sgf(b"")


@pytest.mark.parametrize(("size", "fits"), [("5", True), ("5:5", True), ("5:7", False), ("7:5", False), ("7", False)])
def test_both_sides_of_the_board_count(size, fits):
    text = f"(;GM[1]SZ[{size}];B[aa])".encode()
    if fits:
        assert read_sgf(text, parse_game("go:5")).moves == [(0, 0)]
        return
    with pytest.raises(AnotherGame, match=f"the board is {size}; go:5 is played on 5"):
        read_sgf(text, parse_game("go:5"))


def test_the_upper_left_corner_is_aa():
    game = parse_game("go:9")
    assert ";B[aa]" in game_sgf(game, [game.parse_action("A9")], RecordText("", ""))
    assert ";B[ia]" in game_sgf(game, [game.parse_action("J9")], RecordText("", ""))


def test_illegal_games_are_refused():
    with pytest.raises(IllegalMove):
        game_sgf(parse_game("go:5"), [3, 3], RecordText("", ""))


def test_which_games_have_it():
    assert parse_game("go:9").sgf
    assert not parse_game("tictactoe").sgf
    assert sgf_name(7) < sgf_name(12)


@pytest.mark.parametrize(("spec", "rules"), [("gomoku:9", "free"), ("gomoku:15,exact", "exact"),
                                             ("gomoku:9,capture,pairs=3", "capture,pairs=3")])  # fmt: skip
def test_a_game_of_gomoku_is_read_back(spec, rules):
    game = parse_game(spec)
    moves, state = random_moves(game, 4)
    text = game_sgf(game, moves, RecordText("b", "a"))
    root = parse(text.replace("GM[4]", "GM[1]")).get_root()  # sgfmill reads Go only
    assert (root.get_size(), root.get("RU")) == (game.size, rules) and not root.has_property("KM")
    result = float(game.returns(state)[0])
    assert root.get("RE") == ("0" if result == 0 else "B+" if result > 0 else "W+")
    assert "GM[4]" in text and text.count("\n;") == len(moves)
    played = [node.get_move()[1] for node in parse(text.replace("GM[4]", "GM[1]")).get_main_sequence()[1:]]
    assert [(game.size - 1 - row) * game.size + column for row, column in played] == moves
    unfinished = game_sgf(game, moves[:5], RecordText("b", "a"), resigned=True)
    assert "RE[B+R]" in unfinished


def test_a_line_from_a_handicap_with_a_move_out_of_turn_is_read_back():
    """By the outside reader, and by our own."""
    game = parse_game("go:9")
    black, white = [20, 24, 60], []
    states = [game.position(black, white, 1)]
    moves = [(1, 40), (1, 41), (0, game.pass_action), (1, 0)]  # white plays twice
    for player, action in moves:
        state = game.with_turn(states[-1], player)
        states.append(game.play(state, np.array([action], np.int32), game.initial_history(state)))
    played = PlayedGame([action for _, action in moves], RecordText("a", "b"))
    text = line_sgf(game, states, [player for player, _ in moves], played)
    root = parse(text).get_root()
    assert root.get("HA") == 3 and root.get("PL") == "w" and len(root.get("AB")) == 3 and not root.has_property("AW")
    record = read_sgf(text.encode(), game)
    assert record.moves == moves and np.array_equal(record.start, states[0])
    both = line_sgf(game, [game.position([1], [2], 0)], [], PlayedGame([], RecordText("a", "b")))
    assert "HA" not in both and "AB[ba]AW[ca]PL[B]" in both
