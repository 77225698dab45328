"""``serve``: a page in the browser on which a person plays a model and sees what it thinks.

command.py starts the server, app.py answers HTTP, limits.py refuses requests from elsewhere, table.py is one game,
stones.py one of stones, analyst.py a model that plays and advises, later.py what is loaded when it is wanted.
page.html, page.js, stones.js, common.js, page.css and icon.svg are the main page, without a build step; header.html and
dialog.html are parts of every page. Families and other packages offer other boards and pages of their own: kinds.py
says what those are, loading.py finds them.
Imports players and what lies below. Starlette and uvicorn are an extra, so only the function `serve` imports app.py and
limits.py.
Listens beyond this machine only with --host, and then lets nobody in without a token. Never writes files.
"""
