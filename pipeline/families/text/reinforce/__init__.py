"""REINFORCE and A2C: a language model learns text games from the rewards of its own games.

May import what methods/ may. Needs a TextGame. Only losses.py and pretraining.py import torch. Never opens a folder of
games or chunks.

A *step* is one answer of the learner (the model that learns): its prompt, its tokens and the action read from them.
Sampling and training use steps only, not chance's seeds or the opponents' moves.
"""
