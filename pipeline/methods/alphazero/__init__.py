"""AlphaZero: a tree search improves a network's policy, and the network learns policy and result from its own games.

Needs a game with a fixed list of actions, planes and no chance. Only training_batch.py and losses.py import torch.
Never opens a folder of games, chunks or models.
"""
