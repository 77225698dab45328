"""The selfplay command: actors play games in threads, and finished games are committed as shards.

Imports methods (how games are played), ratings.pool (opponents), storage and what lies below. Never trains or judges a
model, and never changes a shard once it is written.
"""
