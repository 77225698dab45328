"""Search trees held in arrays, for many games in one batch: PUCT and Gumbel AlphaZero.

May import games and the foundation. Calls games through their batched functions and knows networks only as a callable;
never reads files or resigns.
"""
