"""Ladders in Go: whether a group is lost to atari after atari. Plain twin: ``tests/reference/go.py``.

Parts of kernels on the boards of ``groups``, which are changed and put right again. The group is the one at the point
`target`, of a colour; the other side attacks. Nothing here knows what occurred before: a repetition doesn't stop a
ladder.

moves [T, MOVES + P] int16 is scratch, a row per ply: NUM_MOVES that may be tried there, how many have been TRIED, how
many LINES of play may lead there, and the MOVES.
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

SAFE = 3  # liberties: a group with so many can't be held in atari
MAX_DEPTH = 100  # plies that a ladder is read; it runs over the whole of 19×19 in fewer
MAX_LINES = 32  # of play that are read, at most: see is_caught
NUM_PLIES = MAX_DEPTH + 2  # T: the first is the attacker's that begins a ladder
NUM_MOVES, TRIED, LINES, MOVES = 0, 1, 2, 3


@part
def runs_free(board, point, taken):
    """Whether a group that extends to an empty point has SAFE liberties beside it at once, without the one taken."""
    found = 0
    for word in range(len(board.words)):
        found += count_bits(without(board.beside[point, word] & board.empty[word], word, taken))
    return found >= SAFE


@part
def may_catch(board, move, other, colour):
    """Whether an atari at one of a group's two liberties may catch it: not if extending to the other saves it."""
    return liberties_after(board, other, colour, move) < SAFE or takes(board, move, 1 - colour)


@part
def set_moves(moves, ply, found, num_moves):
    """Note how many moves were found and how many may be tried -> False if that makes too many plies or lines."""
    moves[ply, NUM_MOVES], moves[ply, TRIED] = num_moves, 0
    moves[ply + 1, LINES] = min(MAX_LINES + 1, moves[ply, LINES] * found)
    return ply < MAX_DEPTH and moves[ply + 1, LINES] <= MAX_LINES


@part
def find_escapes(board, target, colour, moves, ply):
    """What may save a group of one liberty: to extend, or to take a stone in atari. -> over, caught: whether nothing
    needs to be tried, and if so how it ends. Moves whose end is clear count as lines but aren't tried.
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
    """The same of what the attacker may try: one of the group's two liberties."""
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
    """Whether a group of one liberty is lost to atari after atari though it moves.

    Odd plies are the defender's, even ones the attacker's. A line of play is given up, and the group escapes, after
    MAX_DEPTH plies or where more than MAX_LINES would be read if every line had as many moves at each ply as this one:
    so the answer doesn't depend on the moves' order, thus not on how the board is turned.
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
        while True:  # back to the last ply whose side to move isn't content and may have another move
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
