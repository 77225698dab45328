"""``loop``: generation after generation, by calling the other commands in one process.

For a run without a preset, ``measuring`` measures the game and this machine, and ``recipe`` derives settings from that.
Imports the run's files, presets, which games have a page to play on, and to measure them the parts that play and train;
but never calls another command itself: main.py gives it the function that does.
"""
