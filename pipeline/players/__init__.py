"""Players, which choose moves in many games at once: searching models, built-in players, engines behind pipes.

Imports search, networks, storage and games; torch only through networks, when a model is loaded. Never runs a game:
matches/ and self-play do, and tell every player all moves.
"""
