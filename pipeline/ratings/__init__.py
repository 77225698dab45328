"""The ratings, tournament and pool commands: who is how strong, who meets whom, who stays in the pool of opponents.

Imports matches, players and what lies below them. Never changes the champion or a match's games.
"""
