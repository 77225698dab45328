"""Output for people: ``show``, ``status``, ``report``, summaries of commands, progress bars, tables of ratings.

May import everything below the commands, but no command. Reads files; main.py prints the text. Only ``report`` writes a
file. Never imports torch.
"""
