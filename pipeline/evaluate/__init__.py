"""The evaluate command: a match between challenger and champion, the promotion decision, and its summary.

Imports matches, ratings (the pool) and what lies below them. Never plays games itself: matches/ does.
"""
