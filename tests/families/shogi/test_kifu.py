"""Records of shogi: cshogi reads our files as the same games; files that we read are checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import (
    CSA,
    FORMATS,
    HANDICAPS,
    KIF,
    USI,
    ending,
    handicap,
    parse_kifu,
    read_kifu,
)
from pipeline.games.records import ReadGame, RecordText
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from pipeline.reports.show import game_records, show
from tests.families.shogi.oracles import kifu_record, likely_games
from tests.games.playing import NO_HISTORY

TEXT = RecordText("先 one", "two", event="an event", round="7", comment="a comment\nof two lines")


def moves_of(game: Shogi, usi: str) -> list[int]:
    state, history, moves = game.initial(1), game.initial_history(game.initial(1)), []
    for name in usi.split():
        moves.append(game.parse_move(state[0], name))
        state = game.play(state, np.array([moves[-1]]), history)
        history.append(np.arange(1), game.keys(state))
    return moves


def games_of(spec: str, num_games: int, likely: bool) -> tuple[Shogi, list[list[int]], list[np.ndarray]]:
    """Moves of whole games and their last states."""
    game = parse_game(spec)
    moves: list[list[int]] = [[] for _ in range(num_games)]
    last: list[np.ndarray] = [game.initial(1)] * num_games
    for step in likely_games(game, num_games, 5, 0.2) if likely else random_games(game, num_games, 6):
        for i, row in enumerate(step.rows.tolist()):
            moves[row].append(int(step.actions[i]))
            last[row] = step.after[i : i + 1]
    return game, moves, last


def read_back(tmp_path: Path, form: str, record: str) -> ReadGame:
    path = tmp_path / f"game{FORMATS[form].suffixes[0]}"
    path.write_text(record)
    game, (found,) = read_kifu(path)
    again_game, (again,) = parse_kifu(record.encode())  # by what it looks like
    assert (again_game.spec, again.moves, again.end) == (game.spec, found.moves, found.end)
    return found


@pytest.mark.parametrize(("spec", "forms"), [("shogi", (KIF, CSA, USI)), ("shogi:5", (KIF, USI))])
@pytest.mark.parametrize("likely", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, spec: str, forms: tuple[str, ...], likely: bool) -> None:
    game, games, last = games_of(spec, 6, likely)
    for moves, state in zip(games, last, strict=True):
        for form in forms:
            comments = [f"ply {ply}" for ply in range(len(moves))]
            found = read_back(tmp_path, form, kifu_record(form, game, moves, TEXT, comments))
            assert found.moves == moves
            if form != USI:
                assert found.players == (TEXT.first, TEXT.second)
            if game.ends(state)[0] in (kernels.NO_MOVE, kernels.DECLARATION) and form != USI:
                assert found.points == game.returns(state)[0]


def test_cshogi_reads_the_same_games(tmp_path: Path) -> None:
    cshogi = pytest.importorskip("cshogi", reason="cshogi isn't installed: pip install cshogi")
    from cshogi import CSA as CSA_READER
    from cshogi import KIF as KIF_READER

    game, games, last = games_of("shogi", 12, likely=True)
    results = set()
    for moves, state in zip(games, last, strict=True):
        resigned = None if game.is_over(state)[0] else int(game.to_move(state)[0])
        usi = kifu_record(USI, game, moves, TEXT).split()[3:]
        kif = KIF_READER.Parser.parse_str(kifu_record(KIF, game, moves, TEXT, ["said"] * len(moves), resigned))
        (csa,) = CSA_READER.Parser.parse_str(kifu_record(CSA, game, moves, TEXT, ["said"] * len(moves), resigned))
        for other in (kif, csa):
            assert [cshogi.move_to_usi(move) for move in other.moves] == usi
            assert list(other.names) == [TEXT.first, TEXT.second] and other.sfen == cshogi.STARTING_SFEN
        result = int(game.returns(state)[0])
        assert kif.win == {1: cshogi.BLACK_WIN, -1: cshogi.WHITE_WIN, 0: cshogi.DRAW}[result]
        results.add(result)
        path = tmp_path / f"game{FORMATS[KIF].suffixes[0]}"
        path.write_text(kifu_record(KIF, game, moves, TEXT))
        assert KIF_READER.Parser.parse_file(str(path)).moves == kif.moves
        board = cshogi.Board()
        board.set_position(kifu_record(USI, game, moves, TEXT).strip().removeprefix("position "))
        assert board.sfen() == game.sfen(state[0])
    assert len(results) > 1


def test_a_record_of_each_kind() -> None:
    game = parse_game("shogi")
    moves = moves_of(game, "7g7f 3c3d 8h2b+ 3a2b B*5e")
    kif = kifu_record(KIF, game, moves, TEXT, ["", "said\ntwice"], resigned_by=1).splitlines()
    assert kif[2:8] == ["棋戦：an event 7", "手合割：平手", "先手：先 one", "後手：two", "*a comment", "*of two lines"]
    assert kif[9:] == [
        "   1 ７六歩(77)",
        "   2 ３四歩(33)",
        "*said",
        "*twice",
        "   3 ２二角成(88)",
        "   4 同　銀(31)",
        "   5 ５五角打",
        "   6 投了",
        "まで5手で先手の勝ち",
    ]
    csa = kifu_record(CSA, game, moves, TEXT, resigned_by=1).splitlines()
    assert csa[:5] == ["'CSA encoding=UTF-8", "V2.2", "N+先 one", "N-two", "$EVENT:an event 7"]
    assert csa[5:7] == [
        "'*a comment",
        "'*of two lines",
    ]  # for programs to read; they skip lines that begin with ' alone
    assert csa[-8:] == ["PI", "+", "+7776FU", "-3334FU", "+8822UM", "-3122GI", "+0055KA", "%TORYO"]
    odds = kifu_record(KIF, game, [], TEXT, resigned_by=1, start=handicap(game, "二枚落ち")).splitlines()
    assert odds[3:6] == ["手合割：二枚落ち", "下手：先 one", "上手：two"] and odds[-1] == "まで0手で下手の勝ち"
    left = [kifu_record(form, game, moves, TEXT, resigned_by=0).splitlines() for form in (KIF, CSA)]
    assert left[0][-2:] == ["   6 中断", "まで5手で後手の勝ち"] and left[1][-1] == "%CHUDAN"
    assert kifu_record(USI, game, moves, TEXT) == "position startpos moves 7g7f 3c3d 8h2b+ 3a2b B*5e\n"


ENDINGS = [  # from a position, a move, what KIF and CSA call the end
    ("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", "G*5b", "詰み", "%TSUMI"),
    ("1+P+P+P+P+P+P2/K+P+P+P+P4/9/9/9/9/9/9/8k w 2R2B 1", "1i2i", "入玉勝ち", "%KACHI"),
]


@pytest.mark.parametrize(("sfen", "move", "kif", "csa"), ENDINGS)
def test_ends_have_their_names(sfen: str, move: str, kif: str, csa: str) -> None:
    game = parse_game("shogi")
    state = game.from_sfen(sfen)
    last = game.play(state, np.array([game.parse_move(state[0], move)]), NO_HISTORY)
    assert ending(game, last[0], None)[:2] == (kif, csa)


def test_repetition_and_perpetual_check_are_told_apart() -> None:
    game = parse_game("shogi")
    moves = moves_of(game, "2h3h 8b7b 3h2h 7b8b " * 3)
    kif, csa = (kifu_record(form, game, moves, TEXT).splitlines() for form in (KIF, CSA))
    assert kif[-2:] == ["  13 千日手", "まで12手で千日手"] and csa[-1] == "%SENNICHITE"
    # A rook follows a king: the first player's, then the second's.
    for sfen, around, loser in (
        ("8k/9/9/9/9/9/9/7R1/K8 b - 1", "2h1h 1a2a 1h2h 2a1a ", "+"),
        ("k8/9/9/9/9/9/9/7r1/8K w - 1", "2h1h 1i2i 1h2h 2i1i ", "-"),
    ):
        state = game.from_sfen(sfen)
        history = game.initial_history(state)
        for name in (around * 3).split():
            state = game.play(state, np.array([game.parse_move(state[0], name)]), history)
            history.append(np.arange(1), game.keys(state))
        assert ending(game, state[0], None)[:2] == ("反則負け", f"%{loser}ILLEGAL_ACTION")


def test_a_repetition_that_both_overlooked() -> None:
    moves = "2h3h 8b7b 3h2h 7b8b " * 3 + "2g2f"
    _, (found,) = parse_kifu(f"position startpos moves {moves}".encode(), ".usi")
    assert (len(found.moves), found.points, found.end) == (13, 0, "not decided")


CSA_FILE = "V2.2\nN+a\nN-b\nPI\n+\n+7776FU\nT12\n-3334FU,T3\n+8822UM\n-3122GI\n%TORYO\n/\nPI\n+\n+2726FU\n%CHUDAN\n"


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "two.csa"
    path.write_text(CSA_FILE)
    game, (first, second) = read_kifu(path)
    assert (first.players, first.moves) == (("a", "b"), moves_of(game, "7g7f 3c3d 8h2b+ 3a2b"))
    assert (first.points, first.end) == (-1, "resigned")
    assert (second.players, second.moves) == (("?", "?"), moves_of(game, "2g2f"))
    assert (second.points, second.end) == (0, "not decided")
    path.write_text(CSA_FILE + "/\n\n")
    assert len(read_kifu(path)[1]) == 2
    shift_jis = tmp_path / "old.kif"
    text = "手合割：平手　　\n先手：羽生\n手数----指手\n   1 ７六歩(77)   ( 0:05/00:00:05)\n   2 ３四歩(33) ( 0:01/)\n"
    text += "   3 ２二角成(88)+\n   4 同　銀(31)\n   5 投了\n\n変化：2手\n   2 ８四歩(83)\n"
    shift_jis.write_bytes(text.encode("cp932"))
    _, (old,) = read_kifu(shift_jis)
    cut = tmp_path / "cut.kif"
    cut.write_bytes(text.encode()[: len("手合割：平手\n先手：".encode()) - 1])  # within a character of UTF-8
    with pytest.raises(FileError) as caught:
        read_kifu(cut)
    assert "�ｼ" not in str(caught.value)
    assert old.moves == first.moves and old.players == ("羽生", "?") and (old.points, old.end) == (-1, "resigned")
    lines = tmp_path / "lines.usi"
    lines.write_text("startpos moves 7g7f 3c3d\n\nposition startpos\nlnsgkgsnl/9/9/9/9/9/9/9/LNSGKGSNL w P 2\n")
    assert [len(one.moves) for one in read_kifu(lines)[1]] == [2, 0, 0]


@pytest.mark.parametrize("line, moves, points, end", [
    ("position startpos moves 2g2f 8c8d 2f2e rep_inf", 3, 0, "not decided"),
    ("position startpos moves 2g2f rep_sup", 1, 0, "not decided"),
    ("position startpos moves 2g2f 8c8d 2f2e 8d8e rep_draw", 4, 0, "repetition"),
    ("position startpos moves 2g2f 8c8d resign", 2, -1, "resigned"),
    ("startpos moves 7g7f 8c8d win", 2, 1, "declared"),
    ("position startpos moves 3e3d 3a3b resign", 2, -1, "resigned"),
    ("sfen 4k4/9/4P4/9/9/9/9/9/4K4 b G 1 moves 5i5h 5a6a resign", 2, -1, "resigned"),
    ("position startpos moves resign", 0, -1, "resigned"),
    ("position startpos moves 2g2f timeup", 1, 0, "not decided"),
    ("position startpos moves 2g2f illegal_move", 1, 0, "not decided"),
    ("position startpos moves 2g2f (null)", 1, 0, "not decided"),
    ("position startpos moves 2g2f jishogi", 1, 0, "impasse"),
    ("position startpos moves 2g2f max_moves", 1, 0, "move limit"),
    ("position startpos moves sennichite", 0, 0, "repetition"),
])  # fmt: skip
def test_a_line_of_usi_may_say_how_the_game_ended(line: str, moves: int, points: int, end: str) -> None:
    """As engines write it behind the moves."""
    game, (found,) = parse_kifu(f"{line} and more\n".encode(), ".usi")
    assert (len(found.moves), found.points, found.end) == (moves, points, end)
    assert game.size == (5 if "3e3d" in line else 9)
    assert "skipped: line 1 'and', line 1 'more'" in found.notes
    is_unknown = any(word in line for word in ("timeup", "illegal_move", "null"))
    assert any("is unknown" in note for note in found.notes) == is_unknown


def test_a_record_without_an_end_is_not_decided(tmp_path: Path) -> None:
    for form, text in ((CSA, "PI\n+\n+7776FU\n"), (KIF, "   1 ７六歩(77)\n")):
        found = read_back(tmp_path, form, text)
        assert (len(found.moves), found.points, found.end) == (1, 0, "not decided")


BEGINNINGS = [
    *HANDICAPS,
    "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
    "4k4/9/4P4/9/9/9/9/9/4K4 b G2r2b3g4s4n4l17p 1",
    "2k2/5/5/1p3/+R1K2 w RBSbsgp 1",
]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_games_that_begin_elsewhere_are_read_back(tmp_path: Path, beginning: str) -> None:
    game = parse_game("shogi:5" if beginning.count("/") == 4 else "shogi").without_move_limit()
    start = handicap(game, beginning) if beginning in HANDICAPS else game.from_sfen(beginning)
    state, history, moves, rng = start, game.initial_history(start), [], np.random.default_rng(3)
    while len(moves) < 12 and not game.is_over(state)[0]:
        moves.append(int(rng.choice(np.flatnonzero(game.legal(state, history)[0]))))
        state = game.play(state, np.array([moves[-1]]), history)
        history.append(np.arange(1), game.keys(state))
    for form in (KIF, CSA, USI) if game.size == 9 else (KIF, USI):
        record = kifu_record(form, game, moves, TEXT, start=start)
        found = read_back(tmp_path, form, record)
        assert found.moves == moves and game.sfen(found.start[0]) == game.sfen(start[0])
        assert form != KIF or f"手合割：{beginning if beginning in HANDICAPS else 'その他'}" in record


def test_cshogi_begins_handicap_games_and_others_where_we_do() -> None:
    cshogi = pytest.importorskip("cshogi", reason="cshogi isn't installed: pip install cshogi")
    from cshogi import CSA as CSA_READER
    from cshogi import KIF as KIF_READER

    game, known = parse_game("shogi"), KIF_READER.Parser.HANDYCAP_SFENS
    for name in HANDICAPS:
        assert name in ("左七枚落ち", "右七枚落ち") or game.sfen(handicap(game, name)[0]) == known[name]
    for sfen in BEGINNINGS[len(HANDICAPS) :][:2]:
        start = game.from_sfen(sfen)
        record = kifu_record(KIF, game, [], TEXT, start=start)
        assert KIF_READER.board_to_bod(cshogi.Board(sfen)).strip() in record
        (csa,) = CSA_READER.Parser.parse_str(kifu_record(CSA, game, [], TEXT, start=start))
        assert game.sfen(game.from_sfen(csa.sfen)[0]) == sfen


def test_beginnings_of_csa(tmp_path: Path) -> None:
    game = parse_game("shogi")
    for text, sfen in (
        ("PI82HI22KA\n-\n", game.sfen(handicap(game, "二枚落ち")[0])),
        ("P+59OU53FU00KI\nP-51OU00AL\n+\n", BEGINNINGS[-2]),
    ):
        assert game.sfen(read_back(tmp_path, CSA, text).start[0]) == sfen
    middle = BEGINNINGS[len(HANDICAPS)]
    text = kifu_record(CSA, game, [], TEXT, start=game.from_sfen(middle))
    for other in (text.replace(" * ", "*  "), text.replace(" * ", "   "), text.replace("  ", " ")):
        assert game.sfen(read_back(tmp_path, CSA, other).start[0]) == middle


RECORDS = {  # whole files
    CSA: CSA_FILE,
    KIF: "手合割：平手\n先手：a\n   1 ７六歩(77)\n*said\n   2 ３四歩(33)\n   3 ２二角成(88)\n   4 同　銀(31)\n"
    "   5 投了\n",
    USI: "position startpos moves 7g7f 3c3d 8h2b+ 3a2b B*5e\nsfen 4k4/9/4P4/9/9/9/9/9/4K4 b G 1 moves G*5b\n",
    "sfen": "4k4/9/4P4/9/9/9/9/9/4K4 b G 1\n",
    "kifu": kifu_record(KIF, (_MINI := parse_game("shogi:5")), [], TEXT, start=_MINI.from_sfen("k4/5/5/5/4K w RBb 1")),
}
FUZZED = {form: (text, read_kifu) for form, text in RECORDS.items()}  # see tests/families/__init__.py

WRONG = [
    ("a.csa", "PI\n+\n+7776FU\n+2726FU\n%TORYO", "line 4: +2726FU: a move of the player who has just moved"),
    ("a.csa", "PI\n+\n+7775FU\n%TORYO", "line 3: +7775FU: 7g7e: the mover has no piece that can move so"),
    ("a.csa", "PI\n+\n+7776KI\n%TORYO", "line 3: +7776KI"),
    ("a.csa", "PI\n+\n+7776XX\n%TORYO", "no piece is written XX"),
    ("a.csa", "PI\n+\n+0055OU\n%TORYO", "such a piece can't be dropped"),
    ("a.csa", "PI82HI21KA\n+\n%TORYO\n", "line 1: 'PI82HI21KA': no KA stands on 21 at first"),
    ("a.csa", "P+59OU58OU\nP-51OU\n+\n", "line 3: the position that it begins from: SFEN"),
    ("a.csa", "P1-XX\n", "wanted nine squares of three characters"),
    ("a.csa", "P1-KY-KE\n", "wanted nine squares of three characters"),
    ("a.csa", "P1-KY" + " * " * 9 + "\n", "wanted nine squares of three characters"),
    ("a.csa", "P+5XOU\n", "wanted squares and pieces"),
    ("a.csa", "P+0000OU\n", "wanted squares and pieces"),
    ("a.csa", "P+00OU\n", "OU can't be at 00"),
    ("a.csa", "P+55AL\n", "AL can't be at 55"),
    ("a.csa", "PI00AL\n", "no such square as 00"),
    ("a.csa", "PI55AL\n", "no AL stands on 55"),
    ("a.csa", "P+50FU\n", "no such square as 50"),
    ("a.csa", "hello\n", "nothing that such a record has"),
    ("a.csa", "PI\n+\n+7776\n", "line 3: '+7776'; wanted a move"),
    ("a.csa", "PI\n+\n'comment+2726FU\nT1\n-3334FU\n", "line 5: -3334FU: a move of the player who has just moved"),
    ("a.csa", "PI\n" + "x" * 600, "line 2: 600 characters"),
    ("a.kif", "手合割：二十枚落ち\n", "a game that begins '二十枚落ち', without a diagram; known without: 平手"),
    ("a.kif", "手合割：その他\n   1 ７六歩(77)\n", "line 2: a game that begins 'その他', without a diagram"),
    ("a.kif", "手合割：詰将棋\n   1 １二金打\n", "line 2: a game that begins '詰将棋', without a diagram"),
    ("a.kif", '[Variant "Shogi"]\n\n1. P-7f P-3d 2. R-6h\n', "nothing that such a record has"),
    ("a.kif", "   3 ７六歩(77)\n", "line 1: '3 ７六歩(77)'; wanted move 1"),
    ("a.kif", "   1 同銀\n", "line 1: '同銀'; wanted a move"),
    ("a.kif", "   1 銀打ち\n", "line 1: '銀打ち'; wanted a move"),
    ("a.usi", "startpos moves 7g7f n0nsense", "line 1: n0nsense: 'n0nsense' is no move here"),
    ("a.usi", "startpos moves 7g7f resign 3c3d", "line 1: '3c3d': behind the end of the game, line 1: 'resign'"),
    ("a.usi", "startpos moves 7g7f 3c3d P*5e", "line 1: P*5e: there is none in hand"),
    ("a.usi", "startpos 7g7f", "line 1: '7g7f' behind startpos; wanted moves"),
    ("a.csa", "PI\n+\n+7776FU\n3334FU\n%TORYO", "line 4: '3334FU'; wanted + or - before a move"),
    ("a.csa", "PI\n+\n+7776FU\n%TORYO\n-3334FU", "line 5: '-3334FU': behind the end of the game, line 4: '%TORYO'"),
    ("a.csa", "PI\n+\n+7776FU\n%CHUDAN\n-3334FU", "line 5: '-3334FU': behind the end of the game, line 4: '%CHUDAN'"),
    ("a.csa", "P+53FU00KI\nP-51OU00AL\n+\n", "line 3: the position that it begins from: SFEN"),
    ("a.csa", "P+53FU00KI\nP-51OU00AL\n+\n", "(problems with a single king can't be played)"),
    ("a.kif", "   1 ５五角打\n", "line 1: ５五角打: B*5e: there is none in hand"),
    ("a.kif", "   1 ７六歩(77)\n   2 投了\n   3 ２六歩(27)\n", "'3 ２六歩(27)': behind the end of the game, line 2"),
    ("a.kif", "   1 ７六歩(77)\n   2 投了\n   2 ３四歩(33)\n", "'2 ３四歩(33)': behind the end of the game, line 2"),
    ("a.kif", "   1 ７六歩(77)\n   2 パス\n   3 ２六歩(27)\n", "behind the end of the game, line 2: 'パス'"),
    ("a.kif", "   1 ７六歩(77)\n   2 封じ手\n   3 ３四歩(33)\n", "line 3: '3 ３四歩(33)': behind the end"),
    ("a.kif", "   1 ７六歩(77)\nまで1手で後手の勝ち\n   2 ３四歩(33)\n", "line 3: '2 ３四歩(33)': behind the end"),
    ("a.kif", "   1 ７六歩(77)\n   1 ３四歩(33)\n", "line 2: '1 ３四歩(33)'; wanted move 2"),
    ("a.kif", "   1 ７六歩(77)\n - ３四歩(33)\n", "line 2: '- ３四歩(33)'; wanted a move, e.g. '1 ７六歩(77)'"),
    ("a.kif", "   1 ７六歩(77)\n５五角打が好手\n", "line 2: '５五角打が好手'; wanted a move"),
    ("a.kif", "   1 ７六歩(77)\n   2 この手は、悪手。\n", "line 2: 'この手は、悪手。'; wanted a move"),
    ("a.kif", "▲７六歩 △３四歩\n", "line 1: '▲７六歩 △３四歩': KI2"),
    ("a.kif", "先手の持駒：玉\n", "line 1: '玉' in hand; wanted"),
    ("a.kif", "先手の持駒：歩十九\n", "line 1: '歩十九' in hand; wanted"),
    ("a.kif", "|v玉 ・|一\n", "line 1: '|v玉 ・|一'; wanted 9 rows of 9 squares"),
    ("a.kif", "|" + " ・" * 9 + "|一\n   1 投了\n", "line 2: a diagram of 1 rows; wanted 9"),
    ("a.kif", ("|" + " ・" * 5 + "|一\n") * 5 + "   1 投了\n", "0 kings of the first player"),
    ("a.kif", "   1 ７六歩(77)\n   3 ３四歩(33)\n", "line 2: '3 ３四歩(33)'; wanted move 2"),
    ("a.kif", "   1 同　歩(77)\n", "there was none"),
    ("a.kif", "   1 ７六銀(77)\n", "line 1: ７六銀(77): it moves a 歩"),
    ("a.kif", "   1 ７六歩(00)\n", "line 1"),
    ("a.kif", "", "nothing that such a record has"),
    ("a.csa", "'only a comment\n", "nothing that such a record has"),
    ("a.kif", "   1 hello\n", "line 1: 'hello'; wanted a move"),
    ("a.usi", "", "no line 'position startpos moves …' or SFEN"),
    ("a.usi", "position sfen x", "line 1: SFEN 'x': 1 fields; wanted e.g. "),
    ("a.sfen", "4k4/9/9/9/9/9/9/4K4/4K4 b - 1", "line 1: SFEN '4k4/9/9/9/9/9/9/4K4/4K4 b - 1': 2 kings of the first"),
    ("a.usi", "startpos moves 7g7f 7g7f", "line 1: 7g7f"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "found"), WRONG)
def test_a_wrong_file_is_refused_with_line_and_reason(tmp_path: Path, name: str, text: str, found: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileError) as raised:
        read_kifu(path)
    assert found in str(raised.value) and "\n" not in str(raised.value)


def test_show_writes_and_shows_them(tmp_path: Path) -> None:
    """A match's games through `show --kif`, and its file through `show`."""
    folder = tmp_path / "match"
    config = EvaluateConfig(
        game="shogi:5", black_model="random", white_model="heuristic", games=2, promote=False, output_dir=folder
    )
    evaluate(config)
    (name, text), _ = game_records(folder, form=KIF)
    path = tmp_path / name
    path.write_text(text)
    assert path.suffix == ".kifu"
    shown = "\n".join(show(path, 0))
    assert "手合割：5五将棋" in text and "heuristic" in shown and "wins" in shown and "XK" in shown
    with pytest.raises(UsageError, match="--csa is for shogi on the large board"):
        list(game_records(folder, form=CSA))
    with pytest.raises(UsageError, match="isn't written in SGF; shogi has --kif, --csa and --usi"):
        list(game_records(folder))


