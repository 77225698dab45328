"""Small line games: tic-tac-toe and connect four."""

from pipeline import extensions

EXTENSIONS: extensions.Table = {
    extensions.GAMES: {
        "connect4": "pipeline.families.lines.connect4:ConnectFour.from_spec",
        "tictactoe": "pipeline.families.lines.tictactoe:TicTacToe.from_spec",
    },
    extensions.PAGES: {"lines": "pipeline.families.lines.page:LinesPage"},
    extensions.PRESETS: {"lines": "pipeline.families.lines"},
}
