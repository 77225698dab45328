"""Othello in the browser, offered even without a model."""

from pipeline.play.page.stones_page import StonesPage


class OthelloPage(StonesPage):
    specs = ("othello:8",)
