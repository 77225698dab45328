"""Names of turns, derived from the boards before and after them, and diagrams. Legality is checked by kernels.py.

Turns use the standard notation in the mover's own numbering: ``24/18 13/11``; ``bar/21``; ``6/off``; ``8/5*`` hits;
in ``13/7*/5`` one checker hits on the way; ``8/5(2)`` moves two checkers. Intermediate points without a hit are
omitted. A turn without a move is ``pass``. Throws have the higher die first: ``31``.

A *view* is a board from one player's side: [26] checkers borne off, on points 1 to 24 in that player's own numbering
(the opponent's are negative), on the bar. So point 0 is off, and point 25 the bar.
A *step* moves one checker by one die: (from, to).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.families.backgammon.kernels import BAR, ENTERING, HIGH_DIE, LOW_DIE, NUM_POINTS, OFF, TURN

View = list[int]
Step = tuple[int, int]

PASS = "pass"
WORDS = {ENTERING: "bar", 0: "off"}
POINTS = {"bar": ENTERING, "off": 0, **{str(point): point for point in range(ENTERING + 1)}}
PART = re.compile(r"(bar|\d+)((?:/(?:off|\d+)\*?)+)(?:\(([1-4])\))?")
HEIGHT = 5  # rows of checkers in each half of a diagram


def view(state: NDArray[np.int16], player: int) -> View:
    """The board of a state [S] from a player's side."""
    points = state[:NUM_POINTS].tolist()
    if player == 1:
        points = [-count for count in reversed(points)]
    return [int(state[OFF + player]), *points, int(state[BAR + player])]


def changes(before: NDArray[np.int16], after: NDArray[np.int16]) -> tuple[Counter[int], frozenset[int]]:
    """The number of the mover's checkers that each point lost (negative: gained), and the points that were hit."""
    old, new = view(before, int(before[TURN])), view(after, int(before[TURN]))
    lost = {point: max(old[point], 0) - max(new[point], 0) for point in range(1, ENTERING + 1)}
    hits = (point for point in range(1, ENTERING) if old[point] == -1 and new[point] >= 0)
    return Counter({point: count for point, count in lost.items() if count}), frozenset(hits)


def name(before: NDArray[np.int16], after: NDArray[np.int16]) -> str:
    """The name of the turn from a state [S] with dice to one of its successors [S]."""
    lost, hits = changes(before, after)
    if not lost:
        return PASS
    parts = Counter(_paths(_steps(before, lost, hits)))
    unmarked, texts = set(hits), []
    for path, checkers in sorted(parts.items(), reverse=True):
        text = WORDS.get(path[0], str(path[0]))
        for point in path[1:]:
            if point in unmarked:
                text += f"/{point}*"
                unmarked.remove(point)
            elif point == path[-1]:
                text += f"/{WORDS.get(point, str(point))}"
        texts.append(text if checkers == 1 else f"{text}({checkers})")
    return " ".join(texts)


def steps(before: NDArray[np.int16], after: NDArray[np.int16]) -> list[Step]:
    """The steps of the turn from a state [S] with dice to one of its successors [S], rearmost checker first."""
    lost, hits = changes(before, after)
    return sorted(_steps(before, lost, hits), reverse=True) if lost else []


def _steps(before: NDArray[np.int16], lost: Counter[int], hits: frozenset[int]) -> list[Step]:
    """Steps that produce these changes with the dice of a state [S]."""
    high, low = int(before[HIGH_DIE]), int(before[LOW_DIE])
    if high == low:
        # The checkers that left a point: its own loss plus the arrivals from one die farther back.
        left: dict[int, int] = {}
        for point in range(ENTERING, 0, -1):
            left[point] = lost[point] + left.get(point + high, 0)
        return [(point, max(point - high, 0)) for point, checkers in left.items() for _ in range(checkers)]
    board = view(before, int(before[TURN]))
    for steps in _plays_of_two(lost, high, low):
        landed = {point for _, point in steps if point}
        if all(board[point] >= -1 for point in landed) and {point for point in landed if board[point] == -1} == hits:
            return steps
    raise AssertionError("no play of these dice connects the two boards")


