"""The network as a torch module: a residual tower with global pooling, and its heads.

    planes ─ conv ─ block 0 ─ block 1 (pooling) ─ block 2 ─ block 3 (pooling) … ─┬─ policy, reply, soft policy
                                                                                 └─ value, ownership, score

A block is conv-norm-ReLU-conv-norm-add-ReLU, so each batch norm folds into a convolution exactly (``folding.py``). In
every second block, the means and maxima of the block's input over the board pass through a linear layer and are added
to every point of the first convolution's output. Source: Wu 2019, arXiv 1902.10565, section 3.3 ("global pooling").

A network for boards of every size also reads the global planes, at one point of the board, and the mean of each channel
times ``side_scale``; the boards of a batch have one size. All outputs are seen by the player to move.
B batch, C planes, H×W board, P = H·W points, A actions, G global planes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.games.contract import FloatArray, Planes
from pipeline.networks.architecture import (
    NORM_EPSILON,
    POLICY_HEADS,
    VALUE_OUTPUTS,
    Architecture,
    Weights,
    check_weights,
    nearest_side,
    of_side,
    side_of,
    side_scale,
    sides_of,
    weight_shapes,
)

MEAN, VARIANCE = "running_mean", "running_var"
STATISTICS_ROWS, LEAST_ROWS = 2048, 32  # positions of a board, for its norms' statistics


class Outputs(NamedTuple):
    """A network's outputs for B positions; float32, seen by the player to move."""

    policy_logits: Tensor  # [B, A]
    value: Tensor  # [B] in [-1, 1]
    ownership_logits: Tensor  # [B, P]; tanh of it is the expected owner, +1 the player to move
    score: Tensor  # [B] in units of architecture.side_of(P) points
    reply_logits: Tensor  # [B, A] the policy of the position after the best move, at the points of the planes
    soft_policy_logits: Tensor  # [B, A]
    value_logits: Tensor  # scalar: [B, 1], value = tanh of it; wdl: [B, 3], win, draw and loss before the softmax


def pooled(x: Tensor) -> Tensor:
    """[B, 2C]: mean and maximum of each channel over the board."""
    # In bfloat16, max_pool2d is 13 times as fast as amax on a CPU, and a seventh as fast on a GPU.
    maxima = x.amax((2, 3)) if x.is_cuda else F.max_pool2d(x, x.shape[2:]).flatten(1)
    return torch.cat([x.mean((2, 3)), maxima], dim=1)


