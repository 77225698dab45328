"""The player spec ``openai:MODEL [OPTION=VALUE …]``: a language model behind an API. See chat_api.py, docs/text.md."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, Json, ValidationError

from pipeline.errors import UsageError
from pipeline.families.text.language.prompts import FORMS
from pipeline.players.kinds import PlayerKind

if TYPE_CHECKING:
    from pipeline.families.text.chat_api import Access
    from pipeline.games.contract import AnyGame
    from pipeline.players.player import MakePlayer

LONGEST_NAME = 80  # characters of the model in a player's name
UNNAMED = {"requests", "seconds"}  # options that don't make another player


class ApiOptions(BaseModel, frozen=True):
    """The argument of a spec.

    temperature  None: the server's own          tokens    maximum of an answer
    reading      see language/prompts.py         system    the system message, empty: none; None: the usual one
    requests     at once, in a process           seconds   of an attempt at a request; None: the command's limit
    server       the address and the key are in SERVER_BASE_URL and SERVER_API_KEY
    body         further fields of each request, as JSON
    """

    model: str = Field(pattern=r"^[!-~]+$")
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    tokens: int = Field(1024, ge=1)
    reading: str = Field("brackets", pattern=f"^({'|'.join(FORMS)})$")
    system: str | None = None
    requests: int = Field(8, ge=1, le=256)
    seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    server: str = Field("OPENAI", pattern="^[A-Za-z_][A-Za-z0-9_]*$")
    body: Json[dict[str, Any]] = Field({})

    @property
    def player_name(self) -> str:
        """openai-MODEL, with a hash of what that doesn't say."""
        model = re.sub(r"[^A-Za-z0-9._-]+", "-", self.model)[:LONGEST_NAME].strip("-._")
        own = self.model_dump_json(exclude=UNNAMED, exclude_defaults=True)
        plain = ApiOptions(model=model).model_dump_json(exclude_defaults=True) if model else ""
        return "-".join(["openai", *filter(None, [model]), *([] if own == plain else [_digest(own)])])

    def access(self, where: str) -> Access:
        """Where the server is, from the environment. Raises UsageError. where: begins messages."""
        from pipeline.families.text.chat_api import Access

        names = f"{self.server}_BASE_URL", f"{self.server}_API_KEY"
        return Access.of(where, names, *(os.environ.get(name, "").strip() for name in names))


OPTIONS = [name for name in ApiOptions.model_fields if name != "model"]
_OPTION = re.compile(rf"\s+({'|'.join(OPTIONS)})=")


def parse_options(spec: str, argument: str) -> ApiOptions:
    """Raises UsageError. spec: for messages."""
    model, *rest = _OPTION.split(argument)
    names, values = rest[::2], [value.strip() for value in rest[1::2]]
    if len(set(names)) < len(names):
        raise UsageError(f"player {spec!r}: an option stands there twice; wanted each once")
    try:
        return ApiOptions.model_validate({"model": model, **dict(zip(names, values, strict=True))})
    except ValidationError as error:
        first = error.errors()[0]
        wanted = f"wanted openai:MODEL, then any of {'=, '.join(OPTIONS)}=, each after a blank"
        raise UsageError(f"player {spec!r}: {first['loc'][0]} {first['input']!r}: {first['msg']}; {wanted}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class OpenAiKind(PlayerKind):
    help = "a language model behind an API like OpenAI's, in text games; OPENAI_BASE_URL and OPENAI_API_KEY say where"
    argument = "MODEL"
    runs_program = True
    in_selfplay = True
    takes_handicap = False
    default_game = "text:TicTacToe-v0"

    def default_name(self, spec: str, argument: str) -> str:
        return parse_options(spec, argument).player_name

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:
        from pipeline.families.text.game import TextGame

        if not isinstance(game, TextGame):
            wanted = f"wanted e.g. {self.default_game}"
            raise UsageError(f"player {spec!r}: it plays text games only, not {game.spec}; {wanted}")
        parse_options(spec, argument).access(f"player {spec!r}")

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.families.text.chat_api import ChatApi
        from pipeline.families.text.openai_player import OpenAiPlayer

        options = parse_options(name, argument)
        given = {} if options.temperature is None else {"temperature": options.temperature}
        access, body = options.access(f"player {name!r}"), {**given, **options.body}
        model = ChatApi(access, name, options.model, options.seconds or seconds, options.requests, body)
        return lambda game, rows, thread: OpenAiPlayer(game, rows, options, model)
