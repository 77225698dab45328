"""Shogi, slow and obvious: the plain twin of ``families/shogi/kernels.py`` and ``moves.py``. For tests, not for play.

A board is a dict from (row, column), from the upper left corner, to a piece as SFEN writes it: "+R", or "p" for the
second player's. Players are 0 and 1; moves are written in USI.
"""

from __future__ import annotations

from pipeline.errors import IllegalMove

STARTS = {
    9: "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL",
    5: "rbsgk/4p/5/P4/KGSBR",
}
ORTHOGONAL = [(-1, 0), (1, 0), (0, -1), (0, 1)]
DIAGONAL = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
GOLD = [*ORTHOGONAL, (-1, -1), (-1, 1)]
STEPS = {"P": [(-1, 0)], "N": [(-2, -1), (-2, 1)], "S": [(-1, 0), *DIAGONAL], "G": GOLD, "K": ORTHOGONAL + DIAGONAL,
         "+P": GOLD, "+L": GOLD, "+N": GOLD, "+S": GOLD, "+B": ORTHOGONAL, "+R": DIAGONAL}  # fmt: skip
SLIDES = {"L": [(-1, 0)], "B": DIAGONAL, "R": ORTHOGONAL, "+B": DIAGONAL, "+R": ORTHOGONAL}
NEEDS_ROWS = {"P": 1, "L": 1, "N": 2}  # in front of it, or it could never move again
POINTS = {"R": 5, "B": 5}

Square = tuple[int, int]


def owner(piece: str) -> int:
    return 0 if piece.isupper() else 1