def test_csa_does_not_know_minishogi() -> None:
    with pytest.raises(MuGoError, match="--csa is for shogi on the large board"):
        kifu_record(CSA, parse_game("shogi:5"), [], TEXT)


# Records as other programs and servers write them

NAMES = "先手：Alpha\n後手：Beta\n手数----指手---------消費時間--\n"
HEAD = "手合割：平手\n" + NAMES
FOUR = "".join(
    f"   {ply} {move}   ( 0:0{ply}/00:00:0{ply})\n"
    for ply, move in enumerate(["２六歩(27)", "３四歩(33)", "７六歩(77)", "８八角成(22)"], 1)
)
SIX = HEAD + FOUR + "   5 同　銀(79)   ( 0:01/00:00:04)\n   6 "
TIME = "   ( 0:02/00:00:07)\n"
SMALL = " 1 ３四銀(35)\n 2 ３二銀(31)\n 3 ２三銀(34)\n 4 同　銀(32)\n 5 ３四角(25)\n 6 ３二銀打(00)" + TIME
ROWS = [" ・" * 7 + "v桂v玉", " ・" * 9, " ・" * 7 + " 金 ・", *[" ・" * 9] * 5, " ・ 玉" + " ・" * 7]
BOARD = "".join(f"|{row}|{number}\n" for row, number in zip(ROWS, "一二三四五六七八九", strict=True))
RULE = f"+{'-' * 27}+\n"
COLUMNS = "  ９ ８ ７ ６ ５ ４ ３ ２ １\n"
HELD = "後手の持駒：飛二　角二　金二　銀四　桂三　香四　歩十八　\n"
DIAGRAM = HELD + COLUMNS + RULE + BOARD + RULE + "先手の持駒：金　\n"
SETUP = "7nk/9/7G1/9/9/9/9/9/1K7 {} G2r2b2g4s3n4l18p 1"
MATE = "   1 １二金打   ( 0:00/00:00:00)\n   2 詰み   ( 0:00/00:00:00)\n"
ONE = HEAD + "   1 ７六歩(77)\n"
OTHERS = {  # a record, its last move, how it ended, its notes; by what is special about it
    "drop with 打 and (00)": (SIX + f"６五角打(00){TIME}", "B*6e", "not decided", ""),
    "drop with (00)": (SIX + f"４五角(00){TIME}   7 ７七角打(00)\n", "B*7g", "not decided", ""),
    "drop with a space": (SIX + f"３三角打 (00){TIME}   7 投了\n", "B*3c", "resigned", ""),
    "small board": ("手合割：5五将棋\n" + NAMES + SMALL, "S*3b", "not decided", ""),
    "sealed move": (HEAD + FOUR + "   5 封じ手" + TIME, "2b8h+", "not decided", ""),
    "sealed move, said": (HEAD + FOUR + "*封じ手\n   5 封じ手\nまで4手で封じ手\n", "2b8h+", "not decided", ""),
    "default": (HEAD + "   1 不戦勝\n", "", "not played", ""),
    "draw": (HEAD + FOUR + "   5 引き分け\n", "2b8h+", "a draw", ""),
    "most moves": (HEAD + FOUR + "   5 最大手数\n", "2b8h+", "move limit", ""),
    "unknown end": (HEAD + FOUR + "   5 裁定勝ち\n", "2b8h+", "not decided",
                    "its end '裁定勝ち' is unknown, and counts as not decided"),
    "problem": ("作品名：試し\n手合割：詰将棋\n" + DIAGRAM + NAMES + MATE, "G*1b", "", ""),
    "problem, heading below": (DIAGRAM + "手合割：詰将棋　　\n作者：Alpha\n" + MATE, "G*1b", "", ""),
    "defender begins": ("手合割：詰将棋\n" + DIAGRAM + "後手番\n   1 １二銀打\n   2 中断\n", "S*1b", "not decided", ""),
    "diagram and usual heading": ("手合割：平手\n" + DIAGRAM + MATE, "G*1b", "", ""),
    "columns in ASCII": (DIAGRAM.replace(COLUMNS, "  9 8 7 6 5 4 3 2 1\n") + MATE, "G*1b", "", ""),
    "hands with spaces": (DIAGRAM.replace("　", " ") + MATE, "G*1b", "", ""),
    "numbered on": (DIAGRAM + "手数＝12  △３三角打  まで\n  13 １二金打\n  14 中断\n", "G*1b", "", ""),
    "times twice": (ONE + "   2 ３四歩(33)   ( 0:00/00:00:00) ( 0:00/00:00:00)\n", "3c3d", "not decided", ""),
    "digits for rows": (ONE + "   2 ３４歩(33)\n   3 26歩(27)\n", "2g2f", "not decided", ""),
    "colons in ASCII": (ONE.replace("：", ":"), "7g7f", "not decided", ""),
    "marks before moves": (ONE.replace("７六", "▲７六") + "   2 △３四歩(33)\n", "3c3d", "not decided", ""),
    "moves as in KI2, with origins": (HEAD + "   1 ５八金右(49)\n   2 ６二銀直(71)\n", "7a6b", "not decided", ""),
    "hands in digits": (DIAGRAM.replace("歩十八", "歩18") + MATE, "G*1b", "", ""),
    "hands without spaces": (DIAGRAM.replace("　", "") + MATE, "G*1b", "", ""),
    "mate in one character": (ONE + "   2 詰\n", "7g7f", "mate", ""),
    "declared, as cshogi writes it": (ONE + "   2 入玉宣言   ( 0:00/00:00:00)\n", "7g7f", "declared", ""),
    "turned board": ("盤面回転\n" + ONE + "盤面回転\n   2 ３四歩(33)\n", "3c3d", "not decided", ""),
    "bookmarks": (ONE + "&図１\n   2 ３四歩(33)\n", "3c3d", "not decided", ""),
    "long comments with moves": (ONE + f"**{'△３三角打(00) ' * 99}\n   2 ３四歩(33)\n", "3c3d", "not decided", ""),
    "comment before the heading": ("*場所：ここ\n" + ONE, "7g7f", "not decided", ""),
    "other handicaps": ("手合割：右七枚落ち\n" + NAMES + "   1 ３二金(41)\n", "4a3b", "not decided", ""),
    "names of handicaps": ("手合割：七枚落ち\n" + NAMES + "   1 ３二金(41)\n", "4a3b", "not decided", ""),
    "unknown lines": (ONE + "消費時間：1分\n   2 ３四歩(33)\n", "3c3d", "not decided",
                      "skipped: line 6 '消費時間：1分'"),
    "full stops behind numbers": (NAMES + "1. ７六歩(77)\n2. ３四歩(33)\n3. 投了\n", "3c3d", "resigned", ""),
    "numbers in words": (NAMES + "1手目 ７六歩(77)\n2手目　３四歩(33)\n3手目 投了\n", "3c3d", "resigned", ""),
    "colons and brackets": (NAMES + "1: ７六歩(77)\n2：３四歩(33)\n3) 投了\n", "3c3d", "resigned", ""),
    "wide numbers": (NAMES + "１ ７六歩(77)\n２ ３四歩(33)\n３ 投了\n", "3c3d", "resigned", ""),
    "no space behind numbers": (NAMES + "1７六歩(77)\n2３四歩(33)\n3投了\n", "3c3d", "resigned", ""),
    "no numbers": (NAMES + "▲７六歩(77)\n３四歩(33)\n投了\n", "3c3d", "resigned", ""),
    "dates and lists": (ONE + "10分\n1. 駒組み\n3手詰\n2021/11/28 10:00\n", "7g7f", "not decided",
                        "skipped: line 6 '10分', line 7 '1. 駒組み', line 8 '3手詰', line 9 '2021/11/28 10:00'"),
    "sealed move that was made": (ONE + "   2 封じ手\n   2 ３四歩(33)\n   3 投了\n", "3c3d", "resigned",
                                  "skipped: line 6 '封じ手'"),
    "break": (ONE + "   2 中断\nまで1手で中断\n   2 ３四歩(33)\n   3 投了\n", "3c3d", "resigned",
              "skipped: line 6 '中断'"),
    "numbered comment": (ONE + "   2 この手は悪手\n   2 ３四歩(33)\n   3 投了\n", "3c3d", "resigned",
                         "skipped: line 6 'この手は悪手'"),
    "pass at the end": (ONE + "   2 パス\n", "7g7f", "not decided",
                        "its end 'パス' is unknown, and counts as not decided"),
    "second game": (ONE + "   2 投了\n" + ONE.replace("Alpha", "Gamma"), "7g7f", "resigned",
                    "a second game begins at line 7 and isn't read"),
    "second game, no end": (ONE + ONE, "7g7f", "not decided", "a second game begins at line 6 and isn't read"),
    "second game, no heading": (ONE + "   2 投了\n\n   1 ２六歩(27)\n", "7g7f", "resigned",
                                "a second game begins at line 8 and isn't read"),
    "second game behind variations": (ONE + "   2 投了\n\n変化：1手\n   1 ２六歩(27)\n\n" + ONE, "7g7f", "resigned",
                                      "a second game begins at line 11 and isn't read"),
    "text behind the end": (ONE + "   2 投了\nお疲れ様でした\n", "7g7f", "resigned",
                            "skipped: line 7 'お疲れ様でした'"),
    "another number of moves": (ONE + "   2 投了\nまで112手で先手の勝ち\n", "7g7f", "resigned",
                                "line 7 'まで112手で先手の勝ち'; read: 1 move"),
    "another winner": (ONE + "   2 投了\nまで1手で後手の勝ち\n", "7g7f", "resigned",
                       "line 7 'まで1手で後手の勝ち' contradicts its end"),
    "unknown end, winner in the last line": (ONE + "   2 裁定勝ち\nまで1手で後手の勝ち\n", "7g7f", "no reason given",
                                             "only line 7 says how it ended: 'まで1手で後手の勝ち'; "
                                             "skipped: line 6 '裁定勝ち'"),
    "last line in other words": (ONE + "   2 投了\nまで\n", "7g7f", "resigned", "skipped: line 7 'まで'"),
}  # fmt: skip


