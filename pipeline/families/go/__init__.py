"""Go, 5×5 to 19×19, and one network for all boards."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "go": "pipeline.families.go.game:Go.from_spec",
    },
    extensions.PAGES: {"go": "pipeline.families.go.page:GoPage"},
    extensions.PLAYERS: {"gtp": "pipeline.families.go.player_kind:GtpKind"},
    extensions.PROTOCOLS: {
        "analysis": "pipeline.families.go.protocols:AnalysisProtocol",
        "gtp": "pipeline.families.go.protocols:GtpProtocol",
    },
    extensions.PRESETS: {"go": "pipeline.families.go"},
}
