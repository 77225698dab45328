#!/usr/bin/env bash
# Play against a model in the browser, on a machine that needs nothing but python3. See --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
next_step="the games on the page have ended with it"

usage() {
    cat <<'HELP'
usage: ./play.sh [--model M]... [--port P] [--host H] [--no-browser]

Sets up .venv if that is missing, then serves a page to play on and opens it in the browser.

  --model M      directory of a model to play against; may be given several times [default: saved_models/best_model,
                 if there is one, and the trained models that come with MuGo, pretrained/*]
  --port P       port to serve the page at [default: 8000]
  --host H       address of this machine to serve it at [default: 127.0.0.1, for this machine only]; 0.0.0.0 lets in a
                 phone on the same network, by the address with a token that is printed
  --no-browser   only say where the page is

Stop it with Ctrl-C.

exit codes: 1 the page can't be served, 2 wrong usage, 129 its terminal was closed, 130 Ctrl-C, 143 SIGTERM
HELP
}

options=()
while (($#)); do
    [[ $1 != --*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
    case $1 in
        --model)
            [[ -n ${2:-} ]] || fail "$1 needs a value; see --help" 2
            model=$2
            [[ $model == /* ]] || model=$PWD/$model
            [[ -d $model ]] || fail "--model: no directory $model; wanted one with a model" 2
            options+=("$1" "$model")
            shift 2
            ;;
        --port | --host)
            (($# > 1)) || fail "$1 needs a value; see --help" 2
            [[ $1 == --host || $2 =~ ^[0-9]+$ ]] || fail "--port: found '$2'; wanted a number, e.g. 8000" 2
            options+=("$1" "$2")
            shift 2
            ;;
        --no-browser | --no_browser)
            options+=("$1")
            shift
            ;;
        -h | --help)
            usage
            exit
            ;;
        *) fail "unknown option '$1'; see --help" 2 ;;
    esac
done
cd "$root"
set_up fast,serve
run "$python" main.py serve ${options[@]+"${options[@]}"}
