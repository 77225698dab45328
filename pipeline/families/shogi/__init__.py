"""Shogi on boards of 9×9 and 5×5."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "shogi": "pipeline.families.shogi.game:Shogi.from_spec",
    },
    extensions.PLAYERS: {"usi": "pipeline.families.shogi.player_kind:UsiKind"},
    extensions.PROTOCOLS: {"usi": "pipeline.families.shogi.protocol:UsiProtocol"},
    extensions.PRESETS: {"shogi": "pipeline.families.shogi"},
}
