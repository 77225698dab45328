"""A script for the Python embedded in GNU Backgammon (``gnubg --tty --python THIS``); MuGo never imports it.

It answers questions on standard input in the framing of the Go Text Protocol. Answers go to file descriptor ANSWERS,
because gnubg itself prints on standard output. ``NUMBER move HIGH LOW`` and 51 numbers ask for a move: the mover's
checkers on points 1 to 24 in their own numbering and on the bar, the same for the opponent, and the plies to look
ahead. The answer is gnubg's best move in cubeless money play as steps ``24/21 13/11``, or ``pass``.
"""

import os
import sys

import gnubg

ANSWERS = 3
SETTINGS = (
    "set automatic game off",
    "set automatic move off",
    "set automatic roll off",
    "set automatic bearoff off",
    "set display off",
    "set confirm new off",
    "set confirm save off",
    "set player 0 human",
    "set player 1 human",
    "set jacoby off",  # Jacoby rule: gammons don't count before the cube is turned
    "set cube use off",
    "new session",
)
NOISELESS = 0.0


def best_move(words: list[str], info: dict) -> str:
    high, low, *numbers = map(int, words)
    mine, theirs, plies = tuple(numbers[:25]), tuple(numbers[25:50]), numbers[50]
    gnubg.command(f"set dice {high} {low}")  # findbestmove() takes them from the current game
    context = gnubg.evalcontext(0, plies, 1, int(plies > 0), NOISELESS)  # cubeless, deterministic, pruned
    points = gnubg.findbestmove((theirs, mine), info, context)
    steps = [
        f"{source}/{max(target, 0)}" for source, target in zip(points[::2], points[1::2], strict=True) if source > 0
    ]
    return " ".join(steps) or "pass"


def main() -> None:
    answers = os.fdopen(ANSWERS, "w")
    for command in SETTINGS:
        gnubg.command(command)
    info = gnubg.cubeinfo()
    for line in sys.stdin:
        number, word, *words = line.split()
        if word == "quit":
            break
        try:
            answers.write(f"={number} {best_move(words, info) if word == 'move' else 'gnubg'}\n\n")
        except Exception as error:
            answers.write(f"?{number} {type(error).__name__}: {error}\n\n")
        answers.flush()
    os._exit(0)


main()
