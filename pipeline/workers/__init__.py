"""Worker pools: they play numbered games in processes of this machine or in actors of a Ray cluster.

Imports run and what lies below it. Never looks into a game: it hands out numbers and collects outcomes. The maker of
the job interprets them and writes the files.
"""
