#!/usr/bin/env bash
# Everything that must hold: ruff, mypy, and the tests, those of kernels with array bounds checked. See --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
next_step="the same command begins again"

usage() {
    cat <<'HELP'
usage: ./test.sh [PYTEST OPTION …]

Sets up .venv if it lacks what tests need, then runs everything that must hold: ruff, mypy, and the tests, those of
kernels with array bounds checked. That takes half an hour or more on two cores. With arguments it runs just pytest with
them, e.g. ./test.sh tests/games -x
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit
fi
cd "$root"
unset PYTHONDONTWRITEBYTECODE # or each of a thousand processes would compile this program anew
set_up fast,serve,test # begins as play.sh's extras do: what this installs is enough for it

if (($#)); then
    run "$python" -m pytest "$@"
    exit
fi

say "ruff"
run "$python" -m ruff check .
say "mypy"
run "$python" -m mypy --num-workers 2
say "mypy, as on macOS" # which lacks functions that Linux has
run "$python" -m mypy --num-workers 2 --platform darwin --cache-dir .mypy_cache/darwin
# Tests of kernels. By default numba doesn't check indexes: reading past an array's end is silent.
kernels=(
    tests/games tests/search tests/families/{lines,othello}
    tests/families/go/test_{any_board,features,groups,heuristic,pass_alive,rules,twin}.py
    tests/families/gomoku/test_{heuristic,rules,twin}.py tests/families/shogi/test_{mate,oracles,shogi}.py
    tests/families/backgammon/test_{backgammon,features,heuristic,notation,stepping,tactical_features}.py
    tests/families/backgammon/td/test_network.py
)
say "tests"
run "$python" -m pytest -n 2 --dist worksteal -ra "${kernels[@]/#/--ignore=}"
say "tests of kernels, with bounds checked"
NUMBA_BOUNDSCHECK=1 run "$python" -m pytest -n 2 --dist worksteal -ra ${kernels[@]+"${kernels[@]}"}
say "all passed"
