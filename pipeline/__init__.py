"""MuGo: self-play training pipelines for board games, as four commands over files."""

import os

__version__ = "0.1.0"

# By default OpenMP's threads spin while they wait for each other. Where something else runs on the same cores, every
# operation of torch then waits for a spinner that lost its core: a training step of 148 ms took 1,270 ms (two
# cores, three other processes). The variable must be set before torch is imported; a value set by the user stays.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# By default MKL's matrix products depend on where in memory an array happens to begin, so that the same training gave
# other weights on processors with AMX (7 of 12 trials). Strict mode costs nothing that could be measured. Set likewise.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
