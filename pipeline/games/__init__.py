"""What a game is (contract.py), what only some can do (capabilities.py), games by name (specs.py), what boards share,
and records of games.

Imports only the modules beside the packages. Never knows a search, a network, a player or a run's files: a game says
which moves are legal, what they lead to, who won and what a network sees.
"""
