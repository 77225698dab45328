"""Maintenance of a run's files: ``compact`` packs old shards, ``prune`` removes unneeded files, ``verify`` checks all.

May import the commands, whose rules define what they need, and everything below. ``compact`` and ``prune`` run beside
any other command: readers see every game exactly once. They never touch models, matches, ratings, the pool or
promotions.
"""
