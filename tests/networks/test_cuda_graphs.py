"""Garbage collection while a CUDA graph is captured; needs no GPU."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pipeline.networks.torch_backends import without_garbage_collection


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def eager_collector() -> Iterator[None]:
    """The collector runs at every other new object."""
    usual = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*usual)


def make_objects() -> None:
    assert len([[] for _ in range(10_000)]) == 10_000


def test_garbage_stays_meanwhile() -> None:
    with without_garbage_collection():
        garbage = weakref.ref(Cycle())
        make_objects()
        assert garbage() is not None
    make_objects()
    assert garbage() is None


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with pytest.raises(ValueError, match="spoilt"), without_garbage_collection():
            raise ValueError("spoilt")
        assert not gc.isenabled()
    finally:
        gc.enable()
