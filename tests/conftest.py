"""For all tests: signals arrive as they do in a terminal."""

import signal

# A shell starts background jobs with SIGINT ignored, and whatever they start inherits that: Ctrl-C could not be tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
