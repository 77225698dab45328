"""The selfplay command: actors play games in threads, and finished games are committed as shards.

Imports methods, ratings.pool (opponents), workers, run and what lies below. Never trains or judges a model, and never
changes a shard once it is written.
"""
