"""The architecture of a network, without torch: its sizes, the names and shapes of its weights, first weights, growing.

A network is a residual tower over the board (``modules.py``), named after its blocks and channels: ``b4c64``. Weights
are a flat dict of float32 arrays under the names that ``weight_shapes`` lists.

A network for *boards of every size* reads board size and komi from planes that are the same at all points
(``global_planes``), and sees the mean of each channel both as it is and times ``side_scale``. Source: Wu 2019, arXiv
1902.10565, appendix A; KataGo's "gpool" layers. Its Architecture is that of one board; ``at`` returns another board's.
Its norms have the statistics of each board that it was trained on (``of_side``): batches are of one board, and the
statistics of all together would make it another network on each than the one that was trained.

The value is learned as a *scalar* in [-1, 1], or as *wdl*: the probabilities of win, draw and loss, whose value is
P(win) − P(loss). Two more heads of the policy's shape serve training only: the opponent's reply and the soft policy.

C planes, H×W board, P = H·W points, A actions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from pipeline.errors import MuGoError, UsageError
from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import FloatArray, Game

Weights = dict[str, FloatArray]

NORM_EPSILON = 1e-5  # of every batch norm
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")
OF_SIDE = re.compile(r"side(\d+)\.(.+\.norm\.running_(?:mean|var))")  # see of_side
MAX_BLOCKS, MIN_CHANNELS, MAX_CHANNELS = 64, 4, 1024
# Width of the value head's hidden layer. Of 32 units, half die within minutes of training (docs/log, 2026-11-25).
VALUE_HIDDEN = 64
# A pass starts e³ times less likely than a point. With a uniform policy, the first generations learn to pass whenever
# komi puts a player ahead (docs/log, 2026-11-21).
EXTRA_ACTION_LOGIT = -3.0
VALUE_OUTPUTS: Final = {"scalar": 1, "wdl": 3}  # outputs by value head; wdl: win, draw, loss
# Heads of the policy's shape over shared features, which makes them cheap (KataGo). Inference uses the first alone.
POLICY_HEADS: Final = ("policy", "reply", "soft_policy")
POOLED = ("pooling.weight", "_extra.weight", "value_hidden.weight")  # weights that read pooled channels, group by group
KNOWN_SIZES = ("b2c32", "b4c64", "b6c96")


@dataclass(frozen=True)
class Architecture:
    """Sizes of a network. Equal architectures have interchangeable weights."""

    blocks: int
    channels: int
    planes: int  # C, input planes of 0 and 1
    height: int
    width: int
    actions: int  # A, policy logits
    value_head: str = "scalar"  # one of VALUE_OUTPUTS
    global_planes: int = 0  # the last of the planes, each constant over the board; 0: a network for one board size
    kinds_per_point: int = 1  # action k·P + p is a move of kind k to point p
    value_hidden: int = VALUE_HIDDEN  # units of the value head's hidden layer

    @staticmethod
    def for_game(size: str, game: Game, value_head: str = "scalar") -> Architecture:
        """The architecture of this size, e.g. ``b4c64``, for a game. Raises UsageError for an invalid size."""
        blocks, channels = parse_size(size)
        height, width = game.board_shape
        global_planes = game.num_global_planes if isinstance(game, AllBoards) else 0
        return Architecture(
            blocks, channels, game.num_planes, height, width, game.num_actions, value_head, global_planes,
            game.kinds_per_point,
        )  # fmt: skip

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Architecture:
        """The inverse of to_dict. Raises MuGoError naming the first field that is missing, unknown or invalid."""

        def check(name: str, least: int, most: float, wanted: str) -> None:
            number = values.get(name)
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
                raise MuGoError(f"architecture: {name} is {number!r}; wanted {wanted}")

        fields = list(Architecture.__dataclass_fields__)
        if values.get("value_head") not in list(VALUE_OUTPUTS):  # a list, since the value may not be hashable
            found = values.get("value_head")
            raise MuGoError(f"architecture: value_head is {found!r}; wanted one of {', '.join(VALUE_OUTPUTS)}")
        for name in fields[: fields.index("value_head")]:
            check(name, 1, math.inf, "a whole number of at least 1")
        check("blocks", 1, MAX_BLOCKS, f"at most {MAX_BLOCKS}")  # weight_shapes would run through all of them
        most = max(1, values["actions"] // (values["height"] * values["width"]))
        check("kinds_per_point", 1, most, f"1 to {most}, as it has {values['actions']} actions")
        check("value_hidden", 1, MAX_CHANNELS, f"1 to {MAX_CHANNELS}")
        check("global_planes", 0, values["planes"] - 1, f"fewer than its {values['planes']} planes")
        unknown = sorted(set(values) - set(fields))
        if unknown:
            raise MuGoError(f"architecture: unknown field {unknown[0]!r}; known: {', '.join(fields)}")
        return Architecture(**values)

    def to_dict(self) -> dict[str, int | str]:
        return asdict(self)

    def at(self, height: int, width: int) -> Architecture:
        """The same network on another board. Raises MuGoError if it is a network for one board size."""
        if (height, width) == (self.height, self.width):
            return self
        if not self.any_board:
            raise MuGoError(f"a network for boards of {self.height}×{self.width}; found one of {height}×{width}")
        actions = height * width * self.kinds_per_point + self.extra_actions
        return replace(self, height=height, width=width, actions=actions)

    @property
    def any_board(self) -> bool:
        """Whether the weights serve all board sizes."""
        return self.global_planes > 0

    @property
    def local_planes(self) -> int:
        """How many planes differ from point to point."""
        return self.planes - self.global_planes

    @property
    def pooled_groups(self) -> int:
        """Pooled values per channel: mean and maximum; for all board sizes also the scaled mean."""
        return 3 if self.any_board else 2

    @property
    def size(self) -> str:
        return f"b{self.blocks}c{self.channels}"

    @property
    def points(self) -> int:
        return self.height * self.width

    @property
    def point_policy(self) -> bool:
        """Whether actions stand on points. Otherwise (stones dropped into columns) the policy head is dense."""
        return self.actions >= self.points

    @property
    def extra_actions(self) -> int:
        """Actions of a point policy that are no point, such as a pass; they follow the points."""
        return self.actions - self.points * self.kinds_per_point if self.point_policy else 0

    @property
    def head_channels(self) -> int:
        """Channels of the policy head and of the value head, each."""
        return max(16, self.channels // 4, self.kinds_per_point)

    def has_pooling(self, block: int) -> bool:
        """Whether a block sees the whole board through pooled means and maxima: every second one does."""
        return block % 2 == 1


def side_of(points: int) -> float:
    """The side of a square board of this many points; one unit of the score head is this many points of score."""
    return float(points) ** 0.5


def side_scale(points: int) -> float:
    """The factor of scaled means over a board of this many points: −0.7 for 7×7, 0.5 for 19×19, as in KataGo."""
    return (side_of(points) - 14) / 10


def parse_size(size: str) -> tuple[int, int]:
    """(blocks, channels) of a name such as ``b4c64``. Raises UsageError."""
    match = re.fullmatch(r"b(\d{1,4})c(\d{1,6})", size)
    if match is None:
        raise UsageError(f"network size {size!r}: wanted bBLOCKScCHANNELS, e.g. {', '.join(KNOWN_SIZES)}")
    blocks, channels = int(match[1]), int(match[2])
    if not 1 <= blocks <= MAX_BLOCKS or not MIN_CHANNELS <= channels <= MAX_CHANNELS:
        raise UsageError(
            f"network size {size!r}: wanted 1 to {MAX_BLOCKS} blocks of {MIN_CHANNELS} to {MAX_CHANNELS} channels, "
            f"e.g. {', '.join(KNOWN_SIZES)}"
        )
    return blocks, channels


def weight_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight, in the order of the forward pass. Convolution kernels are [out, in, kh, kw]."""
    channels, head = architecture.channels, architecture.head_channels
    shapes: dict[str, tuple[int, ...]] = {}

    def convolution(name: str, inputs: int, outputs: int, kernel: int) -> None:
        shapes[f"{name}.conv.weight"] = (outputs, inputs, kernel, kernel)
        for part in NORM_PARTS:
            shapes[f"{name}.norm.{part}"] = (outputs,)

    def linear(name: str, inputs: int, outputs: int) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        shapes[f"{name}.bias"] = (outputs,)

    groups = architecture.pooled_groups
    convolution("stem", architecture.local_planes, channels, 3)
    if architecture.global_planes:
        linear("stem_globals", architecture.global_planes, channels)
    for block in range(architecture.blocks):
        convolution(f"blocks.{block}.first", channels, channels, 3)
        if architecture.has_pooling(block):
            linear(f"blocks.{block}.pooling", groups * channels, channels)
        convolution(f"blocks.{block}.second", channels, channels, 3)
    convolution("policy_features", channels, head, 1)
    for policy in POLICY_HEADS:
        if not architecture.point_policy:
            linear(f"{policy}_dense", head * architecture.points, architecture.actions)
            continue
        linear(f"{policy}_points", head, architecture.kinds_per_point)
        if architecture.extra_actions:
            linear(f"{policy}_extra", groups * head, architecture.extra_actions)
    convolution("value_features", channels, head, 1)
    linear("value_hidden", groups * head, architecture.value_hidden)
    linear("value_output", architecture.value_hidden, VALUE_OUTPUTS[architecture.value_head])
    linear("ownership", head, 1)
    linear("score", architecture.value_hidden, 1)
    return shapes


