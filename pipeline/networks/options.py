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
        description="How the network runs; auto takes the fastest, measured once per machine; openvino excludes int8. "
        f"All: {', '.join(BACKENDS)}; which of them a model can use depends on its method, see docs/machines.md.",
    ),
]
