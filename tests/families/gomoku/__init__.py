SPECS = (
    "gomoku:9",
    "gomoku:10,exact",
    "gomoku:9,capture",
    "gomoku:11,capture,pairs=3,threes_by_capture=off,breakable=off",
    "gomoku:15",
    "gomoku:19,capture,pairs=7",
)
