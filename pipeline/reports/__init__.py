"""What people look at: ``show``, ``status``, the short summaries of commands, progress bars, tables of ratings.

Imports everything below the commands, and no command. Reads files and prints through main.py; never writes a file and
never imports torch.
"""
