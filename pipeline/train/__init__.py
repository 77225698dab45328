"""The train command: from the newest set of chunks and the newest model to the next model; and ``init``: the first.

Imports methods, networks, storage and games; its modules may import torch, its command only inside functions. Never
plays or replays games, and never changes a model or the examples of a chunk.
"""
