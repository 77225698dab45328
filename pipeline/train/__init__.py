"""``train`` makes the next model from the newest set of chunks; ``init`` makes the first model; ``export`` copies one.

Imports methods, networks, run and games. Commands import torch only inside functions. Never plays or replays games,
and never changes a model or the examples of a chunk.
"""
