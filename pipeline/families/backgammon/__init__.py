"""Backgammon, hypergammon, and the learning method TD(λ) (td/)."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "backgammon": "pipeline.families.backgammon.game:Backgammon.from_spec",
        "hypergammon": "pipeline.families.backgammon.game:Backgammon.hypergammon",
    },
    extensions.METHODS: {
        "td": "pipeline.families.backgammon.td.method:TemporalDifference",
    },
    extensions.OPTIONS: {
        "players.td": "pipeline.families.backgammon.options:TdPlayerOptions",
        "selfplay.td": "pipeline.families.backgammon.options:TdSelfplayOptions",
        "gather.td": "pipeline.families.backgammon.options:TdGatherOptions",
    },
    extensions.PAGES: {"gammon": "pipeline.families.backgammon.page.kind:GammonPage"},
    extensions.RECORDS: {"mat": "pipeline.families.backgammon.records:Mat"},
    extensions.PLAYERS: {"gnubg": "pipeline.families.backgammon.player_kind:GnubgKind"},
    extensions.PRESETS: {"backgammon": "pipeline.families.backgammon"},
}
