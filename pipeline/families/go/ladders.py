"""Ladders in Go: whether a group is lost to atari after atari. Plain twin: ``tests/reference/go.py``.

Parts of kernels on the boards of ``groups``, which they change and restore. The defender's group is the one at the
point `target`; the other side attacks. Earlier positions are unknown, so a repetition doesn't stop a ladder.

moves [T, MOVES + P] int16 is scratch, a row per ply: NUM_MOVES to try, how many have been TRIED, how many LINES of play
may lead there, and the MOVES.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from pipeline.families.go.board import part
from pipeline.families.go.groups import (
    AROUND,
    STONES,
    count_bits,
    count_liberties,
    first_of,
    liberties_after,
    put,
    take_back,
    takes,
    two_liberties,
    without,
)

SAFE = 3  # liberties at which a group has escaped
MAX_DEPTH = 100  # plies that a ladder is read; one across 19×19 is shorter
MAX_LINES = 32  # lines of play that are read: see is_caught
NUM_PLIES = MAX_DEPTH + 2  # T; ply 0 is the attacker's move that begins a ladder
NUM_MOVES, TRIED, LINES, MOVES = 0, 1, 2, 3


@part
def runs_free(board, point, taken):
    """Whether an empty point has SAFE liberties beside it without `taken`, so that extending there escapes at once."""
    found = 0
    for word in range(len(board.words)):
        found += count_bits(without(board.beside[point, word] & board.empty[word], word, taken))
    return found >= SAFE


@part
def may_catch(board, move, other, colour):
    """Whether an atari at one of a group's two liberties may catch it: not if extending to the other one saves it."""
    return liberties_after(board, other, colour, move) < SAFE or takes(board, move, 1 - colour)


@part
def set_moves(moves, ply, found, num_moves):
    """Record the moves to try -> False at too many plies or lines. found: moves that count as lines."""
    moves[ply, NUM_MOVES], moves[ply, TRIED] = num_moves, 0
    moves[ply + 1, LINES] = min(MAX_LINES + 1, moves[ply, LINES] * found)
    return ply < MAX_DEPTH and moves[ply + 1, LINES] <= MAX_LINES


@part
def find_escapes(board, target, colour, moves, ply):
    """Find what may save a group with one liberty: extending, or capturing a group in atari.

    -> over, caught: whether there is nothing to try, and then the result. Moves with a clear result count as lines but
    aren't tried.
    """
    key, last = board.keys[colour, target], two_liberties(board, board.keys[colour, target])[0]
    free = liberties_after(board, last, colour, last)
    if free >= SAFE:
        return True, False
    found, num_moves = 1, 0
    if free == 2 or takes(board, last, colour):  # else it is suicide, or leaves the group in atari
        moves[ply, MOVES] = last
        num_moves = 1
    for word in range(len(board.words)):
        enemies = board.sets[key, AROUND, word] & ~board.empty[word] & ~board.sets[key, STONES, word]
        while enemies:
            group = board.keys[1 - colour, first_of(enemies, word)]
            enemies &= ~board.sets[group, STONES, word]
            if count_liberties(board, group) != 1:
                continue
            move = two_liberties(board, group)[0]
            known = move == last
            for i in range(num_moves):
                known |= moves[ply, MOVES + i] == move
            if not known:
                moves[ply, MOVES + num_moves] = move
                num_moves += 1
                found += 1
    if not set_moves(moves, ply, found, num_moves):
        return True, num_moves == 0 and free == 0
    return num_moves == 0, True


@part
def find_ataris(board, target, colour, moves, ply):
    """The same for the attacker, who plays at one of the group's two liberties."""
    key = board.keys[colour, target]
    free = count_liberties(board, key)
    if free != 2:
        return True, free < 2
    first, second = two_liberties(board, key)
    found, num_moves = 0, 0
    for move, other in ((first, second), (second, first)):
        if not runs_free(board, other, move):
            found += 1
            if may_catch(board, move, other, colour):
                moves[ply, MOVES + num_moves] = move
                num_moves += 1
    return not set_moves(moves, ply, found, num_moves) or num_moves == 0, False


@part
def is_caught(board, target, colour, moves):
    """Whether a group with one liberty is lost to atari after atari, with the defender to move.

    Odd plies are the defender's, even plies the attacker's. The group counts as escaped in a line of play after
    MAX_DEPTH plies, or if more than MAX_LINES lines would be read, assuming that every line has as many moves at each
    ply as this one. So the answer depends neither on the order of moves nor on the board's orientation.
    """
    ply, arrived = 1, True
    moves[ply, LINES] = 1
    while True:
        defending, over, caught = ply % 2 == 1, False, False
        if arrived and defending:
            over, caught = find_escapes(board, target, colour, moves, ply)
        elif arrived:
            over, caught = find_ataris(board, target, colour, moves, ply)
        arrived = False
        if not over:
            mover = colour if defending else 1 - colour
            if moves[ply, TRIED] < moves[ply, NUM_MOVES]:
                move = moves[ply, MOVES + moves[ply, TRIED]]
                moves[ply, TRIED] += 1
                if put(board, move, mover, ply):
                    ply += 1
                    arrived = True
                else:
                    take_back(board, move, mover, ply)
                continue
            caught = defending  # the side to move has tried everything
        while True:  # back to the last ply whose mover wants another result
            if ply == 1:
                return caught
            ply -= 1
            mover = colour if ply % 2 == 1 else 1 - colour
            take_back(board, moves[ply, MOVES + moves[ply, TRIED] - 1], mover, ply)
            if caught == (mover == colour):
                break


@part
def starts_ladder(board, move, other, target, colour, moves):
    """Whether the opponent's move catches a group whose two liberties are move and other."""
    if runs_free(board, other, move) or not may_catch(board, move, other, colour):
        return False
    legal = put(board, move, 1 - colour, 0) > 0
    caught = legal and is_caught(board, target, colour, moves)
    take_back(board, move, 1 - colour, 0)
    return caught
