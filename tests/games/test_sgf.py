"""SGF as another library reads it."""

import time
from contextlib import suppress

import numpy as np
import pytest

from pipeline.errors import IllegalMove, MuGoError
from pipeline.games.capabilities import InSgf
from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.sgf import AnotherGame, is_sgf, line_sgf, main_line, read_komi, read_sgf, sgf_name
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
    with pytest.raises(MuGoError, match="AW sets up more stones than 5×5 Go has points"):
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


@pytest.mark.parametrize(("spec", "seed"), [("go:5", 1), ("go:9,komi=7", 2), ("go:19,moves=60", 3)])
def test_what_sgfmill_writes_is_read(spec, seed):
    game, names = parse_game(spec), ("a ] \\ b", "漢:字 (;")
    moves, _ = random_moves(game, seed)
    record = pytest.importorskip("sgfmill.sgf").Sgf_game(game.size)
    for name, value in (("KM", game.komi), ("PB", names[0]), ("PW", names[1])):
        record.get_root().set(name, value)
    for ply, move in enumerate(moves):
        node, (row, column) = record.extend_main_sequence(), divmod(move, game.size)
        node.set_move("bw"[ply % 2], None if move == game.pass_action else (game.size - 1 - row, column))
        node.set("C", f"{names[0]}; {names[1]}")
    found = read_sgf(record.serialise(), game)
    assert found.moves == [(ply % 2, move) for ply, move in enumerate(moves)]
    assert (found.black, found.white, found.komi, found.notes) == (*names, game.komi, ())


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
    assert not is_sgf(b"a note (GM[1];)") and not is_sgf(b"") and not is_sgf(b"(;" + bytes(range(128, 256)))


@pytest.mark.parametrize(("size", "fits"), [("5", True), ("5:5", True), ("5:7", False), ("7:5", False), ("7", False)])
def test_both_sides_of_the_board_count(size, fits):
    text = f"(;GM[1]SZ[{size}];B[aa])".encode()
    if fits:
        assert read_sgf(text, parse_game("go:5")).moves == [(0, 0)]
        return
    found = size.replace(":", "×") if ":" in size else f"{size}×{size}"
    with pytest.raises(AnotherGame, match=f"the board is {found}; wanted 5×5"):
        read_sgf(text, parse_game("go:5"))


def test_the_upper_left_corner_is_aa():
    game = parse_game("go:9")
    assert ";B[aa]" in game_sgf(game, [game.parse_action("A9")], RecordText("", ""))
    assert ";B[ia]" in game_sgf(game, [game.parse_action("J9")], RecordText("", ""))


def test_illegal_games_are_refused():
    with pytest.raises(IllegalMove):
        game_sgf(parse_game("go:5"), [3, 3], RecordText("", ""))


def test_which_games_have_it():
    assert isinstance(parse_game("go:9"), InSgf)
    assert not isinstance(parse_game("tictactoe"), InSgf)
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


# Records as people and other programs write them


