"""Pretraining of the tiny base model: it learns to write legal actions.

A language model with random weights would never write a legal action, so it couldn't learn from rewards. Therefore
``init`` plays random games and trains the base model on their prompts, each followed by a random legal action and the
end token, with cross-entropy on the answers only. It learns nothing about good play. A base model given by the user
isn't pretrained.

A model that only ever sees actions that are equally likely learns to overlook what the observation says, and the small
gradients of rewards hardly teach it to look again. So the actions' chances may depend on the observation's words, at
random: strongly at first, weakly in the end, since --kl-weight keeps to the base's policy. Without the rest the model
forgets what it has learned to read (docs/log, 2026-11-29).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from pipeline.errors import GameFault
from pipeline.families.text.game import SEEDS, TextGame
from pipeline.families.text.language.base_model import Tokenizer
from pipeline.families.text.language.generation import padded_left, positions_of
from pipeline.families.text.language.prompts import Form, Template
from pipeline.games.boards import Boards
from pipeline.progress import Progress

BATCH = 64
LEARNING_RATE = 3e-3
POSITIONS = 3_000  # of random games, at most
MOST_FAULTS = 10  # of games in a row: then the environment is broken
WARMUP = 0.1  # share of the steps
FADED, LEFT = 2 / 3, 1 / 6  # from this share of the steps on, this share of the contrast is left
FEATURES = 4096  # into which pairs of words are hashed
DIMENSIONS = 32  # of the random vectors of observations and actions
_WORD = re.compile(r"[^\W\d_]+|\d+|\S")

Position = tuple[str, tuple[str, ...]]
"""An observation, and its legal actions or suggestions."""


def random_positions(game: TextGame, seed: int, progress: Progress) -> list[Position]:
    """Observations from random games, each with its legal actions, or with suggestions where actions are texts.

    A game in which the environment fails ends there. Raises GameFault if it fails in MOST_FAULTS games in a row.
    """
    generator = np.random.default_rng([seed, 0x9AD])
    row = np.array([0])
    found: list[Position] = []
    boards = Boards(game, 1)
    progress.start("playing at random", POSITIONS, "positions")
    faults = 0
    while len(found) < POSITIONS:
        boards.new_games(row)
        try:
            boards.advance(row, np.array([generator.integers(SEEDS)], np.int32))
            while not boards.over(row)[0]:
                state = boards.states[0]
                listed = game.listed(state)
                found.append((game.observation(state), listed))
                progress.advance(int(len(found) <= POSITIONS))  # the last game may exceed POSITIONS
                boards.advance(row, np.array([game.actions(state)[generator.integers(len(listed))]], np.int32))
            faults = 0
        except GameFault:
            faults += 1
            if faults == MOST_FAULTS:
                raise
    progress.finish()
    return found[:POSITIONS]


def random_scores(positions: Sequence[Position], seed: int) -> list[NDArray[np.float64]]:
    """For each position a score for each of its actions: random, but a function of the observation and the action.

    It is linear in which pairs of neighbouring words the observation has, so that the same words have the same effect
    everywhere; what all observations say has none, and pairs that always come together count once. The standard
    deviation over positions and actions is about 1.
    """
    generator = np.random.default_rng([seed, 0x9AF])
    has_pair = np.zeros((len(positions), FEATURES), np.bool_)
    for row, (text, _) in zip(has_pair, positions, strict=True):
        words = _WORD.findall(text)
        row[[zlib.crc32(f"{a} {b}".encode()) % FEATURES for a, b in pairwise(words)]] = True
    said = has_pair[:, has_pair.any(axis=0) & ~has_pair.all(axis=0)]
    facts = np.unique(said, axis=1).astype(np.float32)
    told = (facts - facts.mean(axis=0)) @ generator.standard_normal((facts.shape[1], DIMENSIONS), np.float32)
    told /= max(float(told.std()), 1e-6) * DIMENSIONS**0.5
    vectors: dict[str, NDArray[np.float64]] = {}
    scores = []
    for one, (_, listed) in zip(told, positions, strict=True):
        for action in listed:
            if action not in vectors:
                vectors[action] = generator.standard_normal(DIMENSIONS)
        scores.append(np.array([one @ vectors[action] for action in listed]))
    return scores


def pretrain(
    model: Any, tokenizer: Tokenizer, end: int, game: TextGame, template: Template, form: Form, steps: int,
    contrast: float, seed: int, progress: Progress,
) -> float:  # fmt: skip
    """Train all weights of the model in place; its answers get this form. Returns the last loss, in nats per token.

    contrast: by how much the logarithms of the actions' chances differ at first, their standard deviation
    """
    positions = random_positions(game, seed, progress)
    scores = random_scores(positions, seed)
    shown = [tokenizer.harmless(text) for text, _ in positions]
    prompts = [tokenizer.prompt(template(text), text, game.prompt_tokens) for text in shown]
    most = game.reply_tokens - 1
    answers = [[[*tokenizer.encode(form.write(action))[:most], end] for action in listed] for _, listed in positions]
    generator = np.random.default_rng([seed, 0x9AE])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    model.train()
    loss = torch.zeros(())
    progress.start("pretraining", steps, "steps")
    for step in range(steps):
        chosen = generator.integers(len(prompts), size=BATCH)
        share = (step + 1) / steps
        sharpness = contrast * (LEFT + (1 - LEFT) * max(0.0, 1 - share / FADED))
        picked = [answers[i][generator.choice(len(answers[i]), p=softmax(sharpness * scores[i]))] for i in chosen]
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
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, share / WARMUP, 2 * (1 - share) + 0.05)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress.advance()
    progress.finish()
    model.eval()
    return float(loss.detach())
