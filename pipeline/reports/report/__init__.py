"""``report``: an HTML report of a whole run, made from its files.

facts.py reads the run, replays.py chooses and replays games, charts.py draws, document.py assembles the page. The page
loads nothing and sends nothing.
"""
