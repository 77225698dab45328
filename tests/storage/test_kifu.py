"""Records of shogi: cshogi reads what we write and means the same games; what is read is checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.config import EvaluateConfig
from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.games.registry import parse_game
from pipeline.games.shogi import kernels
from pipeline.games.shogi.game import Shogi
from pipeline.reports.show import game_records, show
from pipeline.storage.kifu import CSA, KIF, USI, KifuGame, _ending, kifu_record, read_kifu
from pipeline.storage.sgf import SgfText
from tests.games.playing import NO_HISTORY, random_games
from tests.games.shogi.oracles import likely_games

TEXT = SgfText("先 one", "two", event="an event", round="7", comment="a comment\nof two lines")


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


def read_back(tmp_path: Path, form: str, record: str) -> KifuGame:
    path = tmp_path / f"game.{form}"
    path.write_text(record)
    _, (found,) = read_kifu(path)
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
                assert found.players == (TEXT.black, TEXT.white)
            if game.ends(state)[0] in (kernels.NO_MOVE, kernels.DECLARATION) and form != USI:
                assert found.points == game.returns(state)[0]


def test_cshogi_reads_the_same_games() -> None:
    cshogi = pytest.importorskip("cshogi", reason="cshogi isn't installed: pip install cshogi")
    from cshogi import CSA as CSA_READER
    from cshogi import KIF as KIF_READER

    game, games, last = games_of("shogi", 12, likely=True)
    results = set()
    for moves, state in zip(games, last, strict=True):
        resigned = not bool(game.is_over(state)[0])
        usi = kifu_record(USI, game, moves, TEXT).split()[3:]
        kif = KIF_READER.Parser.parse_str(kifu_record(KIF, game, moves, TEXT, ["said"] * len(moves), resigned))
        (csa,) = CSA_READER.Parser.parse_str(kifu_record(CSA, game, moves, TEXT, ["said"] * len(moves), resigned))
        for other in (kif, csa):
            assert [cshogi.move_to_usi(move) for move in other.moves] == usi
            assert list(other.names) == [TEXT.black, TEXT.white] and other.sfen == cshogi.STARTING_SFEN
        result = int(game.returns(state)[0])
        assert kif.win == {1: cshogi.BLACK_WIN, -1: cshogi.WHITE_WIN, 0: cshogi.DRAW}[result]
        results.add(result)
        board = cshogi.Board()
        board.set_position(kifu_record(USI, game, moves, TEXT).strip().removeprefix("position "))
        assert board.sfen() == game.sfen(state[0])
    assert len(results) > 1


def test_a_record_of_each_kind() -> None:
    game = parse_game("shogi")
    moves = moves_of(game, "7g7f 3c3d 8h2b+ 3a2b B*5e")
    kif = kifu_record(KIF, game, moves, TEXT, ["", "said\ntwice"], resigned=True).splitlines()
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
    csa = kifu_record(CSA, game, moves, TEXT, resigned=True).splitlines()
    assert csa[:4] == ["V2.2", "N+先 one", "N-two", "$EVENT:an event 7"]
    assert csa[-8:] == ["PI", "+", "+7776FU", "-3334FU", "+8822UM", "-3122GI", "+0055KA", "%TORYO"]
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
    assert _ending(game, last[0], False)[:2] == (kif, csa)


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
        assert _ending(game, state[0], False)[:2] == ("反則負け", f"%{loser}ILLEGAL_ACTION")


CSA_FILE = "V2.2\nN+a\nN-b\nPI\n+\n+7776FU\nT12\n-3334FU,T3\n+8822UM\n-3122GI\n%TORYO\n/\nPI\n+\n+2726FU\n%CHUDAN\n"


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "two.csa"
    path.write_text(CSA_FILE)
    game, (first, second) = read_kifu(path)
    assert first == KifuGame(("a", "b"), moves_of(game, "7g7f 3c3d 8h2b+ 3a2b"), -1, "resigned")
    assert second == KifuGame(("?", "?"), moves_of(game, "2g2f"), 0, "not decided")
    shift_jis = tmp_path / "old.kif"
    text = "手合割：平手　　\n先手：羽生\n手数----指手\n   1 ７六歩(77)   ( 0:05/00:00:05)\n   2 ３四歩(33) ( 0:01/)\n"
    text += "   3 ２二角成(88)+\n   4 同　銀(31)\n   5 投了\n\n変化：2手\n   2 ８四歩(83)\n"
    shift_jis.write_bytes(text.encode("cp932"))
    _, (old,) = read_kifu(shift_jis)
    assert old.moves == first.moves and old.players == ("羽生", "?") and (old.points, old.end) == (-1, "resigned")
    lines = tmp_path / "lines.usi"
    lines.write_text("startpos moves 7g7f 3c3d\n\nposition startpos\n")
    assert [len(one.moves) for one in read_kifu(lines)[1]] == [2, 0]


RECORDS = {  # whole files, for tests/fuzz
    CSA: CSA_FILE,
    KIF: "手合割：平手\n先手：a\n   1 ７六歩(77)\n*said\n   2 ３四歩(33)\n   3 ２二角成(88)\n   4 同　銀(31)\n   5 投了\n",
    USI: "position startpos moves 7g7f 3c3d 8h2b+ 3a2b B*5e\n",
}

WRONG = [
    ("a.csa", "PI\n+\n+7776FU\n+2726FU\n%TORYO", "line 4: +2726FU: a move of the player who has just moved"),
    ("a.csa", "PI\n+\n+7775FU\n%TORYO", "line 3: +7775FU"),
    ("a.csa", "PI\n+\n+7776KI\n%TORYO", "line 3: +7776KI"),
    ("a.csa", "PI\n+\n+7776XX\n%TORYO", "no piece is written XX"),
    ("a.csa", "PI\n+\n+0055OU\n%TORYO", "such a piece can't be dropped"),
    ("a.csa", "PI\n+\n+7776FU\n", "its end: no result after 1 moves"),
    ("a.csa", "PI\n+\n%WHAT\n", "line 3: '%WHAT': unknown end"),
    ("a.csa", "PI82HI22KA\n+\n%TORYO\n", "a beginning of its own"),
    ("a.csa", "hello\n", "line 1: 'hello'; wanted a move"),
    ("a.csa", "PI\n" + "x" * 600, "line 2: 600 characters"),
    ("a.kif", "手合割：二枚落ち\n", "line 1: a game that begins '二枚落ち'"),
    ("a.kif", "   1 ７六歩(77)\n   3 ３四歩(33)\n", "line 2: '3 ３四歩(33)'; wanted move 2"),
    ("a.kif", "   1 同　歩(77)\n", "there was none"),
    ("a.kif", "   1 ７六銀(77)\n", "line 1: ７六銀(77): it moves a 歩"),
    ("a.kif", "   1 ７六歩(00)\n", "line 1"),
    ("a.kif", "   1 hello\n", "line 1: 'hello'; wanted a move"),
    ("a.kif", "", "its end: no result after 0 moves"),
    ("a.usi", "", "no line 'position startpos moves …'"),
    ("a.usi", "position sfen x", "line 1: 'sfen x'; wanted position startpos moves"),
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
    shown = "\n".join(show(path, 0))
    assert "手合割：5五将棋" in text and "heuristic" in shown and "wins" in shown and "XK" in shown
    with pytest.raises(UsageError, match="--csa is for shogi on the large board"):
        list(game_records(folder, form=CSA))
    with pytest.raises(UsageError, match="isn't written in SGF; shogi has --kif, --csa and --usi"):
        list(game_records(folder))


def test_csa_does_not_know_minishogi() -> None:
    with pytest.raises(MuGoError, match="CSA knows the large board alone"):
        kifu_record(CSA, parse_game("shogi:5"), [], TEXT)
