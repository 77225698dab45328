"""Othello."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "othello": "pipeline.families.othello.game:Othello.from_spec",
    },
    extensions.PRESETS: {"othello": "pipeline.families.othello"},
}
