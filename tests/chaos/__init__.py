"""Faults: commands as real processes that are killed, starved of disk, slowed down, run twice, shown a wrong clock.

faults.py   what goes wrong inside a process, and where: at the n-th write, rename, link, unlink or fsync
server.py   processes in a tenth of a second: a server that has imported everything forks one per command
client.py   asks the server for a process and speaks for it: rl_loop.sh runs it as if it were python
stages.py   what is run, on which files, and what it must end with
trials.py   one fault: before, after, after running again
__main__.py the long mode: python -m tests.chaos --kills 500
"""
