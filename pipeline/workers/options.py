"""The option that says on which machines games are played."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

RUNNERS = ("local", "ray")
Runner = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(RUNNERS)})$",
        description="Where games are played: local, on this machine; ray, on all of the Ray cluster that RAY_ADDRESS "
        "names or that runs here; see docs/machines.md.",
    ),
]
