"""The ratings, tournament and pool commands: how strong players are, who meets next, who stays in the pool.

Imports matches, players and what lies below them. Never changes the champion or a match's games.
"""
