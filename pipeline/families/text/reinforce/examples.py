"""From recorded games to examples: replay and check the games, then transform the rewards.

``make_examples`` makes each example from its own game. ``settle`` then computes the advantages of a complete set,
because transformations may depend on the other steps, e.g. for normalisation.

With a critic, a step's advantage is the generalised advantage estimate over the same seat's later steps in the game:
δ_t = r_t + γ·v_{t+1} − v_t, A_t = δ_t + γ·λ·A_{t+1}, with the recorded values and a reward at the last step only.
Source: Schulman et al. 2016, arXiv 1506.02438. γ is gather's --discount, λ its --td-lambda. Since only the last step
has a reward, A_t = Σ over k ≥ t of (γλ)^(k−t)·δ_k is (γλ)^left·reward plus a baseline that depends on the values only;
so the reward can be transformed after the replay. A step's own rewards are added. Without a critic A_t is
γ^left·reward.

Axes: N wanted steps, P and A as in columns.py, G games, T plies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import GamesDiffer, IllegalMove
from pipeline.families.text.game import DIFFERS, TextGame
from pipeline.families.text.options import TextGatherOptions
from pipeline.families.text.reinforce.columns import INVALID_MOVE, NOBODY, NONE, WELL_FORMED
from pipeline.families.text.reinforce.rewards import Games, Steps, apply, parse_stages
from pipeline.families.text.words import checksum
from pipeline.games.replay import IllegalRecord, replay_one
from pipeline.methods.game_table import GameTable
from pipeline.methods.method import Positions
from pipeline.methods.options import DiscountOptions
from pipeline.options import Options, taken
from pipeline.run.chunks import ORIGIN, Columns
from pipeline.run.shards import Shard


def make_examples(
    game: TextGame, shards: Sequence[Shard], wanted: Positions, td_lambda: NDArray[np.float32], config: Options
) -> Columns:
    """The examples of N steps; settle() fills in advantage and target.

    Raises GamesDiffer, with a shard's path, for games that can't be replayed as recorded.
    """
    table = GameTable(shards, wanted)
    rewards = _check(game, table)
    own = {
        name: table.per_move(name, missing)
        for name, missing in (
            ("player", np.uint8(NOBODY)),
            ("notes", np.uint8(0)),
            ("value", np.float32(np.nan)),
            ("flags", np.uint8(0)),
        )
    }
    at = table.ply, table.row
    player = own["player"][at]
    its = (own["player"][:, table.row] == player) & (own["flags"][:, table.row] & 1 == 1)  # [T, N]
    later = its & (np.arange(len(its))[:, None] > table.ply)
    columns: Columns = {name: getattr(wanted, name).astype(dtype) for name, (dtype, _) in ORIGIN.items()}
    answers = table.of_wanted("answer")
    columns["tokens"] = np.concatenate([table.of_wanted("prompt"), answers], axis=1)
    if most := taken(config, TextGatherOptions).max_train_len:
        columns["tokens"][(columns["tokens"] != NONE).cumsum(axis=1) > most] = NONE
    columns["player"], columns["notes"], columns["final"] = player, own["notes"][at], rewards[table.row]
    environments = [game.selected(int(seed)) for seed in table.moves[0]]
    columns["environment"] = np.array(environments, np.uint16)[table.row]
    left = later.sum(axis=0)
    columns["length"] = its.sum(axis=0).astype(np.uint16)
    columns["index"] = (columns["length"] - 1 - left).astype(np.uint16)
    columns["num_tokens"] = (answers != NONE).sum(axis=1).astype(np.uint32)
    columns["value"] = own["value"][at]
    values, has_critic = np.nan_to_num(own["value"][:, table.row]), ~np.isnan(own["value"][at])
    # Σ over steps k ≥ t of (γλ)^(k-t)·(γ·v_{k+1} − v_k), where v_{k+1} is 0 after the last step
    gamma = taken(config, DiscountOptions).discount
    decay = td_lambda * gamma
    baseline, ahead = np.zeros(len(wanted), np.float64), np.zeros(len(wanted), np.float64)
    for ply in range(len(later) - 1, -1, -1):
        here = later[ply] | (table.ply == ply)
        baseline = np.where(here, gamma * ahead - values[ply] + decay * baseline, baseline)
        ahead = np.where(here, values[ply], ahead)
    columns["baseline"] = np.where(has_critic, baseline, 0).astype(np.float32)
    columns["weight"] = (np.where(has_critic, decay, gamma) ** left).astype(np.float32)
    columns["advantage"] = columns["target"] = np.zeros(len(wanted), np.float32)
    return columns


def _check(game: TextGame, table: GameTable) -> NDArray[np.float32]:
    """Replay the games and check every move, observation and reward.

    One game after another: that needs no more of the game's caches of texts and positions than a single game does.
    Returns [G, seats] the rewards, see TextGame.rewards; a record lacks the reward of a seat that never moved.
    """
    final = np.zeros((len(table), game.most_seats), np.float32)
    checks = table.per_move("check", np.uint32(0))
    rewards, players = table.per_move("reward", np.float32(0)), table.per_move("player", np.uint8(NOBODY))
    differ: dict[int, str] = {}  # by row
    for row, (length, shard, index) in enumerate(
        zip(table.lengths.tolist(), table.shard.tolist(), table.game.tolist(), strict=True)
    ):
        try:
            moves = game.recalled(table.moves[:length, row].tolist(), table.shards[shard].said(index))
            for ply, state in enumerate(replay_one(game, moves)):
                seen = int(checks[ply, row]) if ply < length else 0
                if seen and checksum(game.observation(state[0])) != seen:
                    raise IllegalMove(f"ply {ply}: {DIFFERS}")
            if not game.is_over(state)[0]:
                raise IllegalMove(f"ply {length}: the game is not over; wanted a finished game")
            found = final[row] = game.rewards(state)[0]
            its = rewards[:length, row], players[:length, row]
            if any((its[0][its[1] == seat] != found[seat]).any() for seat in range(len(found))):
                differ[row] = f"its rewards aren't those of the environment, {found.tolist()}"
        except IllegalRecord as error:
            differ[row] = f"ply {error.ply}: illegal move: {error}; wanted unchanged records"
        except IllegalMove as error:
            differ[row] = str(error)
    _refuse(table, differ)
    return final


def _refuse(table: GameTable, differ: Mapping[int, str]) -> None:
    """Raise GamesDiffer for a shard that has some of these rows. differ: row → what is wrong with its game."""
    shards = table.shard.tolist()
    for shard in {shards[row]: None for row in differ}:
        games = {int(table.game[row]): problem for row, problem in differ.items() if shards[row] == shard}
        raise GamesDiffer(table.shards[shard].path, games)


def settle(columns: Columns, config: Options) -> Columns:
    """advantage and target of all N examples of a set, by gather's three lists of transformations.

    Raises the errors of parse_stages and apply.
    """
    stages = parse_stages(taken(config, TextGatherOptions))
    # Sort the games by age: shard 0 is the newest.
    order = np.lexsort((columns["game"], -columns["shard"].astype(np.int64)))
    keys = columns["shard"].astype(np.int64)[order] << 32 | columns["game"].astype(np.int64)[order]
    is_first = np.append(True, keys[1:] != keys[:-1]) if len(keys) else np.zeros(0, np.bool_)
    game_of = np.empty(len(keys), np.int64)
    game_of[order] = np.cumsum(is_first) - 1
    firsts = order[is_first]
    finals = apply(
        stages["final"], columns["final"][firsts].astype(np.float64), Games(columns["environment"][firsts]), "final"
    )
    notes = columns["notes"]
    steps = Steps(
        columns["player"], columns["environment"], notes & WELL_FORMED != 0, notes & INVALID_MOVE != 0,
        finals.shape[1] * game_of + columns["player"], columns["index"], columns["length"], columns["num_tokens"],
        columns["final"].astype(np.float64),
    )  # fmt: skip
    final = finals[game_of, columns["player"]] if len(keys) else np.zeros(0)
    rewards = apply(stages["step"], columns["weight"] * final, steps, "step")
    has_critic = ~np.isnan(columns["value"])
    advantages = rewards + columns["baseline"]
    targets = np.where(has_critic, advantages + columns["value"], np.nan)
    advantages = apply(stages["sampling"], advantages, steps, "sampling")
    return {"advantage": advantages.astype(np.float32), "target": targets.astype(np.float32)}
