"""Shogi on boards of 9×9 and 5×5."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "shogi": "pipeline.families.shogi.game:Shogi.from_spec",
    },
    extensions.PAGES: {"shogi": "pipeline.families.shogi.page.kind:ShogiPage"},
    extensions.PRESETS: {"shogi": "pipeline.families.shogi"},
}
