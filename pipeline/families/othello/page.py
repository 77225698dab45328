"""Othello in the browser, offered even without a model."""

from pipeline.play.page.stones import StonesPage


class OthelloPage(StonesPage):
    specs = ("othello:8",)