@pytest.mark.parametrize(
    ("text", "komi", "note"),
    [
        ("6.5", 6.5, ""),
        ("0.5", 0.5, ""),
        ("-0", 0, ""),
        ("6,5", 6.5, ""),
        (" ７．５ ", 7.5, ""),
        ("6.5目", 6.5, ""),
        ("5目半", 5.5, ""),
        ("コミ六目半", 6.5, ""),
        ("6½", 6.5, ""),
        ("6집반", 6.5, ""),
        ("375", 7.5, "its komi 375 is read as 7.5 points"),  # Chinese stones, two points each, in hundredths
        ("3.75", 7.5, "its komi 3.75 is read as 7.5 points"),
        ("3又3/4子", 7.5, "its komi 3又3/4子 is read as 7.5 points"),
        ("2¾", 5.5, "its komi 2¾ is read as 5.5 points"),
        ("650", 6.5, "its komi 650 is read as 6.5 points"),
        ("750", 7.5, "its komi 750 is read as 7.5 points"),
        ("7.50000000", 7.5, ""),
        ("6·5", 6.5, ""),
        ("6 1/2", 6.5, ""),
        ("3 3/4", 7.5, "its komi 3 3/4 is read as 7.5 points"),
        ("黑贴3又3/4子", 7.5, "its komi 黑贴3又3/4子 is read as 7.5 points"),
        ("Chinese 7.5", 7.5, ""),
        ("6.5(Japanese)", 6.5, ""),
        ("100", 1.0, "its komi 100 is read as 1 point"),
        ("", None, ""),
        ("none", None, "its komi 'none' is unreadable"),
        ("nan", None, "its komi 'nan' is unreadable"),
        ("1e5", None, "its komi '1e5' is unreadable"),
        ("9" * 400, None, f"its komi '{'9' * 20}' is unreadable"),
        ("6/0又1/0", None, "its komi '6/0又1/0' is unreadable"),
    ],
)
def test_komi_as_people_write_it(text, komi, note):
    assert read_komi(text) == (komi, note)
    record = read_sgf(f"(;GM[1]SZ[9]KM[{text}])".encode(), parse_game("go:9"))
    assert record.komi == komi and record.notes == ((note,) if note else ())


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        ("", False),
        ("\n", False),
        ("(;GM[1]SZ[9];B[aa])", True),
        ("\n(;SZ[19];B[aa];W[bb])\n", True),
    ],
)
def test_only_the_first_game_of_a_collection_is_read_and_that_is_said(behind: str, told: bool) -> None:
    first = "(;GM[1]SZ[9]C[not (;a game) here]KM[7];B[ee](;W[gc]C[a) (b];B[cc])(;W[cg](;B[aa])(;B[bb])))"
    record = read_sgf((first + behind).encode(), parse_game("go:9"))
    assert len(record.moves) == 3 and record.notes == (("only the first of its games is read",) if told else ())


def test_what_the_root_should_say_may_stand_in_a_later_node_before_the_first_move() -> None:
    record = read_sgf(b"(;GM[1]FF[4];SZ[9]KM[5.5]PB[One];B[ee]KM[3];W[gc]PW[Late])", parse_game("go:9"))
    assert (record.komi, record.black, record.white, len(record.moves)) == (5.5, "One", "", 2)


@pytest.mark.parametrize(
    ("text", "moves", "komi"),
    [
        ("(B[qd];W[dc];B[dp])", "B qd, W dc, B dp", None),
        ("(GM[1]FF[4]SZ[19]KM[7]PB[a]\n;B[qd];W[dc])\n", "B qd, W dc", 7),
        ("( SZ[19]KM[7];B[qd](;W[dc];B[dp])(;W[cc]))\n", "B qd, W dc, B dp", 7),
        ("(\r\nKO[5目半]PB[ソラ表]\r\n;B[qd];W[dc])", "B qd, W dc", 5.5),
    ],
)
def test_the_first_semicolon_may_be_missing(text, moves, komi):
    record = read_sgf(text.encode("cp932"), parse_game("go:19"))
    assert played(record, 19) == moves and record.komi == komi


def played(record, size):
    """The moves in SGF's letters."""
    points = [(player, *divmod(action, size)) for player, action in record.moves]
    return ", ".join(f"{'BW'[player]} {chr(97 + column)}{chr(97 + row)}" for player, row, column in points)


def stones(game, state):
    """Black's and white's stones in SGF's letters, sorted."""
    found = [(stone, *divmod(point, game.size)) for point, stone in enumerate(state[0, : game.num_points]) if stone]
    return [" ".join(sorted(chr(97 + column) + chr(97 + row) for colour, row, column in found if colour == one))
            for one in (1, 2)]  # fmt: skip


def at_the_end(game, record):
    """The stones after the last move, and who moves first."""
    state = game.initial(1) if record.start is None else record.start
    first = record.moves[0][0] if record.moves else int(game.to_move(state)[0])
    assert record.start is None or int(game.to_move(state)[0]) == first
    for number, (player, action) in enumerate([*record.moves, (0, -1)]):
        state = record.setups.get(number, state)
        if action >= 0:
            state = game.with_turn(state, player)
            state = game.play(state, np.array([action], np.int32), game.initial_history(state))
    return [*stones(game, state), "BW"[first]]


