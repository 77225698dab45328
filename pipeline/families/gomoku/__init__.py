"""Gomoku: five in a row, and the variant with captures."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "gomoku": "pipeline.families.gomoku.game:Gomoku.from_spec",
    },
    extensions.PAGES: {"gomoku": "pipeline.families.gomoku.page:GomokuPage"},
    extensions.PROTOCOLS: {"gomocup": "pipeline.families.gomoku.protocol:GomocupProtocol"},
    extensions.PRESETS: {"gomoku": "pipeline.families.gomoku"},
}
