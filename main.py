"""``python main.py COMMAND``: in a checkout, what ``mugo COMMAND`` is where MuGo is installed. See pipeline/main.py."""

from pipeline.__main__ import run

if __name__ == "__main__":
    run("main.py")
