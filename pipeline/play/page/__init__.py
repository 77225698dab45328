"""``serve``: a page in the browser on which a person plays a model and looks at what it thinks.

command.py starts it, app.py answers HTTP, limits.py turns away whoever isn't the page, table.py is one game, stones.py
one of stones, analyst.py a model that plays and advises; page.html, page.js, stones.js, common.js, page.css and
icon.svg are the main page, without a build step. Other boards, and pages for themselves, come from families and other
packages: kinds.py says what those are, loading.py finds them.
Imports players and what lies below; Starlette and uvicorn are an extra, so only the function `serve` imports app.py.
Never listens beyond this machine, never writes files.
"""
