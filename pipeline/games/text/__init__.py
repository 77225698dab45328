"""Text games: two-player environments of TextArena, played in words.

May import games/base.py and errors; textarena is imported inside the functions that need it. Never knows language
models: what a player is shown is text, and an answer is text.

    environment.py  one environment at a time: its messages, its random numbers, what it raises
    words.py        what a player is shown of the messages, which actions they list
    game.py         the environments as a game of base.py
"""
