"""Matches between two players: openings, threads and worker processes that play them, and what results are worth.

Imports players and what lies below them. Never promotes or rates anybody: evaluate/ and ratings/ do.
"""
