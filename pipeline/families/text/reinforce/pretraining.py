"""Pretraining of the tiny base model: it learns to write legal actions, all equally likely.

A language model with random weights would never write a legal action, so it couldn't learn from rewards. Therefore
``init`` plays random games and trains the base model on their prompts, each followed by a random legal action and the
end token, with cross-entropy on the answers only. It learns nothing about good play. A base model given by the user
isn't pretrained.

Axes: B batch, L tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pipeline.families.text.game import SEEDS, TextGame
from pipeline.families.text.language.generation import padded_left, positions_of
from pipeline.families.text.language.prompts import Form, Template
from pipeline.games.boards import Boards
from pipeline.progress import Progress

BATCH = 64
LEARNING_RATE = 3e-3
POSITIONS = 3_000  # of random games, at most
WARMUP = 0.1  # share of the steps


def random_positions(game: TextGame, seed: int, progress: Progress) -> list[tuple[str, tuple[str, ...]]]:
    """Observations from random games, each with its legal actions, or with suggestions where actions are texts."""
    generator = np.random.default_rng([seed, 0x9AD])
    row = np.array([0])
    found: list[tuple[str, tuple[str, ...]]] = []
    boards = Boards(game, 1)
    progress.start("playing at random", POSITIONS, "positions")
    while len(found) < POSITIONS:
        boards.new_games(row)
        boards.advance(row, np.array([generator.integers(SEEDS)], np.int32))
        while not boards.over(row)[0]:
            state = boards.states[0]
            listed = game.listed(state)
            found.append((game.observation(state), listed))
            progress.advance(int(len(found) <= POSITIONS))  # the last game may exceed POSITIONS
            boards.advance(row, np.array([game.actions(state)[generator.integers(len(listed))]], np.int32))
    progress.finish()
    return found[:POSITIONS]


def pretrain(
    model: Any, encode: Any, end: int, game: TextGame, template: Template, form: Form, steps: int, seed: int,
    progress: Progress,
) -> float:  # fmt: skip
    """Train all weights of the model in place; its answers get this form. Returns the last loss, in nats per token."""
    positions = random_positions(game, seed, progress)
    prompts = [encode(template(text))[-game.prompt_tokens :] for text, _ in positions]
    most = game.reply_tokens - 1
    answers = [[[*encode(form.write(action))[:most], end] for action in listed] for _, listed in positions]
    generator = np.random.default_rng([seed, 0x9AE])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    model.train()
    loss = torch.zeros(())
    progress.start("pretraining", steps, "steps")
    for step in range(steps):
        chosen = generator.integers(len(prompts), size=BATCH)
        picked = [answers[i][generator.integers(len(answers[i]))] for i in chosen]
        ids, mask = padded_left([prompts[i] + answer for i, answer in zip(chosen, picked, strict=True)], "cpu")
        longest = max(map(len, picked))
        is_answer = torch.zeros(BATCH, longest, dtype=torch.bool)
        for row, answer in enumerate(picked):
            is_answer[row, longest - len(answer) :] = True
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions_of(mask), use_cache=False,
            logits_to_keep=longest + 1,
        )  # fmt: skip
        logits, wanted = output.logits[:, :-1], ids[:, -longest:]
        loss = torch.nn.functional.cross_entropy(logits[is_answer], wanted[is_answer])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        share = (step + 1) / steps
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, share / WARMUP, 2 * (1 - share) + 0.05)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress.advance()
    progress.finish()
    model.eval()
    return float(loss.detach())
