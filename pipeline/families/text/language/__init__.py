"""Language models: a base model in Hugging Face's format with small LoRA adapters.

base_model.py  the base model, and the tiny one that init makes
adapters.py    LoRA on linear layers, with adapters that can be swapped
prompts.py     prompts from observations, actions from answers
generation.py  batched answers in this process
server.py      batched answers from a separate process
vllm.py        batched answers by vLLM
network.py     the base model with an adapter as a network to train
players.py     base models on disk, players
"""