def of_side(side: int, name: str) -> str:
    """The name of one of the norms' statistics on boards of this side, which weights for all boards may have."""
    return f"side{side}.{name}"


def sides_of(weights: Weights) -> set[int]:
    """The sides of the boards whose statistics weights have."""
    return {int(found[1]) for name in weights if (found := OF_SIDE.fullmatch(name))}


def nearest_side(sides: Iterable[int], side: int) -> int | None:
    """Which board's statistics hold on a board: its own, else those of the most similar one. None: there are none."""
    return min(sides, key=lambda one: (abs(one - side), -one), default=None)


def check_weights(architecture: Architecture, weights: Weights) -> None:
    """Raise MuGoError naming the first weight that is missing, unknown, misshapen or not finite."""
    shapes = weight_shapes(architecture)
    if architecture.any_board:
        known = {name: match[2] for name in weights if (match := OF_SIDE.fullmatch(name))}
        shapes |= {name: shapes[plain] for name, plain in known.items() if plain in shapes}
    where = f"weights of a {architecture.size} network"
    for name, shape in shapes.items():
        if name not in weights:
            raise MuGoError(f"{where}: {name} is missing; wanted shape {list(shape)}; was another version saved?")
        found = weights[name]
        if found.shape != shape:
            raise MuGoError(f"{where}: {name} has shape {list(found.shape)}; wanted {list(shape)}")
        if not np.isfinite(found).all():
            raise MuGoError(f"{where}: {name} holds a value that is not finite; go back to an earlier model")
    unknown = sorted(set(weights) - set(shapes))
    if unknown:
        raise MuGoError(f"{where}: {unknown[0]} is not one of its weights; was another version saved?")


