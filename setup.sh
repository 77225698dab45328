# Sourced by rl_loop.sh, test.sh and play.sh, never run by itself: the Python environment, and commands that signals reach.
#
#   set_up EXTRAS    makes or repairs .venv and installs what constraints.txt pins, with these extras of pyproject.toml;
#                    sets $python. Does nothing, in milliseconds, when .venv was made from the same constraints.txt and
#                    pyproject.toml and has them.
#   run COMMAND …    runs a command so that Ctrl-C and SIGTERM stop it at once; returns its exit code
#   say TEXT         one line with the time
#
# MUGO_PYTHON=/path/to/python uses an environment of your own instead of .venv; nothing is installed then.

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
    started "$child"
    wait "$child" || code=$?
    child=
    return "$code"
}

started() { :; } # rl_loop.sh notes the process id in its lock file

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
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v python3
        return
    fi
    fail "found $(python3 --version 2>/dev/null || echo 'no python3'); wanted Python 3.11 or newer; install it, e.g. apt-get install python3 python3-venv"
}

set_up() {
    if [[ -n ${MUGO_PYTHON:-} ]]; then
        python=$MUGO_PYTHON
        return
    fi
    python=$root/.venv/bin/python
    local extras=$1 wanted base found=none stamp=$root/.venv/set-up
    wanted=$(printf '%s\n' "$root" | cat - "$root/constraints.txt" "$root/pyproject.toml" | cksum)
    [[ ! -f $stamp ]] || found=$(<"$stamp")
    if [[ -x $python && $found == "$wanted "* && ",${found##* }," == *",$extras,"* ]]; then
        return
    fi
    # An interrupted set-up leaves an environment without a stamp: keep what works of it.
    if ! "$python" -m pip --version >/dev/null 2>&1 || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        base=$(find_python)
        say "making .venv with $("$base" --version)"
        run "$base" -m venv --clear "$root/.venv" || fail "cannot make .venv; is the venv module there? apt-get install python3-venv"
    fi
    rm -f "$stamp"
    say "installing into .venv what constraints.txt pins (about 1 GB, some minutes; only this once)"
    local quiet=()
    [[ -t 2 ]] || quiet=(--quiet)
    run "$python" -m pip install --disable-pip-version-check ${quiet[@]+"${quiet[@]}"} \
        -c "$root/constraints.txt" -e "$root[$extras]" >&2 ||
        fail "the installation failed (see above); when that is mended, run the same command again"
    printf '%s %s\n' "$wanted" "$extras" >"$stamp.new"
    mv "$stamp.new" "$stamp"
}
