"""Go, 5×5 to 25×25, and one network for all boards."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "go": "pipeline.families.go.game:Go.from_spec",
    },
    extensions.PAGES: {"go": "pipeline.families.go.page:GoPage"},
    extensions.PRESETS: {"go": "pipeline.families.go"},
}
