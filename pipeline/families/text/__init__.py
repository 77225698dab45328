"""Text games of TextArena for language models, which learn by REINFORCE or A2C."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "text": "pipeline.families.text.game:TextGame.from_spec [text]",
    },
    extensions.METHODS: {
        "reinforce": "pipeline.families.text.reinforce.method:Reinforce",
        "a2c": "pipeline.families.text.reinforce.method:ActorCritic",
    },
    extensions.OPTIONS: {
        "players.text": "pipeline.families.text.options:TextPlayerOptions",
        "init.text": "pipeline.families.text.options:TextInitOptions",
        "selfplay.text": "pipeline.families.text.options:TextSelfplayOptions",
        "gather.text": "pipeline.families.text.options:TextGatherOptions",
        "train.text": "pipeline.families.text.options:TextTrainOptions",
    },
    extensions.BACKENDS: {
        "server": "pipeline.families.text.reinforce.method:Reinforce",
        "vllm": "pipeline.families.text.reinforce.method:Reinforce",
    },
    extensions.PLAYERS: {"openai": "pipeline.families.text.player_kind:OpenAiKind"},
    extensions.PRESETS: {"text": "pipeline.families.text"},
}
