"""Matches between two players: openings, the threads and workers that play them, and the statistics of the results.

Imports methods, players and what lies below them. Never promotes or rates: evaluate/ and ratings/ do.
"""
