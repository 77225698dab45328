"""TD(λ): a network learns the values of afterstates (positions after a turn) from its values of later ones.

May import what methods/ may. Needs a FeatureGame with throws before turns. Only losses.py imports torch, when a batch
or a loss is made. Never opens a folder of games, chunks or models.

A *turn* t is a throw and the move that follows: two plies of the record. Its position s_t is the one before the throw,
the afterstate of the previous turn; the network evaluates and learns these positions. Values and chances are seen by
the player who is about to throw. outcomes.py defines the outputs.
"""
