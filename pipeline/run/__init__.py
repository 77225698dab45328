"""Every file that MuGo keeps: its name, its format, how it is written atomically and checked on reading.

Imports games (chunks and shards hold positions) and the foundation. Never searches, trains or plays, never imports
torch, and never decides when a file is made: commands do.
"""
