"""How others play against a model: the commands engine, play and serve, protocols, and the session behind them.

Imports players and what lies below them. Never writes a file but the records that a person at the terminal asks
for.
"""
