"""The network as a torch module: a residual tower with global pooling, and its heads.

    planes ─ conv ─ block 0 ─ block 1 (pooling) ─ block 2 ─ block 3 (pooling) … ─┬─ policy
                                                                                 └─ value ─ ownership, score

A block is conv-norm-ReLU-conv-norm-add-ReLU, so each batch norm follows its convolution directly and folds into it
exactly (``folding.py``). In every second block the means and maxima of the block's input over the board, through a
linear layer, are added to every point of the first convolution's output: what one corner needs to know about the
whole board arrives in one step. Source: Wu 2019, arXiv 1902.10565, section 3.3 ("global pooling").

Everything it says is seen by the player to move. B batch, C planes, H×W board, P = H·W points, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.networks.architecture import (
    NORM_EPSILON,
    VALUE_HIDDEN,
    Architecture,
    Weights,
    check_weights,
    weight_shapes,
)


class Outputs(NamedTuple):
    """What a network says about B positions; float32, seen by the player to move."""

    policy_logits: Tensor  # [B, A]
    value: Tensor  # [B] in (-1, 1)
    ownership_logits: Tensor  # [B, P]; tanh of it is the expected owner, +1 the player to move
    score: Tensor  # [B] in units of architecture.score_scale points


def pooled(x: Tensor) -> Tensor:
    """[B, 2C]: mean and maximum of each channel over the board."""
    # As a pooling layer the maximum is 13 times as fast as amax() in bfloat16 on a processor.
    return torch.cat([x.mean((2, 3)), F.max_pool2d(x, x.shape[2:]).flatten(1)], dim=1)


class NormedConvolution(nn.Module):
    """Convolution that keeps the board's size, without bias, followed by its batch norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=NORM_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class Block(nn.Module):
    """One residual block; with_pooling adds the view of the whole board."""

    def __init__(self, channels: int, with_pooling: bool) -> None:
        super().__init__()
        self.first = NormedConvolution(channels, channels, 3)
        self.pooling = nn.Linear(2 * channels, channels) if with_pooling else None
        self.second = NormedConvolution(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if self.pooling is not None:
            y = y + self.pooling(pooled(x))[:, :, None, None]
        return F.relu(x + self.second(F.relu(y)))


class Network(nn.Module):
    """The whole network, for training. Inference uses its folded twin (``folding.py``)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        channels, head = architecture.channels, architecture.head_channels
        self.stem = NormedConvolution(architecture.planes, channels, 3)
        self.blocks = nn.ModuleList(
            Block(channels, architecture.has_pooling(block)) for block in range(architecture.blocks)
        )
        self.policy_features = NormedConvolution(channels, head, 1)
        if architecture.point_policy:
            self.policy_points = nn.Linear(head, 1)
            if architecture.extra_actions:
                self.policy_extra = nn.Linear(2 * head, architecture.extra_actions)
        else:
            self.policy_dense = nn.Linear(head * architecture.points, architecture.actions)
        self.value_features = NormedConvolution(channels, head, 1)
        self.value_hidden = nn.Linear(2 * head, VALUE_HIDDEN)
        self.value_output = nn.Linear(VALUE_HIDDEN, 1)
        self.ownership = nn.Linear(head, 1)
        self.score = nn.Linear(VALUE_HIDDEN, 1)

    def forward(self, planes: Tensor) -> Outputs:
        """planes [B, C, H, W] uint8 of 0 and 1 (or already a float type)."""
        x = planes.to(self.stem.conv.weight.dtype, memory_format=torch.channels_last)
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        policy = F.relu(self.policy_features(x))
        value = F.relu(self.value_features(x))
        hidden = F.relu(self.value_hidden(pooled(value)))
        return Outputs(
            self._policy(policy).float(),
            torch.tanh(self.value_output(hidden).float()).squeeze(1),
            per_point_logits(value, self.ownership.weight, self.ownership.bias).float(),
            self.score(hidden).float().squeeze(1),
        )

    def _policy(self, features: Tensor) -> Tensor:
        if not self.architecture.point_policy:
            return self.policy_dense(features.flatten(1))  # channel-major, whatever the memory format
        logits = per_point_logits(features, self.policy_points.weight, self.policy_points.bias)
        if self.architecture.extra_actions:
            logits = torch.cat([logits, self.policy_extra(pooled(features))], dim=1)
        return logits


def per_point_logits(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[B, P]: a linear layer with one output (weight [1, C], bias [1]) at every point of x [B, C, H, W]."""
    return F.linear(x.permute(0, 2, 3, 1), weight, bias).flatten(1)


def load_network(architecture: Architecture, weights: Weights) -> Network:
    """A network in channels-last float32 with these weights (copied). Raises MuGoError if they don't fit."""
    check_weights(architecture, weights)
    network = Network(architecture)
    state = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in weights.items()}
    # The only entries not stored are the norms' batch counters, which a fixed momentum never reads.
    network.load_state_dict(state, strict=False)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return network


def network_weights(network: Network) -> Weights:
    """A copy of a network's weights, by the names of weight_shapes."""
    state = network.state_dict()
    return {
        name: np.array(state[name].detach().float().cpu().contiguous().numpy(), np.float32, order="C")
        for name in weight_shapes(network.architecture)
    }
