"""REINFORCE and A2C: a language model learns text games from the rewards of its own games.

May import what methods/ may. Needs a TextGame; torch is imported only where a batch or a loss is made (losses.py,
pretraining.py). Never opens a folder of games or chunks.

A *step* is one answer of the model that learns: the prompt that it was shown, the tokens that it said, the action that
was read from them. Steps are what is sampled and trained on; chance's seeds and the opponents' moves never are.
"""
