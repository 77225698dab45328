"""The option that says how networks run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

NETWORK_BACKENDS = ("auto", "torch", "compile", "openvino", "int8")
BACKENDS = (*NETWORK_BACKENDS, "server", "vllm")  # the last two answer for language models only
Backend = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(BACKENDS)})$",
        description="How the network runs; auto takes the fastest, measured once per machine; openvino excludes int8. "
        "Language models: auto, torch, server (a process of its own answers for all threads) or vllm.",
    ),
]
