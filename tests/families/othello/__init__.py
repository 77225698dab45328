SPECS = ("othello:6", "othello:8")
