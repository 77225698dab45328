"""Search trees held in arrays, for many games in one batch: PUCT and Gumbel AlphaZero.

May import games and the foundation. Knows games through their batched functions and networks only as a callable;
never reads files, decides games or resigns.
"""
