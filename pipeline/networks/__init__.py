"""Neural networks: architectures and weights, the training module, and batched inference on the fastest backend.

Imports games and the foundation; torch too, but only for training and for its own inference backends.
Never reads or writes a model, searches or plays: weights come and go as arrays.
"""
