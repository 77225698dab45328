"""``loop``: generation after generation, by calling the other commands in one process.

Imports the run's files and presets, never another command: main.py gives it the function that calls them.
"""
