"""``Endings``: chooses the moves of positions whose winner is clear, with a second search (search/ending_search.py).

Where the first search's value reaches ``margin_from``, the second one chooses, for a winner among the moves that keep
the win: docs/design.md says why. Axes as in player.py. Values that people see stay the first search's.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.contract import Actions, BoolArray, Evaluate, FloatArray, Game, History, States
from pipeline.games.margins import MarginNetwork
from pipeline.players.player import Rows
from pipeline.search.batch import BatchSearch
from pipeline.search.ending_search import EndingSearch
from pipeline.search.options import PlaySearchOptions, SearchOptions
from pipeline.search.puct import LCB_MIN_VISIT_FRACTION, LCB_MIN_VISITS

MOST_READOUTS = 200  # of a second search: it needn't win a game
GIVEN_UP = 0.01  # the most that a winner's move for the margin may cost, of the value
OPEN = 2 / 3  # a board is open while more of its points than this can be played on
SURE = 0.5  # the expected owner of a point that counts as the player's


class Endings:
    """Second searches of the rows of one search. Memory is allocated when the first position is decided.

    No position is: by the options, without readouts, or if the network doesn't know the game's margins.
    """

    def __init__(
        self,
        game: Game,
        num_rows: int,
        evaluate: Evaluate,
        margins: MarginNetwork | None,
        config: SearchOptions,
        readouts: int,
        leaves: int,
    ) -> None:
        """evaluate: of the first search; margins: None: not known. Both take batches of up to num_rows · leaves."""
        self._game, self._evaluate, self._margins, self._config = game, evaluate, margins, config
        decided_from = config.margin_from if isinstance(config, PlaySearchOptions) else 1.0
        can_search = readouts > 0 and (margins is not None or not game.has_margins)
        self._decided_from = decided_from if decided_from < 1 and can_search else np.inf
        self._second = evaluate if margins is None else margins.evaluate
        self._size = num_rows, min(readouts, MOST_READOUTS), leaves
        self._made: EndingSearch | None = None
        self._searching = np.zeros(num_rows, np.bool_)

    @property
    def live(self) -> bool:
        """Whether a second search is going on."""
        return bool(self._searching.any())

    @property
    def _search(self) -> EndingSearch:
        if self._made is None:
            num_rows, readouts, leaves = self._size
            self._made = EndingSearch(self._game, num_rows, readouts, self._config, leaves)
        return self._made

    def are_decided(self, search: BatchSearch, rows: Rows) -> BoolArray:
        """[n] whether the first search is sure enough of who wins. Its roots must have been evaluated.

        On an open board no margin is decided: there a loser still tries to win, and doesn't pass.
        """
        decided = np.abs(search.root_values(rows)) >= self._decided_from
        if self._game.has_margins and decided.any():
            at = rows[decided]
            playable, free = search.legal(at), self._game.ownership(search.states[at]) == 0
            most = np.maximum(playable.sum(axis=1), free.sum(axis=1))  # in some games few free points can be played on
            decided[decided] = most <= OPEN * self._game.num_points
        return decided

    def begin(
        self, search: BatchSearch, rows: Rows, chosen: Actions, readouts: int = MOST_READOUTS
    ) -> tuple[Actions, BoolArray]:
        """Start second searches where they are needed in rows [n] -> moves [n]; [n] whether a search was started.

        chosen [n]: the moves that the first search would play, and those to play where no search was started: the
        position isn't decided, there is no choice, or the answer to a pass is a pass.
        readouts: the most of each, above 0.
        """
        begun, actions = self.are_decided(search, rows), chosen.copy()
        at = np.flatnonzero(begun)
        if at.size:
            allowed = self._allowed(search, rows[at], chosen[at])
            passes = self._game.pass_action
            if passes is not None and self._margins is not None:
                ended = at[allowed[:, passes] & (search.root_values(rows[at]) > 0)]
                if ended.size:
                    ended = ended[self._ends_well(search, rows[ended])]
                    actions[ended], begun[ended] = passes, False
            begun[at] &= allowed.sum(axis=1) > 1
            at, allowed = at[begun[at]], allowed[begun[at]]
        if at.size:
            each = np.full(len(at), min(readouts, self._size[1]), np.int32)
            self._search.begin_at(search, rows[at], each, allowed)
            self._searching[rows[at]] = True
        return actions, begun

    def step(self) -> tuple[Rows, Actions]:
        """Evaluate one batch -> rows [n] whose search has ended, and their moves [n]."""
        search = self._search
        search.step(self._second)
        rows = search.finished()
        actions = search.best(rows)
        self.stop(rows)
        return rows, actions

    def best(self, row: int) -> int:
        """The move that the second search prefers so far. At least one batch must have been searched."""
        return int(self._search.best(np.array([row]))[0])

    def stop(self, rows: Rows) -> None:
        """End the searches in rows [n], finished or not."""
        if self._made is not None:
            self._made.stop(rows)
            self._searching[rows] = False

    def _allowed(self, search: BatchSearch, rows: Rows, chosen: Actions) -> BoolArray:
        """[n, A] any allowed move of a loser, and a winner's moves that give up at most GIVEN_UP of the value."""
        every = np.arange(len(rows))
        legal, values, (visits, _) = search.allowed(rows), search.root_action_values(rows), search.root_table(rows)
        best = np.where(visits[every, chosen] > 0, values[every, chosen], search.root_values(rows))
        least = np.maximum(LCB_MIN_VISITS, LCB_MIN_VISIT_FRACTION * visits.max(axis=1, keepdims=True))
        # A move that the first search has hardly visited may lose everything; only a win is certain at once.
        values = np.where((visits >= least) | (values >= 1), values, np.float32(-1))
        passes = self._game.pass_action
        if passes is not None:
            asked = np.flatnonzero(legal[:, passes] & (best > 0))
            if asked.size:
                values[asked, passes] = self._after_pass(search, rows[asked])
        allowed: BoolArray = legal & ((values >= best[:, None] - np.float32(GIVEN_UP)) | (best < 0)[:, None])
        allowed[every, chosen] = True
        return allowed

    def _after_pass(self, search: BatchSearch, rows: Rows) -> FloatArray:
        """[n] the value of a pass, seen by the player who passes: the result if it ends the game.

        Otherwise what the network thinks of it, or the result of another pass if that is worse: it counts every dead
        stone as alive.
        """
        game, history = self._game, search.history.select(rows)
        sign = np.where(game.to_move(search.states[rows]) == 0, np.float32(1), np.float32(-1))
        after = self._passed(search.states[rows], history)
        values = sign * game.returns(after)
        going = np.flatnonzero(~game.is_over(after))
        if going.size:
            after, past = after[going], history.select(going)
            past.append(np.arange(going.size), game.keys(after))
            legal, planes = game.legal_and_observe(after, past)
            values[going] = -self._evaluate(planes)[1]
            may = np.flatnonzero(legal[:, game.pass_action])  # in some games a pass is only legal without another move
            going, answered = going[may], self._passed(after[may], past.select(may))
            ended = game.is_over(answered)
            results = sign[going] * game.returns(answered)
            values[going] = np.where(ended, np.minimum(values[going], results), values[going])
        return values

    def _ends_well(self, search: BatchSearch, rows: Rows) -> BoolArray:
        """[n] whether a pass ends the game and the player can't be sure of any point that the rules don't give yet.

        Only the network's certainties count: it has seen too many lost games in which the loser gave everything away.
        """
        assert self._margins is not None
        game, states, history = self._game, search.states[rows], search.history.select(rows)
        sign, after = np.where(game.to_move(states) == 0, 1, -1)[:, None], self._passed(states, history)
        planes = game.legal_and_observe(states, history)[1]
        sure = (self._margins.owners(planes) > SURE) & (sign * game.ownership(after) <= 0)
        return game.is_over(after) & ~sure.any(axis=1)

    def _passed(self, states: States, history: History) -> States:
        """[n, S] the positions after a pass."""
        assert self._game.pass_action is not None
        return self._game.play(states, np.full(len(states), self._game.pass_action, np.int32), history)
