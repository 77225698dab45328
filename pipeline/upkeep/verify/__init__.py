"""``verify``: the integrity of a run's files, checked from the files alone.

Applies the commands' own rules for games, sets and promotions. Changes files only with ``repair``.
"""
