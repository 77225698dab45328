"""How other programs play against a model: the engine command, its protocols, and the search session behind them.

Imports players and what lies below them. Never writes files.
"""
