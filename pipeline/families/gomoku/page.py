"""Gomoku in the browser, offered even without a model."""

from pipeline.play.page.stones import StonesPage


class GomokuPage(StonesPage):
    specs = ("gomoku:15",)
