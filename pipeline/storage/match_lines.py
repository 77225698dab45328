"""What stands in the lines of a match's games.jsonl: who plays, each game, each game that failed, openings added.

Sides: 0 the challenger, 1 the champion; players: 0 moves first, 1 second. Results are seen by the first player, values
by the mover; the names say so. Reads and writes no files: see matches.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pipeline.errors import UsageError
from pipeline.storage import layout

FORMAT, VERSION = "mugo-match", 2

End = Literal["played_out", "full_length", "resigned"]
Moves = list[Annotated[int, Field(ge=0, le=2**16 - 1)]]


class PlayerInfo(BaseModel):
    """Who plays one side."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="Unique in the match, and fit for a folder.")
    kind: Literal["model", "random", "heuristic", "gtp"]
    spec: str = Field(description="What the player was asked for by.")
    readouts: int | None = Field(None, description="Simulations per move; models only.")
    weights: str = Field("", description="SHA-256 of a model's weights.")
    parents: list[str] = Field([], description="What the models it was trained from are rated as.")

    @field_validator("name")
    @classmethod
    def _is_fit(cls, name: str) -> str:
        try:
            return layout.check_player_name(name)
        except UsageError as error:
            raise ValueError(str(error)) from error

    @property
    def rated_as(self) -> str:
        """The name in ratings: a model is as strong as its readouts make it, so its name says them."""
        if self.kind != "model" or re.search(r"@\d+$", self.name):
            return self.name
        return f"{self.name}@{self.readouts}"


class MatchHeader(BaseModel):
    """The first line of games.jsonl: what is played. Two runs with the same settings play the same match."""

    model_config = ConfigDict(frozen=True)

    format: Literal["mugo-match"] = "mugo-match"
    version: Literal[2] = 2
    players: tuple[PlayerInfo, PlayerInfo] = Field(description="Challenger, champion.")
    game: str = Field(description="Canonical game spec.")
    games: int = Field(description="Games to play, without those of openings added later; even.", ge=0, multiple_of=2)
    threshold: float | None = Field(description="Share of games to win; None: derived from the number of games.")
    settings: dict[str, Any] = Field(description="Whatever else the games depend on: search, opening plies, seed …")
    openings: list[Moves] = Field(description="Moves of opening k, which games 2k and 2k+1 begin with.")
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @model_validator(mode="after")
    def _fits_together(self) -> MatchHeader:
        if self.challenger == self.champion:
            raise ValueError(f"both players are called {self.champion}")
        if len(self.openings) * 2 != self.games:
            raise ValueError(f"{len(self.openings)} openings for {self.games} games")
        return self

    @property
    def challenger(self) -> str:
        return self.players[0].name

    @property
    def champion(self) -> str:
        return self.players[1].name


class MatchGame(BaseModel):
    """One finished game: a line of games.jsonl. Its opening is the first opening_plies of moves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=0)
    challenger_player: Literal[0, 1] = Field(description="0: the challenger moved first.")
    opening_plies: int = Field(ge=0)
    moves: Moves
    values_to_move: list[float | None] = Field(
        description="Root value at each move, by its mover; None: opening, or the mover had no opinion."
    )
    result_first_player: Literal[-1, 0, 1]
    end: End = Field(
        description="full_length: it lasted as many plies as the game allows (Go: the move limit); "
        "resigned: the player to move after the last move gave up."
    )

    @property
    def length(self) -> int:
        """Plies, the opening included."""
        return len(self.moves)

    @property
    def challenger_result(self) -> int:
        """+1 won, 0 drawn, −1 lost."""
        return self.result_first_player if self.challenger_player == 0 else -self.result_first_player


class MatchFailure(BaseModel):
    """An attempt at a game that nobody won: a line of games.jsonl. The game may fail again, or be played after all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failed: int = Field(description="Index of the game.", ge=0)
    attempt: int = Field(description="1: the first time that it was tried.", ge=1)
    kind: str = Field(description="broken, protocol, refusal, illegal or crash: see players/base.py.")
    player: str = Field(description="Whose fault it was; empty if nobody's.")
    problem: str
    moves: Moves = Field(description="As far as they are known.")


class MoreOpenings(BaseModel):
    """Openings that the match grew by: a line of games.jsonl."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    more: list[Moves]


def repeated_games(games: Iterable[MatchGame]) -> set[int]:
    """Numbers of the games whose moves and colours are those of a game with a lower number."""
    first: dict[tuple[int, ...], int] = {}
    return {
        game.index
        for game in sorted(games, key=lambda game: game.index)
        if first.setdefault((game.challenger_player, *game.moves), game.index) != game.index
    }


def disagreement(openings: Sequence[Sequence[int]], game: MatchGame) -> str | None:
    """What a game has that a match with these openings can't have; None if nothing."""
    if game.index >= 2 * len(openings):
        return f"game {game.index} of {2 * len(openings)}"
    if game.challenger_player != game.index % 2:
        found, wanted = ("first", "second") if game.index % 2 else ("second", "first")
        return f"game {game.index}: the challenger moves {found}, it must move {wanted}"
    opening = openings[game.index // 2]
    if game.moves[: game.opening_plies] != opening or game.opening_plies != len(opening):
        return f"game {game.index}: it doesn't begin with its opening"
    if len(game.values_to_move) != len(game.moves):
        return f"game {game.index}: {len(game.values_to_move)} values for {len(game.moves)} moves"
    return None
