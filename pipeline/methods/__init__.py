"""Methods of learning: how games are played and recorded, what an example is, what the loss of a batch is.

May import players, search, networks, storage, games and config. Never knows a stage: it reads no folder, writes no file
and draws no progress bar; the stages ask the method that a model, a shard or a chunk names (registry.py).
"""
