"""Language models that answer in words: a base model in Hugging Face's format, and small LoRA adapters on it.

base.py        what a base model is, and the tiny one that init makes
adapters.py    LoRA on any linear layer, exchanged in no time
prompts.py     how an observation becomes a prompt, and an action is read from an answer
generation.py  answers for many prompts at once
server.py      the same from a process of its own
vllm.py        the same by vLLM, where it is installed
network.py     the same model as a network that is trained
"""
