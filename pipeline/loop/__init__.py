"""``loop``: generation after generation, by calling the other commands in one process.

Imports the run's files, presets, and which games have a page to play on, but never calls another command itself:
main.py gives it the function that does.
"""
