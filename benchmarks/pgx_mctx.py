"""How fast do Pgx and mctx search on this machine, compared with ``python main.py bench``?

    python benchmarks/pgx_mctx.py --network-size b4c64 --games 256 --readouts 32 --seconds 20 [--precision bfloat16]

Needs an environment of its own (``pip install jax pgx mctx``); MuGo doesn't use these packages. Prints one line of
JSON: simulations per second of PUCT search (mctx.muzero_policy) on 9×9 Go with a residual network of this size. All
games are one batch, moves are sampled from the visits, and finished games are replaced. Takes a minute.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import pgx


def init_network(
    key: jax.Array, blocks: int, channels: int, planes: int, actions: int, precision: str
) -> dict[str, Any]:
    keys = iter(jax.random.split(key, 4 + 2 * blocks))

    def weights(*shape: int) -> jax.Array:
        fan_in = shape[0] if len(shape) == 2 else shape[0] * shape[1] * shape[2]
        return (jax.random.normal(next(keys), shape) * (2 / fan_in) ** 0.5).astype(precision)

    return {
        "stem": weights(3, 3, planes, channels),
        "blocks": [(weights(3, 3, channels, channels), weights(3, 3, channels, channels)) for _ in range(blocks)],
        "policy": weights(channels, 2),
        "policy_out": weights(2 * 81, actions),
        "value": weights(channels, 1),
    }


def network(params: dict[str, Any], planes: jax.Array) -> tuple[jax.Array, jax.Array]:
    def conv(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x = jax.nn.relu(conv(planes.astype(params["stem"].dtype), params["stem"]))
    for first, second in params["blocks"]:
        x = jax.nn.relu(x + conv(jax.nn.relu(conv(x, first)), second))
    logits = jax.nn.relu(x @ params["policy"]).reshape(len(x), -1) @ params["policy_out"]
    return logits.astype(jnp.float32), jnp.tanh((x @ params["value"]).mean((1, 2, 3)).astype(jnp.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network-size", default="b4c64")
    parser.add_argument("--games", type=int, default=256)
    parser.add_argument("--readouts", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    options = parser.parse_args()
    blocks, channels = map(int, re.fullmatch(r"b(\d+)c(\d+)", options.network_size).groups())
    env = pgx.make("go_9x9")
    params = init_network(jax.random.PRNGKey(0), blocks, channels, 17, env.num_actions, options.precision)
    initial, step = jax.vmap(env.init), jax.vmap(env.step)

    def recurrent(params: Any, key: jax.Array, action: jax.Array, state: Any) -> tuple[Any, Any]:
        mover = state.current_player
        state = step(state, action)
        logits, value = network(params, state.observation)
        logits = jnp.where(state.legal_action_mask, logits, jnp.finfo(logits.dtype).min)
        rows = jnp.arange(options.games)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[rows, mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    @jax.jit
    def move(state: Any, key: jax.Array) -> Any:
        search_key, reset_key = jax.random.split(key)
        logits, value = network(params, state.observation)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        found = mctx.muzero_policy(
            params, search_key, root, recurrent, options.readouts, invalid_actions=~state.legal_action_mask
        )
        state = step(state, found.action)
        fresh = initial(jax.random.split(reset_key, options.games))
        over = state.terminated | state.truncated
        return jax.tree.map(
            lambda old, new: jnp.where(over.reshape((-1,) + (1,) * (old.ndim - 1)), new, old), state, fresh
        )

    key = jax.random.PRNGKey(1)
    state = initial(jax.random.split(key, options.games))
    state = jax.block_until_ready(move(state, key))
    moves, started = 0, time.perf_counter()
    while time.perf_counter() - started < options.seconds:
        key, move_key = jax.random.split(key)
        state = jax.block_until_ready(move(state, move_key))
        moves += 1
    rate = moves * options.games * options.readouts / (time.perf_counter() - started)
    named = {"system": "pgx+mctx", "network_size": options.network_size, "precision": options.precision}
    print(json.dumps({**named, "games": options.games, "simulations_per_second": rate}))


if __name__ == "__main__":
    main()
