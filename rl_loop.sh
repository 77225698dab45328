#!/usr/bin/env bash
# Trains generation after generation, on a machine that needs nothing but python3: sets up .venv, then calls
# `main.py loop`. See --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'HELP'
usage: ./rl_loop.sh [--game G | --preset P] [--minutes M] [--generations N] [--directory D] [--overlap] [--tidy]
                    [--runner R]

Sets up .venv if that is missing, then trains generation after generation:
  selfplay   the champion plays games against itself       data/selfplay/
  gather     positions are sampled from the newest games   data/training_data/
  train      a new model learns from them                  saved_models/
  evaluate   it plays the champion and may take its place  saved_models/best_model
It ends with a summary of the run, and with how to play against its player.

  --game G          train this game, with settings that fit it, this machine and the minutes [default: go:9,komi=7]
  --preset P        settings of all stages instead: a name from `python main.py presets`, or a .yaml file
  --minutes M       stop after the generation in which the loop's total time reaches M minutes [default with a game: 15]
  --generations N   stop when this many models have been trained; 0 = never [default: 5; 0 with --game or --minutes]
  --directory D     where data/ and saved_models/ live [default: the folder of this script]

`python main.py loop --help` explains all options; each may be given here.
Stop it with Ctrl-C or kill at any moment; the same command continues where it stood.

exit codes: 0 done, 1 a command failed, 2 wrong usage, 75 another loop is running there, 130 Ctrl-C, 143 SIGTERM
HELP
}

for word; do
    case $word in
        -h | --help)
            usage
            exit
            ;;
    esac
done
set_up fast
extras=$(at_once "$python" "$root/main.py" loop --extras "$@") || exit $? # what it needs beyond that
[[ -z $extras ]] || set_up "fast,$extras"
exec "$python" "$root/main.py" loop --directory "$root" "$@"
