"""``gather``: samples the newest self-play games and writes shuffled training examples as sets of chunks.

Imports methods, run and games; knows no network and no other command. Never changes a game shard. A finished set is
only removed when it is old, or completed if files were lost or damaged.
"""
