"""The configs of ``ratings`` and ``tournament``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.matches.options import MatchOptions
from pipeline.options import Options
from pipeline.run import layout


class RatingsConfig(Options):
    """Rate every player from all recorded matches: Elo with error bars.

    Bradley-Terry fits all games at once; elo and trueskill process the matches in the order they were played. Ratings
    are always computed from the match records, so the ratings file may be deleted. The table has one block for each
    group of players connected by games; ratings from different blocks can't be compared. With --directory the table is
    only printed; add --output to save those ratings in a file.

    \b
    Reads:   data/evaluate/*/, data/evaluate/required/*/, data/evaluate/measured/*/,
             data/evaluate/watch/*/, data/tournament/*/
    Writes:  data/ratings.json
    Exit:    0 rated, 1 failed, 2 wrong usage, 75 no games yet
    Example: python main.py ratings --anchor random=0
    """

    directory: list[Path] = Field(
        list(layout.MATCH_FOLDERS),
        description="Folder of matches; may be given several times.",
    )
    system: str = Field(
        "bradley-terry",
        pattern="^(bradley-terry|elo|trueskill)$",
        description="The rating system: bradley-terry, elo or trueskill.",
    )
    anchor: str | None = Field(
        None,
        description="NAME or NAME=ELO: fixes a player's Bradley-Terry rating. [default: random=0, else the oldest "
        "model]",
    )
    output: Path = Field(layout.RATINGS_FILE, description="File for the ratings by all three systems.")


class TournamentConfig(MatchOptions):
    """Measure the strength of players in matches between them. Promotes no model.

    By default the pair whose games say most about the ratings meets next; --place finds one player's place among the
    others. --games counts all games of these players in the folder (with --place, that player's games against the
    others), so running the same command again plays only the missing games. The table lists these players, with errors
    relative to their mean, as --until uses them.

    \b
    Reads:   players (--player, written as for evaluate), or the pool, whose engines need --allow-engines
    Writes:  data/tournament/ONE-vs-OTHER/, and data/ratings.json
    Exit:    0 played, 1 failed, 2 wrong usage,
             75 fewer than two players in the pool, or another process is playing this tournament
    Example: python main.py tournament --player random --player heuristic --player saved_models/best_model --games 60
    """

    leading = ("player", "pool", "place", "against", "game", "games", "readouts")

    player: list[str] = Field(
        [], description="A player, written as for evaluate; may be given several times. [default: the pool]"
    )
    pool: Path = Field(layout.POOL_FILE, description="The pool of opponents.")
    place: str | None = Field(None, description="Play this player against the others, instead of all against all.")
    against: int = Field(0, ge=0, description="With --place: only this many others, nearest in rating; 0 = all.")
    games: int = Field(
        200, ge=2, multiple_of=2, description="Games between these players in total, including earlier runs."
    )
    until: float = Field(
        0.0, ge=0, description="Stop once every rating is known to +- this many Elo (95 %); 0 = never."
    )
    pairs_per_round: int = Field(8, ge=1, description="Pairs of games between two updates of the ratings.")
    matchmaking: str = Field(
        "uncertainty",
        pattern="^(uncertainty|round-robin)$",
        description="Who plays next: uncertainty, the pair whose games say most about the ratings; or round-robin.",
    )
    background: bool = Field(False, description="Lowest priority and one thread, beside training.")
    output_dir: Path = Field(layout.TOURNAMENT_MATCHES, description="Holds the matches, <one>-vs-<other>/.")
