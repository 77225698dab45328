"""``evaluate``: matches between challengers and champions, promotion decisions, and ``evaluate --watch``.

Imports matches, ratings (the pool) and what lies below them. It never plays games itself: matches/ does.
"""
