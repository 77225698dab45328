"""What a training example is and how it is learned: targets, sampling, losses."""

import os

# By default OpenMP's threads spin while they wait for each other. On a machine that does anything else besides, the one
# that is waited for then isn't running: training was three times slower with load beside it. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
