"""Our rules of shogi against other programs: perft tables, cshogi, Fairy-Stockfish.

`python -m tests.families.shogi` makes the complete comparisons; CI makes smaller ones (test_oracles.py).
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.shogi import kernels
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.kifu import CSA, FORMATS, KIF, USI, parse_kifu
from pipeline.games.contract import BoolArray, History, States
from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.testing import Step

FAIRY = shutil.which("fairy-stockfish") or next(
    (path for path in ["/usr/games/fairy-stockfish"] if Path(path).is_file()), None
)
ROWS = 20_000  # positions of one call


def kifu_record(
    form: str,
    game: Shogi,
    moves: Sequence[int],
    text: RecordText,
    comments: Sequence[str] = (),
    resigned_by: int | None = None,
    start: States | None = None,
) -> str:
    """A game as KIF, CSA or USI."""
    return FORMATS[form].write(game, PlayedGame(moves, text, comments, resigned_by=resigned_by, start=start))


# Positions, where they stand, and how many lines of 1, 2, … moves there are. Those of the first three are published:
# https://qiita.com/ak11/items/8bd5f2bb0f5b014143c8 and YaneuraOu's unit tests (start, "matsuri"), ShogiLibSharp's tests
# and yasai's benchmark (593 moves, the most there are). The others are by cshogi 1.1.0 and Fairy-Stockfish 11.1, which
# agree on all of them.
PERFT: dict[str, tuple[str, tuple[int, ...]]] = {
    "start": ("lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1", (30, 900, 25470, 719731, 19861490)),
    "matsuri, YaneuraOu": (
        "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
        (207, 28684, 4809015, 516925165),
    ),
    "593 moves": ("R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1", (593, 105677, 53393368, 9342410965)),
    "YaneuraOu's bench, 2": (
        "lnsgkgsnl/1r7/p1ppp1bpp/1p3pp2/7P1/2P6/PP1PPPP1P/1B3S1R1/LNSGKG1NL b - 9",
        (31, 1177, 37189, 1307221),
    ),
    "YaneuraOu's bench, 3": (
        "l4S2l/4g1gs1/5p1p1/pr2N1pkp/4Gn3/PP3PPPP/2GPP4/1K7/L3r+s2L w BS2N5Pb 1",
        (98, 15850, 1114656, 153238280),
    ),
    "YaneuraOu's bench, 4": (
        "6n1l/2+S1k4/2lp4p/1np1B2b1/3PP4/1N1S3rP/1P2+pPP+p1/1p1G5/3KG2r1 b GSN2L4Pgs2p 1",
        (246, 41605, 8420492, 1166887043),
    ),
    "YaneuraOu's unit test of moves": (
        "lnsgk1snl/1r4g2/p1ppppb1p/6pP1/7R1/2P6/P2PPPP1P/1SG6/LN2KGSNL b BP2p 21",
        (90, 4848, 326490, 17720214),
    ),
    "the USI protocol's example": (
        "8l/1l+R2P3/p2pBG1pp/kps1p4/Nn1P2G2/P1P1P2PP/1PS6/1KSG3+r1/LN2+p3L w Sbgn3p 124",
        (178, 18041, 2552846, 207741677),
    ),
    "rsshogi's tests, mates": (
        "lnsG5/4g4/prpp1p1pp/1p4p1k/4+B4/2P1P3P/P+b1PSP1L1/4K2SL/2G2G1r1 b SP3nl3p 73",
        (115, 13174, 1141929, 113343779),
    ),
    "rsshogi's tests, two kings": (
        "4k4/9/4P4/9/9/9/9/9/4K4 b G2r2b3g4s4n4l17p 1",
        (85, 39850, 617352, 268435580),
    ),
    "rsshogi's tests, promotions": (
        "lnsgk1snl/1p4g2/pR1ppp2p/2p6/9/9/P1SPPPP1P/2G6/LN2KG1NL b B3Prb2p 25",
        (110, 14050, 1189857, 119976856),
    ),
    "Habu against Kato, 1988, at 5b": (
        "ln1g5/1r2S1k2/p2pppn2/2ps2p2/1p7/2P6/PPSPPPPLP/2G2K1pr/LN4G1b w BGSLPnp 62",
        (74, 16440, 864786, 160541294),
    ),
}
MINI_PERFT = (14, 181, 2512, 35401, 533203)  # from shogi:5's start; published in lishogi's shogiops


def perft(game: Shogi, states: States, depth: int) -> int:
    """The number of lines of this many moves from states [B, S]."""
    legal = game.legal(states, History.empty(len(states), 1))
    if depth == 1:
        return int(legal.sum())
    rows, actions = np.nonzero(legal)
    total = 0
    for at in range(0, len(rows), ROWS):
        part = slice(at, at + ROWS)
        history = History.empty(len(rows[part]), 1)
        total += perft(game, game.play(states[rows[part]], actions[part].astype(np.int32), history), depth - 1)
    return total


def likely_games(game: Shogi, num_games: int, seed: int, random_share: float) -> Iterator[Step]:
    """Games of the moves that the heuristic evaluation prefers, and this share of random ones."""
    generator = np.random.default_rng(seed)
    evaluate = game.heuristic()
    states = game.initial(num_games)
    history = game.initial_history(states)
    while (rows := np.flatnonzero(~game.is_over(states))).size:
        before, past = states[rows], history.select(rows)
        legal = game.legal(before, past)
        noise = generator.random(legal.shape)
        liked = evaluate(before, past) + noise
        scores = np.where(generator.random((len(rows), 1)) < random_share, noise * legal, liked)
        actions = scores.argmax(axis=1).astype(np.int32)
        after = game.play(before, actions, past)
        yield Step(rows, before, past, legal, actions, after)
        states[rows] = after
        history.append(rows, game.keys(after))


def compare_with_cshogi(game: Shogi, steps: Iterator[Step], num_games: int) -> Counter[str]:
    """Legal moves, SFEN, checks, mates and declarations at every position; counts positions, moves and ends.

    Fails with the position at the first difference.
    """
    import cshogi

    boards = [cshogi.Board() for _ in range(num_games)]
    law = {kernels.RULE_24: cshogi.LAW_24, kernels.RULE_27: cshogi.LAW_27}
    counts: Counter[str] = Counter()
    for step in steps:
        checks, ends = game.in_check(step.states), game.ends(step.after)
        for i, row in enumerate(step.rows.tolist()):
            board, state = boards[row], step.states[i]
            where = game.sfen(state)
            assert where == board.sfen()
            found = {game.move_name(state, action) for action in np.flatnonzero(step.legal[i]).tolist()}
            theirs = {cshogi.move_to_usi(move) for move in board.legal_moves}
            assert found == theirs, f"{where}: {sorted(found ^ theirs)}"
            assert bool(checks[i]) == board.is_check(), where
            counts["positions"] += 1
            counts["moves"] += len(found)
            board.push_usi(game.move_name(state, int(step.actions[i])))
            after = game.sfen(step.after[i])
            mated = not list(board.legal_moves)
            assert mated == (ends[i] == kernels.NO_MOVE), after
            if game.declaration in law and not mated and ends[i] not in (kernels.REPETITION, kernels.PERPETUAL_CHECK):
                wins = board.nyugyoku_result(law[game.declaration]) == cshogi.NYUGYOKU_WIN
                assert wins == (ends[i] == kernels.DECLARATION), after
            if ends[i]:
                counts[f"end {ends[i]}"] += 1
    return counts


def compare_records(game: Shogi, steps: Iterator[Step], num_games: int) -> Counter[str]:
    """Whole games written as KIF, CSA and USI: cshogi and our reader find the same moves, KIF's result among them."""
    import cshogi
    from cshogi import CSA as CSA_READER
    from cshogi import KIF as KIF_READER

    moves: list[list[int]] = [[] for _ in range(num_games)]
    last = [game.initial(1)] * num_games
    for step in steps:
        for i, row in enumerate(step.rows.tolist()):
            moves[row].append(int(step.actions[i]))
            last[row] = step.after[i : i + 1]
    wins = {1: cshogi.BLACK_WIN, -1: cshogi.WHITE_WIN, 0: cshogi.DRAW}
    counts: Counter[str] = Counter()
    for played, state in zip(moves, last, strict=True):
        records = {form: kifu_record(form, game, played, RecordText("a", "b")) for form in (KIF, CSA, USI)}
        named = records[USI].split()[3:]
        kif, (csa,) = KIF_READER.Parser.parse_str(records[KIF]), CSA_READER.Parser.parse_str(records[CSA])
        assert [cshogi.move_to_usi(move) for move in kif.moves] == named
        assert [cshogi.move_to_usi(move) for move in csa.moves] == named
        assert kif.win == wins[int(game.returns(state)[0])]
        for record in records.values():
            assert parse_kifu(record.encode())[1][0].moves == played
        counts += Counter({"games": 1, "moves": len(played), f"end {game.ends(state)[0]}": 1})
    return counts