@pytest.mark.parametrize(
    ("size", "text", "moves", "black", "white", "first"),
    [
        (19, "HA[3];AB[dp][pd][dd];W[qp];B[nq]", 2, "dd dp nq pd", "qp", "W"),
        (9, ";HA[2]AB[gc][cg];W[ee];B[ec]", 2, "cg ec gc", "ee", "W"),
        (9, ";AB[cc][gg]AW[gc]PL[W];W[cg];B[ee]", 2, "cc ee gg", "cg gc", "W"),
        (9, ";AB[cc][gg]AW[gc]PL[W]", 0, "cc gg", "gc", "W"),
        (9, ";AB[cc][gg]AW[gc][cg];B[ee];W[ec]", 2, "cc ee gg", "cg ec gc", "B"),
        (9, ";AB[cc][gg];B[ee];W[ec]", 2, "cc ee gg", "ec", "B"),
        (13, ";C[A corner.];AB[cd:dd]AW[dc][cc]PL[B];B[bc];W[bb]", 2, "bc cd dd", "bb cc dc", "B"),
        (9, "AB[cc][gg][ee];AE[ee]AW[gc];PL[W];W[cg]", 1, "cc gg", "cg gc", "W"),
        (9, ";B[cc];W[gg];AB[ce]AW[ge]AE[gg];B[ee]", 3, "cc ce ee", "ge", "B"),
        (9, ";B[cc];W[gg]AB[ce]AE[cc];B[ee]", 3, "ce ee", "gg", "B"),
        (9, ";B[cc];W[gg];AB[gg]AW[cc]PL[W]", 2, "gg", "cc", "B"),  # stones change their colour
        (9, "B[cc];W[gg];AB[ce];AW[ge];AE[gg];B[ee]", 3, "cc ce ee", "ge", "B"),
        (9, "AB[gc]HA[2]AB[cg]PL[2];W[ee]", 1, "cg gc", "ee", "W"),
        (9, "AB[]AW[]AE[]PL[];B[ee];PL[B];B[ec]", 2, "ec ee", "", "B"),
    ],
)
def test_stones_are_set_up_anywhere(size, text, moves, black, white, first):
    game = parse_game(f"go:{size}")
    record = read_sgf(f"(;GM[1]FF[4]SZ[{size}]KM[7]{text})".encode(), game)
    assert len(record.moves) == moves and at_the_end(game, record) == [black, white, first] and not record.notes


def test_setups_that_give_no_position_are_refused():
    for text, problem in (
        (";B[ab];W[ee];AW[ba]AB[aa]AW[ab]", "the stones that node 3 sets up: .*no liberty"),
        (";B[ab];W[ab];AW[ba]", "move 2, before stones are set up: .*occupied"),
        (";B[ab];AW[zz]", r"\[zz\] is no point of 5×5 Go"),
        (";B[ab];AW[aa]AE[ab]" * 1001, "set up more than 1000 times"),
    ):
        with pytest.raises(MuGoError, match=problem):
            read_sgf(f"(;GM[1]SZ[5]{text})".encode(), parse_game("go:5"))
    with pytest.raises(MuGoError, match=r"stones are set up, and .* begins at its initial position"):
        read_sgf(b"(;GM[4]SZ[9];B[aa];AW[bb])", parse_game("gomoku:9"))


@pytest.mark.parametrize(
    ("text", "moves", "notes"),
    [
        ("US[Matsuyama[3d]]C[see [1] and B[aa] too];B[ee];W[cc])", "B ee, W cc", ""),
        ("C[no ] end](;B[ee];W[cc])(;B[aa]))", "B ee, W cc", "text between its properties is skipped: end ]"),
        (";B[ee]---;W[cc]\n---\n)", "B ee, W cc", "text between its properties is skipped: --- ---"),
        ("HA[对子];B[ee];W[cc])", "B ee, W cc", "its handicap '对子' is no number"),
        ("HA[0];B[gc];B[cg];W[ee])", "B gc, B cg, W ee", ""),  # a handicap that is played move by move
        ("HA[99];W[ee])", "W ee", "no stones are given for its handicap of 99, and none are placed"),
        ("CoPyright[\n (c) 2014\n]MULTIGOGM[1]PlayerBlack[a];Black[ee];White[cc])", "B ee, W cc", ""),
        ("B[ee];W[cc])", "B ee, W cc", ""),  # a first move in the root
        (";B[e\ne] ; W [cc] )", "B ee, W cc", ""),
        (";b[ee];w[cc])", "B ee, W cc", ""),
        (";B[ee];W[cc]", "B ee, W cc", "its last ) is missing: the file may have been cut off"),
        (";B[ee]C[\\] \\[];W[cc])", "B ee, W cc", ""),
        (f"C[{'see B[aa] and [1] x ' * 30}];B[ee];W[cc])", "B ee, W cc", ""),
        ("C[foo (bar) [19] W[aa]; B[bb];];B[ee];W[cc])", "B ee, W cc", ""),
        ("C[pasted: (;B[aa];W[bb]) ];B[ee];W[cc](;B[gg])(;B[hh]))", "B ee, W cc, B gg", ""),
        ("C[by the standard [ is no matter];B[ee]C[W[aa\\]; [[];W[cc])", "B ee, W cc", ""),
        ("C[one [ more, B[aa] and [1] x];B[ee];W[cc])", "B ee, W cc", "text between its properties is skipped: x ]"),
    ],
)
def test_what_programs_write_against_the_standard(text, moves, notes):
    record = read_sgf(f"(;GM[1]FF[4]SZ[9]KM[7]{text}".encode(), parse_game("go:9"))
    assert played(record, 9) == moves and "; ".join(record.notes) == notes


