"""The verify command: everything that must hold of a run's files, checked from the files alone.

Imports the commands' own rules (what a game is, what a set, what a promotion needs) and writes none of its own. Never
plays, trains or promotes, and without ``repair`` never changes a file.
"""
