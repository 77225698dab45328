"""Rules of the games: arrays in, arrays out. base.py is the contract, registry.py has the names.

Imports the foundation only. Never knows a search, a network, a player or a file: a game says which moves are legal,
what they lead to, who won and what a network sees.
"""
