"""The ratings, tournament and pool commands: players' strengths, the next pair to play, the members of the pool.

Imports matches, players and what lies below them. Never changes the champion or a recorded game.
"""