def test_a_handicap_that_is_only_a_number_is_placed():
    game = parse_game("go:9")
    for moves in (";W[ee]", ""):
        record = read_sgf(f"(;GM[1]SZ[9]HA[2]{moves})".encode(), game)
        assert stones(game, record.start) == ["cg gc", ""] and int(game.to_move(record.start)[0]) == 1
        assert "placed on the usual points" in record.notes[0]
    assert read_sgf(b"(;GM[1]SZ[9]HA[2];B[ee])", game).start is None


def test_brackets_cost_no_time():
    for odd in ("C[" * 100_000, "C[[a]" * 20_000 + "]", "]" * 50_000, "C[x [a] y]" * 20_000):
        with suppress(MuGoError):
            main_line(f"(;GM[1]SZ[9]{odd}".encode())


@pytest.mark.parametrize(
    ("size", "shape"),
    [("9", (9, 9)), ("", (19, 19)), ("13:9", (9, 13)), ("9x9", (9, 9)), ("19路", (19, 19)), ("１９路盤", (19, 19)),
     ("19.0", (19, 19)), ("019", (19, 19))],
)  # fmt: skip
def test_sizes(size, shape):
    assert main_line(f"(;GM[01]SZ[{size}])".encode()).shape == shape and main_line(b"(;GM[01])").kind == "1"


@pytest.mark.parametrize("points", ["[cc:aa]", "[ac:ca]", "[ca:ac]", "[aa:cc]", "[aa:ac][ba:cc]"])
def test_rectangles_by_any_two_opposite_corners(points):
    game = parse_game("go:9")
    record = read_sgf(f"(;GM[1]SZ[9]AB{points})".encode(), game)
    assert stones(game, record.start)[0] == "aa ab ac ba bb bc ca cb cc"
    for odd in ("tt", "aa:", "aa:bb:cc", "aa:tt"):
        with pytest.raises(MuGoError, match="is no point of 9×9 Go"):
            read_sgf(f"(;GM[1]SZ[9]AB[{odd}])".encode(), game)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("()", "no game found"),
        (";;)", "no game found"),
        ("(;GM[1]SZ[9];B[ee];W[aundefined])", r"\[aundefined\] is no point of 9×9 Go \(node 2\)"),
        ("(;GM[1]SZ[9];B[EE])", r"\[EE\] is no point of 9×9 Go \(node 1\)"),
        ("(;GM[1]SZ[9];B[ee];W[cc];B[g", r"a value of node 3 has no end \]; was the file cut off"),
        ("(;GM[1]SZ[9];B[ee];W[cc]C[hello ;B[gg", r"a value of node 2 has no end \]"),
        ("(;GM[1]SZ[nine])", r"SZ\[nine\] is no size of a board"),
    ],
)
def test_what_is_no_record_gets_one_line(text, problem):
    with pytest.raises(MuGoError, match=problem) as caught:
        read_sgf(text.encode(), parse_game("go:9"))
    assert "\n" not in str(caught.value)


def test_unclosed_brackets_behind_the_game_take_no_long_time() -> None:
    begun = time.perf_counter()
    assert len(read_sgf(b"(;GM[1]SZ[9];B[ee])" + b"[" * 200_000, parse_game("go:9")).moves) == 1
    assert time.perf_counter() - begun < 5
