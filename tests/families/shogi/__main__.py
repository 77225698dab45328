"""The complete comparison of shogi's rules with other programs: `python -m tests.families.shogi`."""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

from pipeline.families.shogi.game import Shogi
from pipeline.games.contract import History
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from tests.families.shogi import oracles, test_libraries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--positions", type=int, default=0, help="compared with each program, half of them of random games"
    )
    parser.add_argument("--perft-lines", type=int, default=0, help="perft counts up to this many lines of moves")
    parser.add_argument("--games", type=int, default=0, help="written as records and read back, half of them random")
    parser.add_argument("--libraries", type=int, default=0, help="games compared with each library of test_libraries")
    given = parser.parse_args()
    for name, (sfen, wanted) in oracles.PERFT.items():
        game = parse_game("shogi,declaration=off")
        check_perft(game, name, sfen, wanted, given.perft_lines)
    check_perft(parse_game("shogi:5"), "minishogi", "rbsgk/4p/5/P4/KGSBR b - 1", oracles.MINI_PERFT, given.perft_lines)
    for spec in ("shogi", "shogi,declaration=24"):
        for kind in ("random", "likely"):
            compare(parse_game(spec), kind, given.positions // 4)
    for kind in ("random", "likely"):
        compare_minishogi(kind, given.positions // 2)
        compare_records(kind, given.games // 2)
    if given.libraries:
        compare_libraries(given.libraries)


def check_perft(game: Shogi, name: str, sfen: str, wanted: tuple[int, ...], lines: int) -> None:
    for depth, count in enumerate(wanted, start=1):
        if count > lines:
            break
        started = time.perf_counter()
        found = oracles.perft(game, game.from_sfen(sfen), depth)
        seconds = time.perf_counter() - started
        print(f"{name}, depth {depth}: {found:,} in {seconds:.1f} s, wanted {count:,}", flush=True)
        assert found == count


def compare(game: Shogi, kind: str, positions: int) -> None:
    """With cshogi, at least this many positions."""
    done, seed = 0, 100
    while done < positions:
        seed += 1
        steps = random_games(game, 64, seed) if kind == "random" else oracles.likely_games(game, 64, seed, 0.1)
        counts = oracles.compare_with_cshogi(game, steps, 64)
        done += counts["positions"]
        print(f"{game.spec}, {kind} games, cshogi: {done:,} positions equal, {dict(counts)}", flush=True)


def compare_records(kind: str, games: int) -> None:
    """With cshogi's readers of KIF and CSA, and with our own."""
    game, counts, seed = parse_game("shogi"), Counter[str](), 700
    while counts["games"] < games:
        seed += 1
        steps = random_games(game, 64, seed) if kind == "random" else oracles.likely_games(game, 64, seed, 0.2)
        counts += oracles.compare_records(game, steps, 64)
        print(f"records, {kind} games: {dict(counts)}", flush=True)


def compare_libraries(games: int) -> None:
    """With python-shogi, rsshogi and tsshogi: positions, records, declarations."""
    game = parse_game("shogi,declaration=off,moves=600")
    for name, make in test_libraries.LIBRARIES.items():
        try:
            library = make()
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        counts = Counter[str]()
        for seed in range(1000, 1000 + games, 56):
            played = test_libraries.games_of(game, 28, 80, seed, to_the_end=False)
            counts += test_libraries.compare_positions(library, game, played)
            whole = [test_libraries.up_to_its_end(game, one) for one in played]
            counts += test_libraries.compare_records(library, game, whole)
        if isinstance(library, test_libraries.TsShogi):
            counts += test_libraries.compare_declarations(library, 10 * games, 1)
            library.process.communicate()
        print(f"{name}: {dict(counts)}", flush=True)


def compare_minishogi(kind: str, positions: int) -> None:
    """With Fairy-Stockfish."""
    game, done, seed = parse_game("shogi:5"), 0, 100
    while done < positions:
        seed += 1
        steps = random_games(game, 64, seed) if kind == "random" else oracles.likely_games(game, 64, seed, 0.1)
        states = np.concatenate([step.states for step in steps])
        legal = game.legal(states, History.empty(len(states), 1))
        mates = oracles.compare_with_fairy(game, "minishogi", states, legal)
        done += len(states)
        print(f"shogi:5, {kind} games, Fairy-Stockfish: {done:,} positions equal, {mates} mates by a pawn", flush=True)


if __name__ == "__main__":
    main()
