"""The gather command: from the newest games of self-play to sets of chunks of shuffled training examples.

Imports methods, storage and games; knows no network and no other command. Never changes a game shard, and never
touches a finished set except to remove old ones.
"""
