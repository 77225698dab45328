# Sourced by rl_loop.sh, test.sh and play.sh, never run by itself: the Python environment, and commands that signals reach.
#
#   set_up EXTRAS    makes or repairs .venv and installs what constraints.txt pins, with these extras of pyproject.toml;
#                    sets $python. Does nothing, in milliseconds, when .venv was made from the same constraints.txt and
#                    pyproject.toml and has them.
#   run COMMAND …    runs a command so that Ctrl-C and SIGTERM stop it at once; returns its exit code
#   at_once COMMAND … runs a command of milliseconds, for which Ctrl-C waits
#   say TEXT         one line with the time
#
# MUGO_PYTHON=/path/to/python uses an environment of your own instead of .venv; nothing is installed then.

[[ ${MUGO_PYTHON:-} != */* || $MUGO_PYTHON == /* ]] || MUGO_PYTHON=$PWD/$MUGO_PYTHON # scripts change the folder
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
child=
next_step="run the same command again to go on where it stood" # said when a signal has stopped everything

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    exit "${2:-1}"
}

# In the background plus wait, because bash runs a trap only after a foreground command has ended.
run() {
    local code=0
    "$@" &
    child=$!
    wait "$child" || code=$?
    child=
    return "$code"
}

# at_once COMMAND …: a command of milliseconds. Ctrl-C, which a terminal sends to it as well, waits for its end: Python
# prints a traceback if it is interrupted while it starts.
at_once() { (trap '' INT && exec "$@"); }

stop() {
    trap '' INT TERM HUP
    if [[ -n $child ]]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" || true
    fi
    say "stopped; $next_step"
    exit "$1"
}

trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

# The newest Python that the pinned versions have wheels for, else any that is new enough.
find_python() {
    local name
    for name in python3 python3.13 python3.12 python3.11; do
        if at_once "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    for name in python3 python3.14; do # newer ones: some packages may lack wheels
        if at_once "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    fail "found $(python3 --version 2>/dev/null || echo 'no python3'); wanted Python 3.11 or newer; install it, e.g. apt-get install python3 python3-venv"
}

# The Python that works before there is an environment.
base_python() {
    if [[ -z ${MUGO_PYTHON:-} ]]; then
        find_python
    elif at_once "$MUGO_PYTHON" -c '' >/dev/null 2>&1; then
        printf '%s\n' "$MUGO_PYTHON"
    else
        fail "MUGO_PYTHON: found no Python that runs at '$MUGO_PYTHON'; wanted the path of one; correct it or unset it"
    fi
}

# take_lock PYTHON DESCRIPTOR try|wait: lock the open file. The commands started after that inherit the lock: it is held
# until the last of them has ended, even if this script is killed. Returns 75 if another process holds it; any other code
# is a failure, which it names. (macOS has no flock command.)
take_lock() {
    at_once "$1" -c '
import fcntl, sys
try:
    fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX | (fcntl.LOCK_NB if sys.argv[2] == "try" else 0))
except BlockingIOError:
    sys.exit(75)
except OSError as error:
    sys.exit(f"no lock: {error}")' "$2" "$3"
}

set_up() {
    if [[ -n ${MUGO_PYTHON:-} ]]; then
        python=$(base_python)
        return
    fi
    python=$root/.venv/bin/python
    local extras=$1 wanted base code=0 stamp=$root/.venv/set-up
    wanted=$(printf '%s\n' "$root" | cat - "$root/constraints.txt" "$root/pyproject.toml" | cksum)
    ! is_set_up || return 0
    base=$(find_python)
    exec 8>>"$root/.venv.lock"
    take_lock "$base" 8 try || code=$?
    if ((code == 75)); then
        say "another command is setting up .venv; waiting for it"
        code=0
        run take_lock "$base" 8 wait || code=$?
    fi
    ((code == 0)) || fail "cannot lock $root/.venv.lock; the line above says why"
    is_set_up || install
    exec 8>&-
}

# The next two know set_up's variables.
is_set_up() {
    local found=none extra
    [[ ! -f $stamp ]] || found=$(<"$stamp")
    [[ -x $python && $found == "$wanted "* ]] || return 1
    # A newer Python in the system's place doesn't find what was installed for the old one.
    at_once "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("typer") is None)' 2>/dev/null || return 1
    for extra in ${extras//,/ }; do
        [[ ",${found##* }," == *",$extra,"* ]] || return 1
    done
}

install() {
    # What other commands have installed stays: they would have to install it again.
    local found= extra what="what constraints.txt pins (1.6 GB, more where torch comes with CUDA; only this once)"
    [[ ! -f $stamp ]] || found=$(<"$stamp")
    if [[ $found == "$wanted "* ]]; then
        what=
        for extra in ${extras//,/ }; do
            [[ ",${found##* }," == *",$extra,"* ]] || what+=${what:+, }$extra
        done
        what="what it lacks: $what"
    fi
    for extra in $(printf '%s' "${found##* }" | tr , ' '); do
        [[ ",$extras," == *",$extra,"* ]] || extras+=,$extra
    done
    # An interrupted set-up leaves an environment without a stamp: keep what works of it.
    if ! "$python" -m pip --version >/dev/null 2>&1 || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        say "making .venv with $("$base" --version)"
        run "$base" -m venv --clear "$root/.venv" || fail "cannot make .venv; is the venv module there? apt-get install $(basename "$base")-venv"
    fi
    rm -f "$stamp"
    say "installing into .venv $what"
    local quiet=()
    [[ -t 2 ]] || quiet=(--quiet)
    run "$python" -m pip install --disable-pip-version-check ${quiet[@]+"${quiet[@]}"} \
        -c "$root/constraints.txt" -e "$root[$extras]" >&2 ||
        fail "the installation failed (see above); when that is mended, run the same command again"
    printf '%s %s\n' "$wanted" "$extras" >"$stamp.new"
    mv "$stamp.new" "$stamp"
}
