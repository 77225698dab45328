"""The option --backend, which says how networks run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeline import extensions

NETWORK_BACKENDS = ("auto", "torch", "compile", "openvino", "int8")
BACKENDS = (*NETWORK_BACKENDS, *sorted(extensions.find(extensions.BACKENDS)))  # the others are for some methods only
Backend = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(BACKENDS)})$",
        description=f"How the network runs: {', '.join(BACKENDS)}. auto is the fastest, measured once per machine; "
        "openvino excludes int8. A model's method can use some of them (docs/machines.md).",
    ),
]
