"""Numbers over the course of a run: the tracker through which all commands report them, and the sinks that keep them.

Imports ``run`` and the modules beside the packages. Never decides anything, and never stops a command: a sink that
fails is left out with one warning.
"""
