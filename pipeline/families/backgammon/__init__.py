"""Backgammon and hypergammon, and learning by temporal differences (td/)."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "backgammon": "pipeline.families.backgammon.game:Backgammon.from_spec",
        "hypergammon": "pipeline.families.backgammon.game:Backgammon.hypergammon",
    },
    extensions.METHODS: {
        "td": "pipeline.families.backgammon.td.method:TemporalDifference",
    },
    extensions.PLAYERS: {"gnubg": "pipeline.families.backgammon.player_kind:GnubgKind"},
    extensions.PRESETS: {"backgammon": "pipeline.families.backgammon"},
}
