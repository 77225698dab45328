"""Gomoku in the browser, offered even without a model."""

from pipeline.play.page.stones_page import StonesPage


class GomokuPage(StonesPage):
    specs = ("gomoku:15",)
