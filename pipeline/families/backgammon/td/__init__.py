"""TD(λ): a network learns what the positions are worth that turns end in, from what it says of later ones.

May import what methods/ may. Needs a FeatureGame with throws before turns; torch is imported only where a batch or a
loss is made (losses.py). Never opens a folder of games, chunks or models.

A *turn* t is a throw and the move that follows, two plies of the record. Its position s_t is the one before the throw,
which the turn before ended in: what the network judges and learns. Values and chances are seen by the player who is
about to throw there, so that a near win for one is a near loss for the other. outcomes.py says what the
outputs are.
"""
