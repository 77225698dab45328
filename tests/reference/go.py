"""Go, plain: the twin of ``pipeline/games/go``, written from the rules' text. For tests, not for play.

Rules of Tromp and Taylor (https://tromp.github.io/go.html), numbered as there, and what we add:
    1-2  a point is black, white or empty; a point *reaches* a colour if a path of adjacent points of its own colour
         leads from it to a point of that colour
    3    clearing a colour empties all its points that don't reach empty
    4-5  black first, in turn; a turn is a pass, or a move that doesn't repeat an earlier grid colouring
    6    a move colours an empty point one's own colour, then clears the opponent's colour, then one's own
    7    the game ends after two consecutive passes
    8-9  a score is the points of a colour plus the empty points that reach only that colour; the higher one wins
    ours a move that clears own stones (suicide) is forbidden, komi is white's, and a move limit ends the game, which is
         scored as it stands

Points are numbered row · size + column with row 0 at the top; action size² is the pass.
A set of points is a Python int: bit p is set if point p belongs to it.
"""

from __future__ import annotations

from pipeline.errors import IllegalMove

EMPTY, BLACK, WHITE = 0, 1, 2


class GoReference:
    """One game. It only changes by ``play``.

    stones     {BLACK: set, WHITE: set}
    history    every grid colouring (black set, white set) that has occurred, the first and the current one included
    to_move    BLACK or WHITE
    actions    what was played so far
    """

    def __init__(self, size: int, komi: float = 7.5, max_plies: int | None = None) -> None:
        self.size = size
        self.komi = komi
        self.max_plies = 2 * size * size if max_plies is None else max_plies
        self.pass_action = size * size
        self.stones = {BLACK: 0, WHITE: 0}
        self.history = {(0, 0)}
        self.to_move = BLACK
        self.actions: list[int] = []
        self._everywhere = (1 << size * size) - 1
        self._left_column = sum(1 << row * size for row in range(size))

    @property
    def board(self) -> list[int]:
        """The colour of each point."""
        black, white = self.stones[BLACK], self.stones[WHITE]
        return [(black >> p & 1) * BLACK + (white >> p & 1) * WHITE for p in range(self.size**2)]

    @property
    def is_over(self) -> bool:
        two_passes = self.actions[-2:] == [self.pass_action, self.pass_action]
        return two_passes or len(self.actions) >= self.max_plies

    def play(self, action: int) -> None:
        """Raises IllegalMove if the rules forbid it; then nothing has changed."""
        if self.is_over:
            raise IllegalMove(f"action {action}: the game is over")
        if action != self.pass_action:
            self.stones = self._stones_after(action)
            self.history.add((self.stones[BLACK], self.stones[WHITE]))
        self.actions.append(action)
        self.to_move = BLACK + WHITE - self.to_move

    def legal(self) -> list[int]:
        """All actions that ``play`` accepts now, in order."""
        if self.is_over:
            return []
        allowed = []
        for action in range(self.pass_action):
            try:
                self._stones_after(action)
            except IllegalMove:
                continue
            allowed.append(action)
        return [*allowed, self.pass_action]

    def ownership(self) -> list[int]:
        """Per point +1 black's area, -1 white's, 0 nobody's."""
        black, white = self.stones[BLACK], self.stones[WHITE]
        empty = self._everywhere & ~(black | white)
        reaches_black = black | self._spread(self._beside(black), empty)
        reaches_white = white | self._spread(self._beside(white), empty)
        return [(reaches_black >> p & 1) - (reaches_white >> p & 1) for p in range(self.size**2)]

    def score(self) -> float:
        """Black's area minus white's minus komi, of the board as it stands."""
        return sum(self.ownership()) - self.komi

    def result(self) -> int:
        """+1 black won, -1 white won, 0 a draw or not over."""
        if not self.is_over or self.score() == 0:
            return 0
        return 1 if self.score() > 0 else -1

    def num_liberties(self, point: int) -> int:
        """Of the group at a point."""
        return _count(self._liberties(self.stones, point))

    def after_play(self, point: int, colour: int) -> tuple[int, int]:
        """What a stone of the colour on an empty point does: liberties of its group, 0 for suicide; stones captured.

        Whoever is to move, and whether or not it repeats a position.
        """
        stones = self._put(self.stones, point, colour)
        if stones is None:
            return 0, 0
        other = BLACK + WHITE - colour
        return _count(self._liberties(stones, point)), _count(self.stones[other] & ~stones[other])

    def ladder(self, point: int, max_depth: int, max_lines: int) -> tuple[bool, set[int]]:
        """Whether the group at a point is lost to atari after atari, repetitions allowed; where that can begin.

        A group with one liberty: though it moves; the set is empty. With two: if the opponent moves. With more: no.
        A line of play isn't read on, and the group escapes, after so many plies, where the numbers of moves along it
        multiply to more than max_lines, and where one more stone has three liberties beside it.
        """
        attacker = BLACK + WHITE - self.board[point]
        liberties = self._liberties(self.stones, point)
        if _count(liberties) == 1:
            return self._is_caught(self.stones, point, 0, max_depth, max_lines), set()
        if _count(liberties) > 2:
            return False, set()
        starts = set()
        for move in _members(liberties):
            stones = None if self._runs_free(self.stones, liberties, move) else self._put(self.stones, move, attacker)
            if stones and self._is_caught(stones, point, 0, max_depth, max_lines):
                starts.add(move)
        return bool(starts), starts

    def _is_caught(self, stones: dict[int, int], point: int, depth: int, max_depth: int, lines: float) -> bool:
        """Even depths are the defender's. lines: that may still be read from here."""
        defender = BLACK if stones[BLACK] >> point & 1 else WHITE
        attacker, defending = BLACK + WHITE - defender, depth % 2 == 0
        liberties = self._liberties(stones, point)
        if depth == max_depth or lines < 1:
            return False
        if not defending and _count(liberties) == 1:
            return True
        if _count(liberties) > (1 if defending else 2) or (defending and self._runs_free(stones, liberties, None)):
            return False
        if defending:
            beside = _members(self._beside(self._group(stones, point)) & stones[attacker])
            atari = (self._liberties(stones, near) for near in beside if _count(self._liberties(stones, near)) == 1)
            moves = {*_members(liberties), *(_members(free)[0] for free in atari)}
        else:
            moves = {move for move in _members(liberties) if not self._runs_free(stones, liberties, move)}
        for move in moves:
            after = self._put(stones, move, defender if defending else attacker)
            if after and self._is_caught(after, point, depth + 1, max_depth, lines / len(moves)) != defending:
                return not defending
        return defending

    def _runs_free(self, stones: dict[int, int], liberties: int, taken: int | None) -> bool:
        """Whether extending to the group's only liberty but the one taken reaches three others at once: not read on."""
        rest = liberties & ~(0 if taken is None else 1 << taken)
        empty = self._everywhere & ~(stones[BLACK] | stones[WHITE] | liberties)
        return _count(self._beside(rest) & empty) >= 3

    def _stones_after(self, action: int) -> dict[int, int]:
        """Both colours' stones after one more of the player to move. Raises IllegalMove."""
        if not 0 <= action < self.pass_action:
            raise IllegalMove(f"action {action}: no such action")
        if (self.stones[BLACK] | self.stones[WHITE]) >> action & 1:
            raise IllegalMove(f"action {action}: the point is occupied")
        stones = self._put(self.stones, action, self.to_move)
        if stones is None:
            raise IllegalMove(f"action {action}: suicide")
        if (stones[BLACK], stones[WHITE]) in self.history:
            raise IllegalMove(f"action {action}: it repeats an earlier position")
        return stones

    def _put(self, stones: dict[int, int], point: int, colour: int) -> dict[int, int] | None:
        """Both colours' stones after one more on an empty point; None: suicide."""
        mine = stones[colour] | 1 << point
        theirs = self._clear(stones[BLACK + WHITE - colour], mine)
        if self._clear(mine, theirs) != mine:
            return None
        return {colour: mine, BLACK + WHITE - colour: theirs}

    def _group(self, stones: dict[int, int], point: int) -> int:
        colour = BLACK if stones[BLACK] >> point & 1 else WHITE
        return self._spread(1 << point, stones[colour])

    def _liberties(self, stones: dict[int, int], point: int) -> int:
        """The empty points beside the group at `point`."""
        empty = self._everywhere & ~(stones[BLACK] | stones[WHITE])
        return self._beside(self._group(stones, point)) & empty

    def _clear(self, colour: int, other: int) -> int:
        """The points of this colour that reach empty, on a board where the other colour has those points."""
        empty = self._everywhere & ~(colour | other)
        return self._spread(self._beside(empty), colour)

    def _spread(self, start: int, within: int) -> int:
        """The points of the set `within` that a path inside it connects to a point of both sets."""
        found, grown = 0, start & within
        while grown != found:
            found, grown = grown, (grown | self._beside(grown)) & within
        return found

    def _beside(self, points: int) -> int:
        """All points adjacent to a point of the set."""
        rightward = (points << 1) & ~self._left_column
        leftward = (points & ~self._left_column) >> 1
        return (rightward | leftward | points << self.size | points >> self.size) & self._everywhere


def _count(points: int) -> int:
    return points.bit_count()


def _members(points: int) -> list[int]:
    """Its points, ascending."""
    return [point for point in range(points.bit_length()) if points >> point & 1]