class ShogiReference:
    """One game. It only changes by ``play``.

    declaration: 27, 24 or 0, as the game's option. end: why the game is over, in words; winner: 0, 1 or None.
    """

    def __init__(self, size: int, declaration: int = 27, max_plies: int = 512) -> None:
        self.size, self.declaration, self.max_plies = size, declaration if size == 9 else 0, max_plies
        self.zone = 3 if size == 9 else 1
        self.board: dict[Square, str] = {}
        self.hands: list[dict[str, int]] = [{}, {}]
        self.to_move = self.ply = 0
        self.end: str | None = None
        self.winner: int | None = None
        for row, line in enumerate(STARTS[size].split("/")):
            column = 0
            for letter in line:
                if letter.isdigit():
                    column += int(letter)
                else:
                    self.board[row, column] = letter
                    column += 1
        self.past = [(self.position(), self.in_check(0))]

    def position(self) -> tuple[object, ...]:
        """What the repetition rule calls the same."""
        hands = [tuple(sorted((kind, count) for kind, count in hand.items() if count)) for hand in self.hands]
        return tuple(sorted(self.board.items())), *hands, self.to_move

    def square_name(self, square: Square) -> str:
        return f"{self.size - square[1]}{'abcdefghi'[square[0]]}"

    def square(self, name: str) -> Square:
        return "abcdefghi".index(name[1]), self.size - int(name[0])

    def on_board(self, square: Square) -> bool:
        return 0 <= square[0] < self.size and 0 <= square[1] < self.size

    def row_ahead(self, player: int, row: int) -> int:
        """Counted from the far end: 0 is the last row that a player's pieces can reach."""
        return row if player == 0 else self.size - 1 - row

    def reach(self, source: Square) -> list[Square]:
        """Where the piece on a square attacks; own pieces there are protected."""
        piece = self.board[source]
        player, kind = owner(piece), piece.upper()
        forward = 1 if player == 0 else -1
        found = []
        for step in STEPS.get(kind, []):
            found.append((source[0] + forward * step[0], source[1] + forward * step[1]))
        for slide in SLIDES.get(kind, []):
            square = source
            while True:
                square = square[0] + forward * slide[0], square[1] + forward * slide[1]
                found.append(square)
                if not self.on_board(square) or square in self.board:
                    break
        return [square for square in found if self.on_board(square)]

    def attacks(self, player: int, square: Square) -> bool:
        """Whether a piece of a player attacks a square."""
        mine = [source for source, piece in self.board.items() if owner(piece) == player]
        return any(square in self.reach(source) for source in mine)

    def in_check(self, player: int) -> bool:
        king = "K" if player == 0 else "k"
        return self.attacks(1 - player, next(square for square, piece in self.board.items() if piece == king))

    def candidates(self) -> list[str]:
        """Moves by how pieces move and where they may be dropped; kings aside."""
        player, found = self.to_move, []
        for source, piece in list(self.board.items()):
            if owner(piece) != player:
                continue
            kind = piece.upper()
            for target in self.reach(source):
                if target in self.board and owner(self.board[target]) == player:
                    continue
                name = self.square_name(source) + self.square_name(target)
                ahead = self.row_ahead(player, target[0])
                if ahead >= NEEDS_ROWS.get(kind, 0):
                    found.append(name)
                if kind in "PLNSBR" and min(ahead, self.row_ahead(player, source[0])) < self.zone:
                    found.append(name + "+")
        for kind, count in self.hands[player].items():
            if not count:
                continue
            for target in [(row, column) for row in range(self.size) for column in range(self.size)]:
                if target in self.board or self.row_ahead(player, target[0]) < NEEDS_ROWS.get(kind, 0):
                    continue
                pawn = "P" if player == 0 else "p"
                if kind == "P" and pawn in [self.board.get((row, target[1])) for row in range(self.size)]:
                    continue
                found.append(f"{kind}*{self.square_name(target)}")
        return found

    def after(self, move: str) -> ShogiReference:
        """The board after a candidate, the other player to move; nothing else of the game."""
        new = object.__new__(ShogiReference)
        new.size, new.zone, new.board = self.size, self.zone, dict(self.board)
        new.hands = [dict(hand) for hand in self.hands]
        hand, target = new.hands[self.to_move], self.square(move[2:4])
        if move[1] == "*":
            hand[move[0]] -= 1
            piece = move[0]
        else:
            piece = new.board.pop(self.square(move[:2]))
            if move.endswith("+"):
                piece = "+" + piece
            if target in new.board:
                taken = new.board[target].upper().removeprefix("+")
                hand[taken] = hand.get(taken, 0) + 1
        new.board[target] = piece.upper() if self.to_move == 0 else piece.lower()
        new.to_move = 1 - self.to_move
        return new

    def legal(self) -> list[str]:
        """In any order; none once the game is over."""
        return [] if self.end else self.moves()

    def moves(self) -> list[str]:
        found = []
        for move in self.candidates():
            after = self.after(move)
            if after.in_check(self.to_move):
                continue
            if move.startswith("P*") and after.in_check(after.to_move) and not after.moves():
                continue
            found.append(move)
        return found

    def entered(self, player: int) -> tuple[int, int]:
        """(pieces beside the king in the zone, points); (0, 0) if the king isn't there."""
        inside = [piece.upper().removeprefix("+") for (row, _), piece in self.board.items()
                  if owner(piece) == player and self.row_ahead(player, row) < self.zone]  # fmt: skip
        if "K" not in inside:
            return 0, 0
        inside.remove("K")
        held = [kind for kind, count in self.hands[player].items() for _ in range(count)]
        return len(inside), sum(POINTS.get(kind, 1) for kind in inside + held)

    def play(self, move: str) -> None:
        """Raises IllegalMove; then nothing has changed."""
        if move not in self.legal():
            raise IllegalMove(f"{move}: not legal here")
        after, mover = self.after(move), self.to_move
        self.board, self.hands, self.to_move = after.board, after.hands, after.to_move
        self.ply += 1
        self.past.append((self.position(), self.in_check(self.to_move)))
        self._look_for_an_end(mover)

    def _look_for_an_end(self, mover: int) -> None:
        other, checked = 1 - mover, self.past[-1][1]
        if not self.moves():
            self.end, self.winner = "no move", mover
            return
        now = len(self.past) - 1
        same = [index for index, (position, _) in enumerate(self.past) if position == self.past[now][0]]
        if len(same) >= 4:
            checks_on_other = all(self.past[index][1] for index in range(same[0] + 2, now + 1, 2))
            checks_on_mover = all(self.past[index][1] for index in range(same[0] + 1, now + 1, 2))
            if checks_on_other != checks_on_mover:
                self.end, self.winner = "perpetual check", other if checks_on_other else mover
            else:
                self.end, self.winner = "repetition", 1 if self.size == 5 else None
            return
        if self.declaration and not checked:
            pieces, points = self.entered(other)
            if pieces >= 10:
                wanted = 31 if self.declaration == 24 else 28 - other
                if points >= wanted:
                    self.end, self.winner = "declaration", other
                elif self.declaration == 24 and points >= 24:
                    their_pieces, their_points = self.entered(mover)
                    if their_pieces >= 10 and their_points >= 24:
                        self.end = "both entered"
        if not self.end and self.ply >= self.max_plies:
            self.end = "move limit"
