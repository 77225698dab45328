"""Matches between players and the statistics of promotion."""
