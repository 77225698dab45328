"""Hex for MuGo: pyproject.toml lists what this package offers."""
