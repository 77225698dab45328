"""Seeds of games, and actors in turn."""

from __future__ import annotations

import numpy as np

from pipeline.methods.method import STEPS_OF_A_TURN, Actor, GameSeed, game_seeds, run_in_turn
from pipeline.run.layout import DEFAULT_WORKER


def drawn(seed: int, number: int, fraction: float, worker: str) -> GameSeed:
    """The raw bits equal what a numpy Generator returns."""
    who = () if worker == DEFAULT_WORKER else tuple(worker.encode())
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number], spawn_key=who)))
    first, second = stream.integers(0, 2**64, 2, np.uint64).tolist()
    no_resign = bool(stream.random() < fraction)
    encounter, kinds = stream.integers(0, 2**64, 2, np.uint64).tolist()
    return GameSeed(first, second, no_resign, encounter, kinds, number=number)


def test_seeds_are_those_of_a_generator() -> None:
    for seed, fraction, worker in ((0, 0.0, DEFAULT_WORKER), (7, 0.1, "w03"), (2**63, 0.5, "another"), (1, 1.0, "x")):
        found = list(game_seeds(seed, iter(range(1000)), fraction, worker))
        assert found == [drawn(seed, number, fraction, worker) for number in range(1000)]
        assert all(type(one.no_resign) is bool for one in found)
        if 0 < fraction < 1:
            assert {one.no_resign for one in found} == {True, False}


class Stepping(Actor):
    """Plays for a given number of steps and logs each."""

    def __init__(self, name: str, steps: int, said: list[str]) -> None:
        self.live = int(steps > 0)
        self._name, self._left, self._said = name, steps, said

    def step(self) -> None:
        assert self.live
        self._said.append(self._name)
        self._left -= 1
        self.live = int(self._left > 0)


def test_actors_take_turns_of_several_steps_until_none_has_a_game() -> None:
    said: list[str] = []
    turn = STEPS_OF_A_TURN
    actors = [Stepping(name, steps, said) for name, steps in (("a", turn + 1), ("b", 0), ("c", 2 * turn + 2))]
    run_in_turn(actors, lambda: False)
    assert "".join(said) == "a" * turn + "c" * turn + "a" + "c" * turn + "cc"
    assert [actor.steps for actor in actors] == [turn + 1, 0, 2 * turn + 2]


def test_an_actor_that_is_ahead_waits_as_long_as_another_has_a_game() -> None:
    said: list[str] = []
    turn = STEPS_OF_A_TURN
    actors = [Stepping(name, steps, said) for name, steps in (("a", turn), ("b", 2 * turn))]
    run_in_turn(actors, lambda: False, lambda index: index == 0)
    assert "".join(said) == "b" * 2 * turn + "a" * turn


def test_whether_to_stop_is_asked_before_each_round() -> None:
    said: list[str] = []
    asked = iter([False, False, True])
    run_in_turn([Stepping("a", 100, said), Stepping("b", 100, said)], lambda: next(asked))
    assert "".join(said) == ("a" * STEPS_OF_A_TURN + "b" * STEPS_OF_A_TURN) * 2
    said.clear()
    asked = iter([False, False, True])
    Stepping("a", 100, said).run(lambda: next(asked))
    assert said == ["a", "a"]  # one alone has no turns