def random_weights(architecture: Architecture, seed: int) -> Weights:
    """Initial weights: He-normal, with neutral norms and small outputs.

    A fresh network has a nearly uniform policy over points and a value near 0; actions that are no point (a pass) start
    at EXTRA_ACTION_LOGIT. Equal arguments give equal bytes on every machine.
    """
    generator = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in weight_shapes(architecture).items():
        if name.endswith((".norm.weight", ".running_var")):
            # Blocks start close to the identity, so that activations don't grow with the number of blocks.
            weights[name] = np.full(shape, 0.1 if name.endswith(".second.norm.weight") else 1.0, np.float32)
        elif len(shape) == 1:
            start = EXTRA_ACTION_LOGIT if name.endswith("_extra.bias") else 0.0
            weights[name] = np.full(shape, start, np.float32)
        else:
            fan_in = int(np.prod(shape[1:]))
            # Outputs and pooled biases start small, so that they don't dominate the tower's activations.
            gain = 2.0**0.5 if ".conv." in name or name.startswith("value_hidden") else 0.1
            weights[name] = (generator.standard_normal(shape) * (gain / fan_in**0.5)).astype(np.float32)
    return weights


def grown_architecture(architecture: Architecture, size: str | None, planes: int) -> Architecture:
    """The architecture with the blocks and channels of `size` (None: unchanged) and this many planes.

    Raises UsageError if that would shrink it, or like check_planes.
    """
    blocks, channels = parse_size(size or architecture.size)
    if blocks < architecture.blocks or channels < architecture.channels:
        found = f"network size {size}: a network of {architecture.size} can't shrink"
        raise UsageError(f"{found}; wanted at least as many blocks and channels")
    check_planes(architecture, planes)
    return replace(architecture, blocks=blocks, channels=channels, planes=planes)


def check_planes(architecture: Architecture, planes: int) -> None:
    """Raises UsageError if the network sees more planes than its game has."""
    if planes < architecture.planes:
        found = f"the network sees {architecture.planes} planes, its game has {planes}"
        raise UsageError(f"{found}; a newer MuGo made it: use that, or begin anew with init")


def grow(weights: Weights, old: Architecture, new: Architecture, seed: int) -> Weights:
    """Weights with which the new architecture computes the same as the old one with these.

        new channels  have random weights; the old layers read them with weight 0
        new blocks    follow the old ones and start as the identity: their last norm multiplies by 0
        new planes    which the game has gained since the network was made, are read with weight 0
        all boards    if a network for one board becomes one for all, it reads their additional inputs with weight 0

    All learn from the first step, since a weight of 0 has a gradient. new: from grown_architecture(old, …).
    Source: Chen, Goodfellow & Shlens 2016, "Net2Net".
    """
    grown = random_weights(new, seed)
    if new.any_board and not old.any_board:
        grown["stem_globals.weight"][:] = 0.0
    for name, array in weights.items():
        if match := OF_SIDE.fullmatch(name):
            grown[name] = grown[match[2]].copy()
        target = grown[name]
        if array.ndim == 1:
            target[: len(array)] = array
            continue
        before, after = (one.pooled_groups if name.endswith(POOLED) else 1 for one in (old, new))
        kept = array.reshape(len(array), before, -1, *array.shape[2:])  # [out, groups, in, …]
        into = target.reshape(len(target), after, -1, *array.shape[2:])[: len(array)]
        into[:] = 0.0
        into[:, :before, : kept.shape[2]] = kept
    for block in range(old.blocks, new.blocks):
        grown[f"blocks.{block}.second.norm.weight"][:] = 0.0
    return grown
