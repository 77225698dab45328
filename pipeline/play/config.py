"""The configs of ``engine``, ``play`` and ``serve``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.networks.options import Backend
from pipeline.options import Options
from pipeline.run import layout
from pipeline.search.options import PlaySearchOptions


class EngineConfig(PlaySearchOptions):
    """Play for another program: answer a protocol with a model's moves.

    \b
    {protocols}

    A manager starts this command and talks to it over standard input and output. The engine keeps the manager's time
    limits. It answers an invalid line with an error, and nothing changes. A model plays the board size and komi that it
    was trained for. Run the command once by hand before a tournament: the first time on a machine, it compiles kernels
    and measures inference, which may take longer than a manager waits.

    \b
    Reads:   a model, commands on standard input
    Writes:  answers on standard output
    Exit:    0 ended by the manager, 1 failed, 2 wrong usage
    Example: python main.py engine --model saved_models/best_model --readouts 400
    """

    model: Path = Field(layout.CHAMPION_LINK, description="Directory of the model that plays.")
    protocol: str | None = Field(
        None, description="The manager's protocol, as listed above. [default: the usual one for the model's game]"
    )
    game: str | None = Field(
        None,
        description="For a model of all boards: the game spec to begin with, e.g. go:9. [default: the model's own]",
    )
    readouts: int = Field(
        800, ge=0, description="Most simulations per move; the manager's time limits may allow fewer."
    )
    resign_threshold: float = Field(
        -1.0,
        ge=-1,
        lt=0,
        description="Resign after two moves in a row with values this low, if the protocol allows it; -1 = never.",
    )
    ponder: bool = Field(False, description="Search while the opponent thinks, unless the protocol says when to.")
    backend: Backend = "auto"


class PlayConfig(Options):
    """Play a game in the terminal against a model, a built-in player or an engine.

    Type moves in the game's notation (D4, pass); the board is drawn after each. hint shows the moves that a model
    considers, undo takes back a move and its reply, sgf FILE saves the game, and help lists what else you can type. The
    first time on a machine, kernels are compiled and inference is measured, which takes a while.

    \b
    Reads:   a model; moves and commands on standard input
    Writes:  boards on standard output; records, by sgf FILE
    Exit:    0 ended by quit or the end of the input, 1 failed, 2 wrong usage, 130 Ctrl-C
    Example: python main.py play --model heuristic --game go:9 --colour w
    """

    model: str = Field(
        str(layout.CHAMPION_LINK),
        description="Your opponent: a model's directory, heuristic, random or KIND:ARGUMENT (see evaluate --help).",
    )
    game: str | None = Field(
        None,
        description="Game spec; a model of all boards plays each of them. [default: the model's own; go:9, or the "
        "engine's usual game]",
    )
    colour: str = Field("b", pattern="^(b|w)$", description="Your side: b moves first, w second.")
    readouts: int = Field(
        400, ge=0, description="A model's simulations per move; plies if its method searches no tree."
    )
    seed: int | None = Field(
        None, ge=0, description="Fixes the dice and the random choices of players. [default: different every time]"
    )
    backend: Backend = "auto"


MOST_SERVED_READOUTS = 10_000  # per search on the board page


class ServeConfig(Options):
    """Play against a model in the browser, and see what it thinks.

    On the page you can play every game that has a board there, against models, heuristic and random, with hints, win
    rates, undo and records; docs/play.md describes it. A model is loaded when you choose it. The page is served to this
    machine only, or with --host to browsers on the same network that open an address with a token, each of which works
    once. It loads nothing from elsewhere. Ctrl-C ends the command and its games. Needs the extra `serve`, which
    ./play.sh installs.

    \b
    Reads:   models
    Writes:  nothing
    Exit:    1 a model can't be loaded, the port is taken or the extra is missing, 2 wrong usage, 130 ended by Ctrl-C
    Example: python main.py serve --model saved_models/best_model --readouts 400
    """

    model: list[Path] = Field(
        [],
        description="Directory of a model to play against; may be given several times. [default: "
        "saved_models/best_model, if any, and the models that come with MuGo]",
    )
    readouts: int = Field(
        400,
        ge=0,
        le=MOST_SERVED_READOUTS,
        description="A model's simulations per move, unless another number is chosen on the page.",
    )
    port: int = Field(8000, ge=0, le=65535, description="Port of this machine to listen on; 0 = any free port.")
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address of this machine to listen on. 0.0.0.0 lets in a phone on the same network, by the address "
        "with a token that is printed.",
    )
    browser: bool = Field(True, description="Open the page in a browser.")
    backend: Backend = "auto"
