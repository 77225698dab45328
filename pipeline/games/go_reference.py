"""Go, plain: the twin of ``go_kernels``, written from the rules' text. For tests, not for play.

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

    def _stones_after(self, action: int) -> dict[int, int]:
        """Both colours' stones after one more of the player to move. Raises IllegalMove."""
        if not 0 <= action < self.pass_action:
            raise IllegalMove(f"action {action}: no such action")
        if (self.stones[BLACK] | self.stones[WHITE]) >> action & 1:
            raise IllegalMove(f"action {action}: the point is occupied")
        mine = self.stones[self.to_move] | 1 << action
        theirs = self._clear(self.stones[BLACK + WHITE - self.to_move], mine)
        if self._clear(mine, theirs) != mine:
            raise IllegalMove(f"action {action}: suicide")
        stones = {self.to_move: mine, BLACK + WHITE - self.to_move: theirs}
        if (stones[BLACK], stones[WHITE]) in self.history:
            raise IllegalMove(f"action {action}: it repeats an earlier position")
        return stones

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