def compare_with_fairy(game: Shogi, variant: str, states: States, legal: BoolArray) -> int:
    """Compare the legal moves of positions [B, S] with Fairy-Stockfish -> the number of pawn drops that mate.

    Fairy-Stockfish lists those moves as legal, and their player loses. Fails with the position at any other difference.
    """
    sfens, mates = [game.sfen(state) for state in states], 0
    for state, sfen, allowed, theirs in zip(states, sfens, legal, fairy_moves(variant, sfens), strict=True):
        found = {game.move_name(state, action) for action in np.flatnonzero(allowed).tolist()}
        for move in found ^ theirs:
            assert move in theirs and move.startswith("P*"), f"{sfen}: {move}"
            with pytest.raises(IllegalMove, match="a pawn may not mate"):
                game.play(state[None], np.array([game.parse_move(state, move)]), History.empty(1, 1))
            mates += 1
    return mates


def fairy_moves(variant: str, sfens: list[str]) -> list[set[str]]:
    """The moves that Fairy-Stockfish's `go perft 1` lists for each position."""
    assert FAIRY is not None
    questions = [f"position sfen {sfen}\ngo perft 1" for sfen in sfens]
    done = subprocess.run(
        [FAIRY],
        input="\n".join(["usi", f"setoption name UCI_Variant value {variant}", *questions, "quit", ""]),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    answers = done.stdout.split("Nodes searched:")[:-1]
    assert len(answers) == len(sfens)
    return [{line.partition(":")[0] for line in answer.splitlines() if line.endswith(": 1")} for answer in answers]