def split_planes(architecture: Architecture, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The local planes of x [B, C, H, W] and, if there are any, the global ones [B, G]."""
    if not architecture.global_planes:
        return x, None
    return x[:, : architecture.local_planes], x[:, architecture.local_planes :, 0, 0]


def read_pooled(features: Tensor, weight: Tensor, bias: Tensor, points: int) -> Tensor:
    """[B, outputs] a linear layer over pooled() features [B, 2C] of a board of this many points.

    weight [outputs, 2C] or, in a network for all boards, [outputs, 3C], whose last C read the scaled mean.
    """
    if weight.shape[1] > features.shape[1]:
        mean, maximum, scaled = weight.chunk(3, dim=1)
        weight = torch.cat([mean + side_scale(points) * scaled, maximum], dim=1)
    return F.linear(features, weight, bias)


class NormedConvolution(nn.Module):
    """A convolution that keeps the board's size, without bias, followed by a batch norm.

    statistics: in a network for all boards, by the side of a board the mean and variance that hold there, and on boards
    more similar to it than to others, in eval mode. Without any they are the norm's own, of all that it was trained on.
    """

    statistics: dict[int, tuple[Tensor, Tensor]]

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=NORM_EPSILON)
        self.statistics = {}

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        side = None if self.training else nearest_side(self.statistics, y.shape[-1])
        if side is None:
            return self.norm(y)
        mean, variance = (one.to(y.device) for one in self.statistics[side])
        return F.batch_norm(y, mean, variance, self.norm.weight, self.norm.bias, eps=NORM_EPSILON)


class Block(nn.Module):
    """A residual block, optionally with global pooling."""

    def __init__(self, channels: int, pooled_groups: int) -> None:
        """pooled_groups: pooled values per channel; 0: no pooling."""
        super().__init__()
        self.first = NormedConvolution(channels, channels, 3)
        self.pooling = nn.Linear(pooled_groups * channels, channels) if pooled_groups else None
        self.second = NormedConvolution(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if self.pooling is not None:
            y = y + read_pooled(pooled(x), self.pooling.weight, self.pooling.bias, x[0, 0].numel())[:, :, None, None]
        return F.relu(x + self.second(F.relu(y)))


class Network(nn.Module):
    """The network for training. Inference uses it folded (``folding.py``)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        channels, head = architecture.channels, architecture.head_channels
        groups = architecture.pooled_groups
        self.stem = NormedConvolution(architecture.local_planes, channels, 3)
        if architecture.global_planes:
            self.stem_globals = nn.Linear(architecture.global_planes, channels)
        self.blocks = nn.ModuleList(
            Block(channels, groups if architecture.has_pooling(block) else 0) for block in range(architecture.blocks)
        )
        self.policy_features = NormedConvolution(channels, head, 1)
        for policy in POLICY_HEADS:
            if not architecture.point_policy:
                self.add_module(f"{policy}_dense", nn.Linear(head * architecture.points, architecture.actions))
                continue
            self.add_module(f"{policy}_points", nn.Linear(head, architecture.kinds_per_point))
            if architecture.extra_actions:
                self.add_module(f"{policy}_extra", nn.Linear(groups * head, architecture.extra_actions))
        self.value_features = NormedConvolution(channels, head, 1)
        self.value_hidden = nn.Linear(groups * head, architecture.value_hidden)
        self.value_output = nn.Linear(architecture.value_hidden, VALUE_OUTPUTS[architecture.value_head])
        self.ownership = nn.Linear(head, 1)
        self.score = nn.Linear(architecture.value_hidden, 1)

    def forward(self, planes: Tensor) -> Outputs:
        """planes [B, C, H, W] uint8 of 0 and 1 (or already a float type)."""
        x = planes.to(self.stem.conv.weight.dtype, memory_format=torch.channels_last)
        local_planes, global_planes = split_planes(self.architecture, x)
        x = self.stem(local_planes)
        if global_planes is not None:
            x = x + self.stem_globals(global_planes)[:, :, None, None]
        x = F.relu(x)
        for block in self.blocks:
            x = block(x)
        policy = F.relu(self.policy_features(x))
        value = F.relu(self.value_features(x))
        points = planes[0, 0].numel()
        hidden = F.relu(read_pooled(pooled(value), self.value_hidden.weight, self.value_hidden.bias, points))
        policy_logits, reply_logits, soft_policy_logits = self._policies(policy).float().unbind(1)
        value_logits = self.value_output(hidden).float()
        return Outputs(
            policy_logits=policy_logits,
            value=value_of(value_logits),
            ownership_logits=per_point_logits(value, self.ownership.weight, self.ownership.bias).float(),
            score=self.score(hidden).float().squeeze(1),
            reply_logits=reply_logits,
            soft_policy_logits=soft_policy_logits,
            value_logits=value_logits,
        )

    def _policies(self, features: Tensor) -> Tensor:
        """[B, 3, A]: the logits of POLICY_HEADS, whose layers run as one with three times the outputs."""
        batch, heads = len(features), len(POLICY_HEADS)
        if not self.architecture.point_policy:
            # channel-major in any memory format
            return F.linear(features.flatten(1), *self._stacked("dense")).view(batch, heads, -1)
        by_point = F.linear(features.permute(0, 2, 3, 1), *self._stacked("points")).flatten(1, 2)  # [B, P, 3·kinds]
        logits = by_point.unflatten(2, (heads, -1)).permute(0, 2, 3, 1).flatten(2)
        if self.architecture.extra_actions:
            stacked, points = self._stacked("extra"), features[0, 0].numel()
            extra = read_pooled(pooled(features), *stacked, points).view(batch, heads, -1)
            logits = torch.cat([logits, extra], dim=2)
        return logits

    def _stacked(self, layer: str) -> tuple[Tensor, Tensor]:
        """weight [3·outputs, inputs] and bias [3·outputs] of one layer of all POLICY_HEADS."""
        layers: list[nn.Linear] = [getattr(self, f"{policy}_{layer}") for policy in POLICY_HEADS]
        return torch.cat([one.weight for one in layers]), torch.cat([one.bias for one in layers])


def value_of(value_logits: Tensor) -> Tensor:
    """[B] in [-1, 1]: tanh of logits [B, 1], or P(win) − P(loss) of logits [B, 3] of win, draw and loss."""
    if value_logits.shape[1] == 1:
        return torch.tanh(value_logits).squeeze(1)
    chances = torch.softmax(value_logits, dim=1)
    return chances[:, 0] - chances[:, 2]


def per_point_logits(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[B, N·P], output-major: a linear layer with weight [N, C] and bias [N] at every point of x [B, C, H, W]."""
    return F.linear(x.permute(0, 2, 3, 1), weight, bias).flatten(1, 2).transpose(1, 2).flatten(1)


def load_network(architecture: Architecture, weights: Weights) -> Network:
    """A network in channels-last float32 with these weights (copied). Raises MuGoError if they don't fit."""
    check_weights(architecture, weights)
    network = Network(architecture)
    state = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in weights.items()}
    # strict=False: the norms' batch counters aren't stored, since a fixed momentum never reads them.
    network.load_state_dict(state, strict=False)
    sides = sides_of(weights)
    for name, layer in _normed(network).items():
        for side in sides:
            parts = [of_side(side, f"{name}.{part}") for part in (MEAN, VARIANCE)]
            if all(part in state for part in parts):  # blocks that were added later have none yet
                layer.statistics[side] = (state[parts[0]], state[parts[1]])
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return network


def network_weights(network: Network) -> Weights:
    """A copy of a network's weights, by the names of weight_shapes, and of_side for its boards' own statistics."""
    state = network.state_dict()
    arrays = {name: state[name] for name in weight_shapes(network.architecture)}
    for name, layer in _normed(network).items():
        for side, (mean, variance) in sorted(layer.statistics.items()):
            arrays[of_side(side, f"{name}.{MEAN}")] = mean
            arrays[of_side(side, f"{name}.{VARIANCE}")] = variance
    return {
        name: np.array(tensor.detach().float().cpu().contiguous().numpy(), np.float32, order="C")
        for name, tensor in arrays.items()
    }


@torch.no_grad()
def measure_statistics(
    network: Network, inputs: Iterable[Tensor], evaluate: Callable[[nn.Module, Tensor], Any]
) -> None:
    """Give the norms the statistics of each board, from batches of planes [B, C, H, W] of one board each.

    evaluate: (network, batch) → anything; runs a network. Of each board, STATISTICS_ROWS positions count; with less
    than LEAST_ROWS it has none, as older ones would be of other weights. Unlike running statistics they are of the
    weights as they are, also of averaged ones (Izmailov et al. 2018, arXiv 1803.05407, section 3.2).
    """
    counters: dict[int, Network] = {}
    rows: dict[int, int] = defaultdict(int)
    for batch in inputs:
        side = batch.shape[-1]
        if rows[side] >= STATISTICS_ROWS:
            continue
        if side not in counters:
            counters[side] = deepcopy(network).train()
            for layer in _normed(counters[side]).values():
                layer.norm.reset_running_stats()
                layer.norm.momentum = None  # the mean over batches
        evaluate(counters[side], batch)
        rows[side] += len(batch)
    for layer in _normed(network).values():
        layer.statistics = {}
    for side in (one for one in counters if rows[one] >= LEAST_ROWS):
        for layer, counter in zip(_normed(network).values(), _normed(counters[side]).values(), strict=True):
            mean, variance = counter.norm.running_mean, counter.norm.running_var
            assert mean is not None and variance is not None
            layer.statistics[side] = mean, variance


def _normed(network: Network) -> dict[str, NormedConvolution]:
    """By the names of their norms."""
    return {f"{name}.norm": one for name, one in network.named_modules() if isinstance(one, NormedConvolution)}


class Estimates(NamedTuple):
    """Of B positions, for people to look at; seen by the player to move."""

    ownership: FloatArray  # [B, P] in [-1, 1]: the expected owner at the end of the game, +1 the player to move
    score: FloatArray  # [B] the expected lead at the end, in the game's points


def estimator(architecture: Architecture, weights: Weights, num_threads: int) -> Callable[[Planes], Estimates]:
    """A function that estimates planes [B, C, H, W]; it ignores planes added to the game since the network was made.

    Unfolded torch in float32: much slower than ``inference.py``, for a few positions at a time. num_threads: of torch
    in each thread that calls it.
    """
    network = load_network(architecture, weights).eval()

    @torch.inference_mode()
    def estimate(planes: Planes) -> Estimates:
        before = torch.get_num_threads()  # a setting of the calling thread, which may be another one for its evaluator
        torch.set_num_threads(num_threads)
        try:
            outputs = network(torch.from_numpy(np.ascontiguousarray(planes[:, : architecture.planes])))
        finally:
            torch.set_num_threads(before)
        score = outputs.score * side_of(outputs.ownership_logits.shape[1])
        return Estimates(torch.tanh(outputs.ownership_logits).numpy(), score.numpy())

    return estimate
