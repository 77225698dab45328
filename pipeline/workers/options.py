"""The option for the machines that play."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Runner = Annotated[
    str,
    Field(
        pattern="^(local|ray)$",
        description="Where games are played: local, on this machine; ray, on the whole Ray cluster that RAY_ADDRESS "
        "names or that runs here; see docs/machines.md.",
    ),
]
