"""Torch modules and batched inference."""
