"""``serve``: a page in the browser on which a person plays a model and looks at what it thinks.

command.py starts it, app.py answers HTTP, limits.py turns away whoever isn't the page, table.py is one game, stones.py
and shogi.py what depends on its board, analyst.py a model that plays and advises; page.html, page.js, stones.js,
shogi.js, common.js, page.css and icon.svg are the page, without a build step. Backgammon's page is gammon.*.
Imports protocols and what lies below; Starlette and uvicorn are an extra, so only the function `serve` imports app.py.
Never listens beyond this machine, never writes files.
"""
