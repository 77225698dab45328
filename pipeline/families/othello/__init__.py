"""Othello."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "othello": "pipeline.families.othello.game:Othello.from_spec",
    },
    extensions.PAGES: {"othello": "pipeline.families.othello.page:OthelloPage"},
}
