"""Hex in the browser: a board of stones that hex.js draws, offered even without a model."""

from pipeline.play.page.stones_page import StonesPage, StonesTable


class HexTable(StonesTable):
    board = "hex"  # the name under which hex.js registers it


class HexPage(StonesPage):
    files = ("hex.js", "hex.css")
    specs = ("hex:7", "hex:11")
    table = HexTable
