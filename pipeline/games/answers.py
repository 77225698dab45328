"""What arrays a game's verbs must answer with, and ``check_answers``, which looks at those of a package's game.

Searches and self-play trust a game. One that breaks the contract late in a game would end them with an error far away
from it, or never: a result that isn't a number compares with nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from traceback import walk_tb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.extensions import Extension
from pipeline.games.contract import AnyGame, Game

STATE, ACTION, KEY, ROW, ONE = np.int16, np.int32, np.uint64, np.bool_, np.float32  # the types of arrays
Axes = tuple[tuple[Any, ...], ...]  # for each array: its type, then the attributes that give the axes behind B

ANSWERS: dict[str, Axes] = {
    "initial": ((STATE, "state_size"),),
    "play": ((STATE, "state_size"),),
    "is_over": ((ROW,),),
    "cut_short": ((ROW,),),
    "returns": ((ONE,),),
    "scores": ((ONE,),),
    "to_move": ((np.int8,),),
    "plies": ((ACTION,),),
    "keys": ((KEY,),),
    "chance": ((ONE, None),),
    "with_turn": ((STATE, "state_size"),),
    "begin": ((STATE, "state_size"),),
    "met_by": ((STATE, "state_size"),),
}
ANSWERS_OF_GAMES: dict[str, Axes] = {  # with a fixed list of actions
    "legal": ((ROW, "num_actions"),),
    "observe": ((np.uint8, "num_planes", "board_shape"),),
    "legal_and_observe": ((ROW, "num_actions"), (np.uint8, "num_planes", "board_shape")),
    "ownership": ((np.int8, "num_points"),),
}
Fault = tuple[str, str]  # what was found, what was wanted


def answers_of(kind: type[AnyGame]) -> dict[str, Axes]:
    """By verb, for a class of games."""
    return {**ANSWERS, **(ANSWERS_OF_GAMES if issubclass(kind, Game) else {})}


def raised(error: Exception) -> str:
    """What a game raised, and where."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    return f"raised {type(error).__name__}: {error} ({frame.f_code.co_filename}:{line})"


def arrays_in(value: Any) -> list[NDArray[Any]]:
    """The arrays of an answer or an argument, which may be a dataclass or a tuple of them."""
    if isinstance(value, np.ndarray):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        return [array for part in vars(value).values() for array in arrays_in(part)]
    return [array for part in value for array in arrays_in(part)] if isinstance(value, tuple | list) else []


def misfit(game: AnyGame, wanted: Axes, rows: int, answer: Any) -> Fault | None:
    """What is wrong with the number, types and shapes of an answer's arrays. rows: B"""
    arrays = arrays_in(answer)
    if len(arrays) != len(wanted):
        return f"{len(arrays)} arrays in a {type(answer).__name__}", str(len(wanted))
    for array, (kind, *axes) in zip(arrays, wanted, strict=True):
        shape = (rows, *(length for axis in axes for length in _lengths(game, axis)))
        fits = array.ndim == len(shape) and all(b in (a, -1) for a, b in zip(array.shape, shape, strict=True))
        if not fits or array.dtype != kind:
            names = f"[{', '.join(['B' if n == 0 else str(a) for n, a in enumerate(shape)])}]".replace("-1", "O")
            return f"{array.dtype} of shape {list(array.shape)}", f"{np.dtype(kind)} of shape {names} for B = {rows}"
    return None


def _lengths(game: AnyGame, axis: str | None) -> tuple[int, ...]:
    found = -1 if axis is None else getattr(game, axis)
    return found if isinstance(found, tuple) else (found,)


_ASKED = threading.local()  # inside: whether this thread is in a verb; a game may ask itself about half-made positions
_CHECKED: set[type] = set()


def check_answers(kind: type[AnyGame], extension: Extension) -> None:
    """From now on, a verb of this class that raises anything but MuGoError, or answers wrongly, raises MuGoError.

    Its line names the package. Wrong is an answer of another type or shape, a result that isn't within max_result, and
    no legal action where the game isn't over. This takes 6 to 18 µs a call. Changes the class, unless
    it is one of this program's.
    """
    if kind in _CHECKED or kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return
    _CHECKED.add(kind)
    for verb, wanted in answers_of(kind).items():
        if hasattr(kind, verb):
            setattr(kind, verb, _asked(verb, wanted, getattr(kind, verb), extension))


def _asked(verb: str, wanted: Axes, function: Callable[..., Any], extension: Extension) -> Callable[..., Any]:
    @wraps(function)
    def ask(game: Any, *given: Any, **named: Any) -> Any:
        if getattr(_ASKED, "inside", False):
            return function(game, *given, **named)
        _ASKED.inside = True
        try:
            answer = function(game, *given, **named)
        except (MuGoError, MemoryError):
            raise
        except Exception as error:
            said = f"{game.spec}, {verb}: {raised(error)}"
            raise MuGoError(f"{extension}: {said}; update or uninstall the package") from error
        finally:
            _ASKED.inside = False
        first = next(iter((*given, *named.values())))
        fault = misfit(game, wanted, first if verb == "initial" else len(first), answer)
        fault = fault or _contradiction(game, verb, first, answer)
        if fault is not None:
            said = f"{verb}: found {fault[0]}; wanted {fault[1]}"
            raise MuGoError(f"{extension}: {game.spec}, {said}; see what check_game says, or uninstall the package")
        return answer

    return ask


def _contradiction(game: Any, verb: str, states: Any, answer: Any) -> Fault | None:
    if verb == "returns":
        wrong = ~(np.abs(answer) <= game.max_result)  # true of what isn't a number, too
        return (f"{answer[wrong][0]:g}", f"at most max_result = {game.max_result:g}") if wrong.any() else None
    if verb in ("legal", "legal_and_observe"):
        stuck = ~(answer if verb == "legal" else answer[0]).any(axis=1)
        if stuck.any() and not game.is_over(states[stuck]).all():
            return "no action, though is_over() says that the game goes on", "at least one"
    return None