def last_move(game: Shogi, one: ReadGame) -> str:
    state, history, name = one.start, game.initial_history(one.start), ""
    for move in one.moves:
        name = game.move_name(state[0], move)
        state = game.play(state, np.array([move]), history)
        history.append(np.arange(1), game.keys(state))
    return name


@pytest.mark.parametrize("what", OTHERS)
def test_kif_of_other_programs(what: str) -> None:
    text, last, end, notes = OTHERS[what]
    for codec in ("utf-8", "cp932", "utf-8-sig", "utf-16", "euc_jp"):
        game, (found,) = parse_kifu(text.encode(codec), ".kif")
        assert (last_move(game, found), found.end) == (last, end)
        told = [] if codec.startswith("utf-8") else [f"its text is in {NAMED[codec]}"]
        assert "; ".join(found.notes) == "; ".join([*told, *([notes] if notes else [])])
        assert found.players == (("Alpha", "Beta") if "Alpha\n後手" in text else ("?", "?"))
    if "桂v玉" in text:
        assert game.sfen(found.start[0]) == SETUP.format("w" if "後手番" in text else "b")


@pytest.mark.parametrize(("line", "points", "end"), [
    ("まで2手で先手の勝ち", 1, "no reason given"),
    ("まで2手で後手の勝ち", -1, "no reason given"),
    ("まで2手で上手の勝ち", -1, "no reason given"),
    ("まで、２手で先手勝ち", 1, "no reason given"),
    ("まで2手で先手の反則負け", -1, "illegal move"),
    ("まで2手で後手の反則により先手の勝ち", 1, "illegal move"),
    ("まで2手で後手の時間切れ負け", 1, "out of time"),
    ("まで2手で後手の時間切れ", 1, "out of time"),
    ("まで2手で時間切れにより後手の勝ち", -1, "out of time"),
    ("まで2手で後手の時間切れ勝ち", -1, "out of time"),
    ("まで2手で先手の入玉勝ち", 1, "declared"),
    ("まで2手で後手投了", 1, "resigned"),
    ("まで2手で先手の投了により後手の勝ち", -1, "resigned"),
    ("まで2手で千日手", 0, "repetition"),
    ("まで2手で持将棋", 0, "impasse"),
    ("まで2手で詰み", -1, "mate"),
    ("まで2手で中断", 0, "not decided"),
    ("まで2手で羽生の勝ち", 0, "not decided"),
    ("まで2手で後手の何か", 0, "not decided"),
])  # fmt: skip
def test_the_last_line_alone_says_how_a_game_ended(line: str, points: int, end: str) -> None:
    told = f"only line 7 says how it ended: {line!r}" if end != "not decided" else f"skipped: line 7 {line!r}"
    for before in ("", "   3 中断\n"):
        _, (found,) = parse_kifu(f"{ONE}   2 ３四歩(33)\n{before}{line}\n".encode(), ".kif")
        assert (len(found.moves), found.points, found.end) == (2, points, end)
        assert [note.replace("line 8", "line 7") for note in found.notes] == ([] if "中断" in line else [told])


