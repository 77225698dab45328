"""Readers under fire: whatever stands in a file, a reader returns or raises MuGoError, at once and in bounded memory.

``readers.py`` says how files of each kind are made and read, ``mutations.py`` how bytes become damage to them. Few
examples of each are tried in ``./test.sh`` (hypothesis), as many as you like by ``python -m tests.fuzz`` (atheris).
"""
