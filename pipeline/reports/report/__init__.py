"""``report``: a whole run on one page for the browser, from its files alone.

facts.py reads, replays.py chooses games and replays them, charts.py draws, page.py puts it together. Imports what
reports/ may; writes the page and nothing else. The page loads nothing and says nothing to anybody.
"""