NAMED = {"cp932": "Shift JIS", "utf-16": "UTF-16", "euc_jp": "EUC-JP"}


def test_cshogi_reads_the_same_in_them() -> None:
    cshogi = pytest.importorskip("cshogi", reason="cshogi isn't installed: pip install cshogi")
    from cshogi import KIF as KIF_READER

    for what in ("drop with 打 and (00)", "drop with (00)", "drop with a space", "sealed move", "sealed move, said"):
        game, (found,) = parse_kifu(OTHERS[what][0].encode())
        other = KIF_READER.Parser.parse_str(OTHERS[what][0])
        assert len(other.moves) == len(found.moves) and cshogi.move_to_usi(other.moves[-1]) == last_move(game, found)


@pytest.mark.parametrize(
    ("text", "last", "points", "end", "notes"),
    [
        ("'CSA encoding=UTF-8\nV3.0\n$MAX_MOVES:256\n$TIME+:600+0+5\nPI\n+\n+7776FU\nT1.250\n%MAX_MOVES\n", "7g7f",
         0, "move limit", ""),
        ("V2\nN+a\nPI\n+\n'** 30 -3334FU +2726FU\n+7776FU\nT1\n'*a comment\n%+ILLEGAL_ACTION\n", "7g7f", -1,
         "illegal move", ""),
        ("PI82HI22KA\n-\n-5142OU,T9\n%TORYO,T1\n", "5a4b", -1, "resigned", ""),
        ("V2.2\nPI\n+\n+7776FU,'* 30 -3334FU,+2726FU\n-3334FU,T3\n%TORYO\n", "3c3d", -1, "resigned", ""),
        ("V2.2\nPI\n+\n+7776FU\nhello\n%TORYO\n", "7g7f", 1, "resigned", "skipped: line 5 'hello'"),
        ("V2.2\nPI\n+\n+7776FU\n%WHAT\n", "7g7f", 0, "not decided",
         "its end '%WHAT' is unknown, and counts as not decided"),
        ("PI\n+\n+7776FU\n%TORYO\n'summary:toryo:a lose\n$END_TIME:2021/11/28\nT1\nhello\n", "7g7f", 1, "resigned",
         "skipped: line 8 'hello'"),
    ],
)  # fmt: skip
def test_csa_of_other_programs(text: str, last: str, points: int, end: str, notes: str) -> None:
    game, (found,) = parse_kifu(text.encode(), ".csa")
    assert (last_move(game, found), found.points, found.end, "; ".join(found.notes)) == (last, points, end, notes)


