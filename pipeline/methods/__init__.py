"""Learning methods: how games are played and recorded, what an example is, what the loss of a batch is.

May import workers, players, search, networks, run, games and the modules beside the packages. Never knows a command and
writes no file; each command asks the method that a model, shard or chunk names (named.py).
"""
