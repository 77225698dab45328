"""Shogi on boards of 9×9 and 5×5."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "shogi": "pipeline.families.shogi.game:Shogi.from_spec",
    },
    extensions.PAGES: {"shogi": "pipeline.families.shogi.page.kind:ShogiPage"},
    extensions.RECORDS: {
        "kif": "pipeline.families.shogi.kifu:Kif",
        "csa": "pipeline.families.shogi.kifu:Csa",
        "usi": "pipeline.families.shogi.kifu:Usi",
    },
    extensions.PLAYERS: {"usi": "pipeline.families.shogi.player_kind:UsiKind"},
    extensions.PROTOCOLS: {"usi": "pipeline.families.shogi.protocol:UsiProtocol"},
    extensions.PRESETS: {"shogi": "pipeline.families.shogi"},
}
