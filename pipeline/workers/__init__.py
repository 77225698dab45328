"""Whoever plays numbered games elsewhere: worker processes of this machine, and actors of a Ray cluster.

Imports storage and what lies below it. Never knows what a game is: it hands numbers out and takes outcomes in; who made
the job says what they mean, and writes the files.
"""
