SPECS = ("tictactoe", "connect4")
