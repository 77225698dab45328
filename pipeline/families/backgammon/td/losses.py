"""The network as a torch module, and its loss.

B batch, F inputs (features, perhaps with tactical features), H hidden units, O outputs. All values are seen by the
player who is about to throw. Terms:

    total     mean over the batch of sample_weight · Σ_o (output - target)². With value_plies 1 a target can lie
              slightly outside [0, 1]

Metrics beside it, in points, means over the batch weighted by sample_weight:

    target_error     |value - target's value|; prioritised replay's priority
    value_mse        its square, in points²
    predicted_value  value
    target_value     target's value
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pipeline.errors import MuGoError
from pipeline.families.backgammon.td.network import check_weights
from pipeline.families.backgammon.td.outcomes import value_offset, value_weights
from pipeline.methods.method import Objective, Weights


class Batch(NamedTuple):
    features: Tensor  # [B, ≥ F] float32; a network reads the first F
    target: Tensor  # [B, MOST_OUTPUTS] float32; NaN beyond the outputs
    value: Tensor  # [B] float32, the target in points
    sample_weight: Tensor  # [B] float32


class Outputs(NamedTuple):
    chances: Tensor  # [B, O] float32


class AfterstateModule(nn.Module):
    """One hidden layer of sigmoids. Always float32: 16 bits would round chances to hundredths."""

    def __init__(self, num_inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_inputs, hidden)
        self.output = nn.Linear(hidden, outputs)

    def forward(self, features: Tensor) -> Outputs:
        with torch.autocast(features.device.type, enabled=False):
            hidden = torch.sigmoid(self.hidden(features[:, : self.hidden.in_features]))
            return Outputs(torch.sigmoid(self.output(hidden)))


class AfterstateObjective(Objective):
    """See the module docstring."""

    terms = ("total",)
    metrics = ("total", "target_error", "value_mse", "predicted_value", "target_value")

    def __init__(self, num_inputs: int, max_result: float, outputs: int) -> None:
        self._num_inputs, self._outputs = num_inputs, outputs
        self._weights = value_weights(outputs, max_result).tolist()  # plain numbers, independent of the device
        self._offset = float(value_offset(outputs, max_result))

    def network(self, weights: Weights) -> AfterstateModule:
        hidden, outputs = check_weights(weights, self._num_inputs)
        if outputs != self._outputs:
            raise MuGoError(f"its weights have {outputs} outputs; its architecture says {self._outputs}")
        network = AfterstateModule(self._num_inputs, hidden, outputs)
        network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
        return network

    def weights(self, network: nn.Module) -> Weights:
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in network.state_dict().items()}

    def check(self, batch: Batch) -> None:
        found = torch.isfinite(batch.target).sum(1)
        if (others := found[found != self._outputs]).numel():
            raise MuGoError(
                f"the games were played by a network with {int(others[0])} outputs, this one has {self._outputs}; "
                "wanted games of a model with the same --value-head; run selfplay and gather again"
            )

    def losses(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        error = (outputs.chances - batch.target[:, : self._outputs]).square().sum(1)
        return {"total": (error * batch.sample_weight).mean()}

    def accuracies(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        values, weight = self._values(outputs), batch.sample_weight
        error = values - batch.value
        rows = {"target_error": error.abs(), "value_mse": error.square(), "predicted_value": values}
        rows["target_value"] = batch.value
        return {name: (one * weight).sum() / weight.sum() for name, one in rows.items()}

    def counting_rows(self, batch: Batch) -> dict[str, Tensor]:
        return dict.fromkeys(self.metrics, torch.ones_like(batch.value))

    def total(self, means: Mapping[str, float]) -> float:
        return means["total"]

    def errors(self, outputs: Outputs, batch: Batch) -> Tensor:
        return (self._values(outputs) - batch.value).abs()

    def _values(self, outputs: Outputs) -> Tensor:
        """[B] in points"""
        values = torch.zeros_like(outputs.chances[:, 0]) - self._offset
        for weight, chance in zip(self._weights, outputs.chances.unbind(1), strict=True):
            values = values + weight * chance
        return values
