"""The config of ``gather``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.methods.alphazero.options import SearchTargetOptions
from pipeline.methods.options import DiscountOptions, LambdaOptions, TimeShare
from pipeline.options import Options, composed
from pipeline.run import layout


class WindowOptions(Options):
    """How the window grows, and which positions leave it: see window.py."""

    panel = "Window"

    max_games: int = Field(
        0,
        ge=0,
        description="The window also holds at most this many games, the newest; for methods that learn from whole "
        "generations of games. 0 = no limit.",
    )
    window_start: int = Field(
        0,
        ge=0,
        description="Initial window size; the window grows with a power of all positions played. 0 = fixed size.",
    )
    window_exponent: float = Field(0.65, gt=0, le=1, description="That power (as KataGo).")
    window_slope: float = Field(0.4, gt=0, description="How fast the window grows at first (as KataGo).")
    replacement: str = Field(
        "fifo",
        pattern="^(fifo|ring|random)$",
        description="Which positions leave a full window: the oldest (fifo, ring), or any (random).",
    )


@composed("gather")
class GatherConfig(WindowOptions, DiscountOptions, LambdaOptions, SearchTargetOptions):
    """Sample training positions from the newest games and shuffle them into chunks.

    The newest --max-positions positions form the window. All its positions are equally likely to be sampled, unless
    --surprise-weight favours some. Damaged shards are skipped, named and counted. The same command run again keeps the
    finished chunks and makes only the missing ones; all of them where a method normalises its targets over a set.

    \b
    Reads:   data/selfplay/*/*/*.gz with their .meta files
    Writes:  a set of chunks in data/training_data/*.h5, and a file of games held out from training
    Exit:    0 made, 1 failed, fewer positions than the chunks need or none to learn from, 2 wrong usage,
             75 no games yet, fewer positions than --min-positions, or with --as-many-as-possible than one chunk
    Example: python main.py gather --max-positions 100000 --as-many-as-possible
    """

    directory: Path = Field(layout.GAMES, description="Holds $MODEL/$WORKER/*.gz; the folders sort by age.")
    max_positions: int = Field(2_500_000, ge=1, description="Size of the window: the newest positions.")
    min_positions: int = Field(0, ge=0, description="Exit with 75 (not yet) while the window holds fewer positions.")
    chunks_to_make: int = Field(190, ge=1, description="Chunks to make.")
    positions_per_chunk: int = Field(2_048, ge=1, description="Positions in each chunk.")
    as_many_as_possible: bool = Field(
        False, description="Make fewer chunks instead of failing if the window has too few positions."
    )
    holdout_fraction: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="Share of games held out to measure the loss. Raised during a run, it holds out games trained on.",
    )
    output_directory: Path = Field(layout.CHUNKS, description="Where chunks are written.")
    keep_sets: int = Field(2, ge=1, description="Sets of chunks to keep, including the new one.")
    seed: int = Field(0, ge=0, description="Seed of the sampling.")
    time_share: TimeShare = None
