"""The ``bench`` command: how fast this machine runs each stage, and matches in batches.

May import every package below the command line: it measures them. Nothing imports it but ``main`` and ``benchmarks``.
Never writes outside a temporary folder, and never reads the data of a run.
"""
