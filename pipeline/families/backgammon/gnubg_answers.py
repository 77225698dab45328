"""A script for the Python inside GNU Backgammon (``gnubg --tty --python THIS``); MuGo never imports it.

Answers questions on standard input, framed as in the Go Text Protocol so that GtpEngine can be the other side. Answers
go to the file open as ANSWERS: on standard output gnubg has words of its own. ``NUMBER move HIGH LOW`` and 51 numbers
ask for a move: checkers of the player to move on points 1 to 24 in their own numbering and on the bar, the same of the
opponent in theirs, the plies to look ahead. The answer is gnubg's best move in cubeless money play, in steps
``24/21 13/11``, or ``pass``.
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
    "set jacoby off",  # with it gammons don't count before the cube is turned
    "set cube use off",
    "new session",
)
NOISELESS = 0.0


def best_move(words: list[str], info: dict) -> str:
    high, low, *numbers = map(int, words)
    mine, theirs, plies = tuple(numbers[:25]), tuple(numbers[25:50]), numbers[50]
    gnubg.command(f"set dice {high} {low}")  # findbestmove() takes them from the game under way
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
