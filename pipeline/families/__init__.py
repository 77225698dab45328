"""The families of games: one plug-in in each folder, which can be deleted without harm to the rest.

A family holds everything that is specific to its games: rules, kernels, notation, heuristic, records, protocol,
engines, its method with network, player and options, its part of the page, and its presets. It offers them through
``EXTENSIONS`` in its ``__init__.py`` (see pipeline/extensions.py), as an installed package does through entry points.
A family imports from the core, never from another family; the core never imports a family.
"""
