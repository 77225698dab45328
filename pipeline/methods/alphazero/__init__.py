"""AlphaZero: a tree search improves a network's policy, and the network learns policy and result from its own games.

May import what methods/ may. Needs a Game with a fixed list of actions and planes, and no chance; torch is imported
only where a batch or a loss is made (batch.py, losses.py). Never opens a folder of games, chunks or models.
"""
