"""The option --backend, which says how networks run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

NETWORK_BACKENDS = ("auto", "torch", "compile", "openvino", "int8")
BACKENDS = (*NETWORK_BACKENDS, "server", "vllm")  # the last two are for language models only
Backend = Annotated[
    str,
    Field(
        pattern=f"^({'|'.join(BACKENDS)})$",
        description="Inference backend; auto: the fastest, measured once per machine; openvino: without int8. "
        "Language models: auto, torch, server (one process serves all threads) or vllm.",
    ),
]
