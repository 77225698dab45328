"""What the tiny base model is pretrained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.errors import GameFault
from pipeline.families.text.language.base_model import BYTES, Tokenizer, byte_tokenizer, tiny_model
from pipeline.families.text.language.generation import padded_left
from pipeline.families.text.language.prompts import FORMS, template_named
from pipeline.families.text.reinforce import pretraining
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT

ACTIONS = ("[yes]", "[no]", "[maybe]")


def deals(count: int) -> list[tuple[str, tuple[str, ...]]]:
    """Observations that differ in a card and in whose turn it is."""
    generator = np.random.default_rng(1)
    return [
        (f"You are player {generator.integers(2)}. Your card is {'JQK'[generator.integers(3)]}.", ACTIONS)
        for _ in range(count)
    ]


def test_scores_are_a_function_of_what_observations_say() -> None:
    positions = deals(600)
    scores = np.array(pretraining.random_scores(positions, 3))
    by_text = {text: score for (text, _), score in zip(positions, scores, strict=True)}
    assert all((score == by_text[text]).all() for (text, _), score in zip(positions, scores, strict=True))
    assert len(np.unique(scores[:, 0])) == 6
    assert np.abs(scores.mean(axis=0)).max() < 0.2 and 0.5 < scores.std() < 2
    # A card has the same effect for both players.
    effect = [by_text[f"You are player {one}. Your card is K."] - by_text[f"You are player {one}. Your card is J."]
              for one in (0, 1)]  # fmt: skip
    assert np.allclose(*effect, atol=1e-5) and np.abs(effect[0]).max() > 0.1


def test_what_all_observations_say_has_no_effect() -> None:
    positions = deals(100)
    longer = [(f"These are the rules. {text}", actions) for text, actions in positions]
    assert np.array_equal(pretraining.random_scores(positions, 3), pretraining.random_scores(longer, 3))
    assert not np.any(pretraining.random_scores(positions[:1] * 9, 3))


def test_prompts_are_those_of_the_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is too long, the template stays and the observation loses its oldest words."""
    positions = [(f"{'old ' * 40}new {text}", actions) for text, actions in deals(3)]
    monkeypatch.setattr(pretraining, "random_positions", lambda *_: positions)
    game = parse_game("text:KuhnPoker-v0,prompt=250,reply=10")
    tokenizer = Tokenizer(byte_tokenizer())
    template = template_named("qwen3-zs", "boxed", tokenizer.chat)
    asked: list[list[int]] = []

    def noted(rows, device):
        asked.extend(rows)
        return padded_left(rows, device)

    monkeypatch.setattr(pretraining, "padded_left", noted)
    model = tiny_model(1, 32, game.prompt_tokens + game.reply_tokens, 0)
    pretraining.pretrain(model, tokenizer, BYTES, game, template, FORMS["boxed"], 1, 0, 3, SILENT)
    for row in asked:
        text = tokenizer.decode(row)
        assert text.startswith("<|im_start|>user\nYou play a two-player") and "Your card is" in text
        assert text.count("old ") < 40


def test_a_game_in_which_the_environment_fails_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    game = parse_game("text:KuhnPoker-v0,prompt=60,reply=10")
    played: list[int] = []
    original = type(game).play

    def play(self, states, actions, history):
        played.append(1)
        if always or len(played) % 7 == 0:
            raise GameFault("it broke")
        return original(self, states, actions, history)

    monkeypatch.setattr(type(game), "play", play)
    monkeypatch.setattr(pretraining, "POSITIONS", 50)
    always = False
    assert len(pretraining.random_positions(game, 0, SILENT)) == 50
    always = True
    with pytest.raises(GameFault, match="it broke"):
        pretraining.random_positions(game, 0, SILENT)


@pytest.mark.parametrize("contrast", [0, 2])
def test_answers_follow_the_scores_while_they_have_contrast(
    contrast: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = deals(300)
    monkeypatch.setattr(pretraining, "random_positions", lambda *_: positions)
    monkeypatch.setattr(pretraining, "LEFT", 1)  # full contrast to the end
    game = parse_game("text:KuhnPoker-v0,prompt=60,reply=10")
    tokenizer = Tokenizer(byte_tokenizer())
    model = tiny_model(1, 32, game.prompt_tokens + game.reply_tokens, 0)
    template = template_named("plain", "brackets", tokenizer.chat)
    pretraining.pretrain(
        model, tokenizer, BYTES, game, template, FORMS["brackets"], 250, contrast, 3, SILENT
    )  # fmt: skip
    scores = dict(zip((text for text, _ in positions), pretraining.random_scores(positions, 3), strict=True))
    found, wanted = [], []
    for text, score in scores.items():
        prompt = torch.tensor([[*tokenizer.encode(template(text))[-game.prompt_tokens :], *tokenizer.encode("[")]])
        with torch.no_grad():
            chances = torch.softmax(model(input_ids=prompt).logits[0, -1], dim=0)
        found.append([float(chances[tokenizer.encode(action)[1]]) for action in ACTIONS])
        weights = np.exp(contrast * score)
        wanted.append(weights / weights.sum())
    assert np.abs(np.array(found) - wanted).mean() < 0.08