def _plays_of_two(lost: Counter[int], high: int, low: int) -> Iterator[list[Step]]:
    """All plays of one or both of two dice that change the points by `lost`."""
    losing = [point for point in lost if lost[point] > 0]
    sources = sorted({point - die for point in losing for die in (0, high, low) if point > die}, reverse=True)
    singles = [[(source, max(source - die, 0))] for die in (high, low) for source in sources]
    half = len(sources)
    for steps in [*singles, *(one + other for one in singles[:half] for other in singles[half:])]:
        found = Counter(source for source, _ in steps)
        found.subtract(target for _, target in steps if target)
        if found == lost:
            yield steps


def _paths(steps: list[Step]) -> list[tuple[int, ...]]:
    """Steps joined into paths of single checkers, with every point that each touches."""
    waiting, paths = sorted(steps, reverse=True), []
    while waiting:
        path = list(waiting.pop(0))
        while going := [step for step in waiting if step[0] == path[-1]]:
            waiting.remove(going[0])
            path.append(going[0][1])
        paths.append(tuple(path))
    return paths


@dataclass(frozen=True)
class WrittenTurn:
    """A parsed turn: checkers that each point loses (negative: gains), points touched, points marked as hit."""

    lost: Counter[int]
    touched: frozenset[int]
    marked: frozenset[int]


def parse(text: str) -> WrittenTurn | None:
    """Parse a turn, its parts in any order. None if the text isn't a turn on any board."""
    lost: Counter[int] = Counter()
    touched: set[int] = set()
    marked: set[int] = set()
    words = text.lower().split()
    if words == [PASS]:
        words = []
    elif not words:
        return None
    for word in words:
        found = PART.fullmatch(word)
        if found is None:
            return None
        start, targets, checkers = found[1], found[2][1:].split("/"), int(found[3] or 1)
        path = [POINTS.get(point.rstrip("*"), -1) for point in (start, *targets)]
        if min(path) < 0 or sorted(set(path), reverse=True) != path:
            return None
        lost.update({path[0]: checkers})
        if path[-1]:
            lost.update({path[-1]: -checkers})
        touched.update(path[1:])
        marked.update(point for point, target in zip(path[1:], targets, strict=True) if target.endswith("*"))
    return WrittenTurn(lost, frozenset(touched), frozenset(marked))


def matching(text: str, before: NDArray[np.int16], successors: Iterable[NDArray[np.int16]]) -> list[int]:
    """Indices of the successors [S] of a state [S] that match a text; several only if it leaves open what is hit.

    A checker touches every point written, so the text may omit the marks of hits.
    """
    written = parse(text)
    if written is None:
        return []
    board = view(before, int(before[TURN]))
    hit = written.marked | {point for point in written.touched if point and board[point] == -1}
    fitting = []
    for i, after in enumerate(successors):
        lost, hits = changes(before, after)
        if lost == written.lost and hits >= hit:
            if hits == hit:
                return [i]
            fitting.append(i)
    return fitting


def diagram(state: NDArray[np.int16]) -> list[str]:
    """The lines of a board. X is the first player, O the second; points are numbered for the player whose turn it is.

    X moves from the upper right to the lower right, O in the opposite direction. On a point with more than HEIGHT
    checkers, the innermost mark is their number.
    """
    labels = [point if state[TURN] == 0 else 25 - point for point in range(NUM_POINTS + 1)]
    upper, lower = range(13, 25), range(12, 0, -1)
    return [
        _edge([labels[point] for point in upper]),
        *(_row([_mark(int(state[point - 1]), row) for point in upper]) for row in range(HEIGHT)),
        _row(["   "] * 12),
        *(_row([_mark(int(state[point - 1]), row) for point in lower]) for row in reversed(range(HEIGHT))),
        _edge([labels[point] for point in lower]),
        f"  bar: X {state[BAR]}, O {state[BAR + 1]}; off: X {state[OFF]}, O {state[OFF + 1]}",
    ]


def _edge(labels: list[int]) -> str:
    numbers = [f"{label:->3}" for label in labels]
    return f" +{''.join(numbers[:6])}-+{''.join(numbers[6:])}-+"


def _row(cells: list[str]) -> str:
    return f" |{''.join(cells[:6])} |{''.join(cells[6:])} |"


def _mark(count: int, row: int) -> str:
    """Three characters for a point's checkers in a row counted from the edge."""
    if abs(count) > HEIGHT and row == HEIGHT - 1:
        return f"{abs(count):3d}"
    if abs(count) > row:
        return "  X" if count > 0 else "  O"
    return "   "
