"""``engine``: a model behind a protocol, for managers that run matches between programs.

Reads commands on standard input and writes answers to standard output until END or the end of input; everything else
goes to standard error. Writes no files.
"""

from __future__ import annotations

import io
import sys
from typing import TextIO

from pipeline.config import EngineConfig
from pipeline.errors import UsageError
from pipeline.games.registry import parse_game
from pipeline.players.loading import load_evaluators
from pipeline.players.searching import leaves_per_tree
from pipeline.progress import SILENT, Progress
from pipeline.protocols.gomocup import Gomocup
from pipeline.protocols.session import SearchSession
from pipeline.storage.models import read_model, resolve_champion

LONGEST_LINE = 4096  # characters; longer lines are read in pieces, to bound memory


def engine(
    config: EngineConfig, progress: Progress = SILENT, commands: TextIO | None = None, answers: TextIO | None = None
) -> None:
    """Serve until the manager ends it. commands, answers: instead of standard input and output.

    Raises FileError for a model that can't be loaded, UsageError for one whose game the protocol can't play.
    """
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a byte that isn't UTF-8 must not end the game
    commands, answers = commands or sys.stdin, answers or sys.stdout
    model = read_model(resolve_champion(config.model))
    game = parse_game(model.info.game)
    if game.gomocup is None:
        raise UsageError(f"engine --protocol {config.protocol}: {model.path} plays {game.spec}; wanted a Gomoku model")
    progress.say(f"loading {config.model}; kernels and network are compiled when this machine sees them first")
    leaves = leaves_per_tree(1, config.readouts)  # a single game can't fill a batch with one leaf per tree
    (evaluate,) = load_evaluators(model, leaves, 1, config.backend, progress)
    session = SearchSession(game, evaluate, config.search_config(), config.readouts, leaves)
    session.warm_up()
    gomocup = Gomocup(session)
    for line in iter(lambda: commands.readline(LONGEST_LINE), ""):
        for answer in gomocup.answer(line):
            answers.write(answer + "\n")
            answers.flush()
        if gomocup.ended:
            return
