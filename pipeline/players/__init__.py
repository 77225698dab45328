"""Players choose moves in many games at once: searching models, built-in players, engines behind pipes.

Imports search, networks, run and games; torch only through networks, when a model is loaded. Never runs
games: matches/ and self-play do, and report every move to every player.
"""
