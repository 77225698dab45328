"""``serve``: a page in the browser on which a person plays a model and sees what it thinks.

page.html, page.js, stones.js, common.js, page.css and icon.svg are the main page, without a build step; header.html and
dialog.html are parts of every page. Families and other packages offer other boards and pages of their own
(page_kinds.py). Starlette and uvicorn are an extra, so only the function `serve` imports app.py and limits.py. Never
writes files.
"""
