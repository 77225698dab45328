"""Which of TextArena's environments can be played: ``python -m benchmarks.text_environments [NAME …]``.

Plays two games of each registered environment at random, writes them as records, and replays the records in another
process with another hash seed, comparing what players are shown. Where actions are texts, a move is one of the
suggestions of ``TextGame.listed`` that the environment accepts, so that games last longer than those of the player
``random``; the last one tried if it accepts none. Prints a table for docs/text.md: a line per outcome, with the
environments that share it, each with the number of its sizes and (if both games ended by invalid moves) a star.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.errors import GameFault, IllegalMove, MuGoError, UsageError
from pipeline.families.text.game import SEEDS, TextGame
from pipeline.games.contract import CHANCE
from pipeline.games.specs import parse_game

SEEDS_TRIED = (0, 1)
PLIES = 80
TRIES = 12  # suggestions, before an invalid one is played
PATIENCE = 10  # seconds, after which a game goes on with the first suggestion
SECONDS = 60  # for one environment
ANSWER = "@answer "
TEXTARENA_FORMS = ("-raw", "-train")


def random_game(game: TextGame, seed: int) -> tuple[list[int], Any, np.ndarray]:
    """(moves as recorded, the texts, the last state [1, S]) of a game at random. Raises GameFault."""
    generator, start = np.random.default_rng(seed), time.monotonic()
    states = game.initial(1)
    history = game.initial_history(states)
    moves: list[int] = []
    while not game.is_over(states)[0]:
        if game.to_move(states)[0] == CHANCE:
            moves.append(seed % SEEDS)
            states = game.play(states, np.array(moves), history)
            continue
        for move in generator.permutation(game.moves(states, history).of(0))[:TRIES].tolist():
            after = game.play(states, np.array([move]), history)
            if not game.refused(after)[0] or time.monotonic() - start > PATIENCE:
                break
        moves.append(move)
        states = after
    return *game.written(moves), states


def play(name: str) -> dict[str, Any]:
    """Two games of an environment, as JSON: spec, players, games; or why not."""
    try:
        game = parse_game(f"text:{name},plies={PLIES}")
    except UsageError as error:
        return {"refused": str(error).removeprefix(f"game text:{name}: ")}
    assert isinstance(game, TextGame)
    try:
        played = [random_game(game, seed) for seed in SEEDS_TRIED]
    except GameFault as error:
        return {"raised": str(error).removeprefix(f"text:{name}: ")}
    return {
        "spec": game.spec,
        "players": game.num_seats[0],
        "lists": not game.speaks,
        "games": [(moves, said) for moves, said, _ in played],
        "results": [float(game.returns(states)[0]) for *_, states in played],
        "plies": [int(game.plies(states)[0]) - 1 for *_, states in played],
        "ended": ["plies" if game.cut_short(states)[0] else "invalid" if game.lost_by_invalid(states)[0] >= 0 else
                  "rules" for *_, states in played],
    }  # fmt: skip


def replayed(found: dict[str, Any]) -> dict[str, Any]:
    """What play() found, with "differs" if a replay isn't the same."""
    game = parse_game(found["spec"])
    assert isinstance(game, TextGame)
    for (moves, said), result in zip(found.pop("games"), found["results"], strict=True):
        try:
            actions = game.recalled(moves, tuple((text, checksum) for text, checksum in said))
            states = game.initial(1)
            history = game.initial_history(states)
            for action in actions:
                states = game.play(states, np.array([action]), history)
            if game.returns(states)[0] != result:
                return {**found, "differs": f"a result of {game.returns(states)[0]:g}, recorded {result:g}"}
        except IllegalMove as error:
            return {**found, "differs": str(error)}
    return found


def run(part: str, names: list[str], found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Play, or replay what was found, in a process of its own. Names without an answer have "raised"."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.text_environments", f"--{part}", *names], input=json.dumps(found),
        env={**os.environ, "PYTHONHASHSEED": str(len(part))}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    answers = dict(json.loads(line.removeprefix(ANSWER)) for line in lines)  # environments print, too
    return {name: answers.get(name, {"raised": f"the process ended ({done.returncode})"}) for name in names}


def answer(part: str, names: list[str]) -> None:
    """One process's part."""
    found = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, _late)
    for name in names:
        start = time.monotonic()
        signal.alarm(SECONDS)
        try:
            one = play(name) if part == "play" else replayed(found[name])
        except (TimeoutError, MuGoError) as error:
            one = {"raised": str(error)}
        signal.alarm(0)
        print(f"{part} {name}: {outcome(one)} {one.get('plies')} {one.get('ended')} {time.monotonic() - start:.1f} s",
              file=sys.stderr)  # fmt: skip
        print(ANSWER + json.dumps([name, one]), flush=True)


def _late(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s for two games")


def outcome(found: dict[str, Any]) -> str:
    for fault in ("refused", "raised", "differs"):
        if fault in found:
            text = re.sub(r"text:\S+: |\(env\.py, line \d+\)", "", found[fault])
            return f"{fault}: {re.sub(r'/[^ ]*/', '', text)}"
    kind = "lists its actions" if found["lists"] else "actions are texts"
    players = {1: "one player", 2: "two players"}.get(found["players"], f"{found['players']} players")
    return f"{players}, {kind}"


def table(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """By outcome, the environments without their sizes."""
    outcomes: dict[str, dict[str, list[bool]]] = {}
    for name, one in found.items():
        short = set(one.get("ended", ())) == {"invalid"}
        outcomes.setdefault(outcome(one), {}).setdefault(name.partition("-")[0], []).append(short)
    yield from ("| outcome | environments |", "|---|---|")
    for what, kinds in sorted(outcomes.items(), key=lambda pair: (":" in pair[0], pair[0])):
        names = [f"{kind}{'*' if all(short) else ''}{f' ({len(short)})' if len(short) > 1 else ''}"
                 for kind, short in sorted(kinds.items())]  # fmt: skip
        yield f"| {what} | {', '.join(names)} |"


def main() -> None:
    part, names = sys.argv[1:2], sys.argv[2:]
    if part in (["--play"], ["--replay"]):
        answer(part[0].removeprefix("--"), names)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="environments [default: all]")
    given = parser.parse_args()
    try:
        from textarena.envs.registration import ENV_REGISTRY
    except ModuleNotFoundError:
        parser.error("needs the package textarena: pip install '.[text]'")

    names = given.names or [one for one in ENV_REGISTRY if not one.endswith(TEXTARENA_FORMS)]
    found = run("play", names, {})
    played = [name for name in names if "games" in found[name]]
    print("\n".join(table(found | run("replay", played, found))))


if __name__ == "__main__":
    main()
