"""Text games of TextArena, played by language models that learn by REINFORCE."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "text": "pipeline.families.text.game:TextGame.from_spec",
    },
    extensions.METHODS: {
        "reinforce": "pipeline.families.text.reinforce.method:Reinforce",
        "a2c": "pipeline.families.text.reinforce.method:ActorCritic",
    },
    extensions.PRESETS: {"text": "pipeline.families.text"},
}
