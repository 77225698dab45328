"""Muon: an optimiser for the matrices inside a network, whose steps are orthogonalised momentum.

An Adam step moves a matrix mostly along the few directions with large gradients. Muon gives all directions of the
momentum the same length, so that rare ones are learned too. Source: Jordan et al. 2024, "Muon: An optimizer for hidden
layers in neural networks". The step's length grows with the matrix as in Liu et al. 2025, arXiv 2502.16982, section
2.2, so that learning rates suit Adam and Muon alike.

    m ← β·m + (1 − β)·g        u = β·m + (1 − β)·g  (Nesterov)        o ≈ U·Vᵀ where u = U·S·Vᵀ
    w ← w − rate·decay·w − rate·LENGTH·√max(rows, columns)·o

A convolution [out, in, kh, kw] is a matrix of out rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
LENGTH = 0.6
# Jordan's polynomial, whose iteration brings all singular values near 1; it is steep at 0, so five iterations suffice.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """For parameters of two or more axes. Keeps one moment of each, named exp_avg as Adam's."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # torch's has overloads with a closure
        """Update every parameter that has a gradient. closure: unused."""
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike[parameter.shape].append(parameter)
            for shape, parameters in alike.items():
                steps = orthogonal(torch.stack([self._direction(parameter).flatten(1) for parameter in parameters]))
                length = group["lr"] * LENGTH * max(steps.shape[1:]) ** 0.5
                for parameter, step in zip(parameters, steps, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(step.view(shape), alpha=-length)

    def _direction(self, parameter: Tensor) -> Tensor:
        """Nesterov's momentum."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if "exp_avg" not in state:
            state["exp_avg"] = torch.zeros_like(parameter)
        return gradient.lerp(state["exp_avg"].lerp_(gradient, 1 - MOMENTUM), MOMENTUM)


def orthogonal(matrices: Tensor) -> Tensor:
    """[n, rows, columns]: each matrix U·S·Vᵀ becomes about U·Vᵀ: singular values of 0.7 to 1.2 unless S is tiny."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonal(matrices.mT).mT
    a, b, c = COEFFICIENTS
    found = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(matrices.dtype).tiny)
    for _ in range(ITERATIONS):
        square = found @ found.mT
        found = a * found + (b * square + c * square @ square) @ found
    return found