@pytest.mark.parametrize("end", ["%TORYO\n", "%TORYO\nT1\n\n'x\n", "%TORYO,T1\n", ""])
@pytest.mark.parametrize("heading", ["V2.2\nN+c\nPI\n", "N+c\nPI\n", "PI\n", "P1-KY-KE-GI-KI-OU-KI-GI-KE-KY\nPI\n"])
def test_games_of_csa_without_a_slash_between_them(end: str, heading: str) -> None:
    for begin in ("N+a\nPI\n+\n", "N+a\nPI\n+,"):
        text = f"{begin}+7776FU\n{end}{heading}+\n+2726FU\n%CHUDAN\n"
        _, (first, second) = parse_kifu(text.encode(), ".csa")
    assert first.players[0] == "a" and second.players[0] == ("c" if "c" in heading else "?")
    assert (len(first.moves), len(second.moves), first.points) == (1, 1, 1 if end else 0)


def test_csa_in_other_encodings() -> None:
    for codec, name in (("cp932", "Shift JIS"), ("euc_jp", "EUC-JP")):
        text = "'CSA encoding=SHIFT_JIS\nV2.2\nN+先手さん表\nN-後手能\nPI\n+\n+7776FU\n%TORYO\n"
        _, (found,) = parse_kifu(text.encode(codec), ".csa")
        said = "" if codec == "cp932" else ", not in 'SHIFT_JIS' as it says"
        assert found.players == ("先手さん表", "後手能") and found.notes == (f"its text is in {name}{said}",)


def test_show_tells_what_was_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.kif"
    path.write_text(OTHERS["unknown lines"][0], encoding="cp932")
    shown = "\n".join(show(path))
    assert "note" in shown and "its text is in Shift JIS; skipped: line 6 '消費時間：1分'" in shown
