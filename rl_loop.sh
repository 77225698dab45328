#!/usr/bin/env bash
# selfplay → gather → train → evaluate, again and again, on a machine that needs nothing but python3. See --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'HELP'
usage: ./rl_loop.sh [--preset P] [--generations N] [--directory D]

Sets up .venv if that is missing, then trains generation after generation:
  selfplay   the champion plays games against itself       data/selfplay/
  gather     positions of the newest games are drawn       data/training_data/
  train      a new model learns from them                  saved_models/
  evaluate   it plays the champion and may take its place  saved_models/best_model
and ends with a summary.

  --preset P        settings of all stages: a name from `python main.py presets`, or a .yaml file [default: go9-tour]
  --generations N   go on until this many trained models exist; 0 = until stopped [default: 5]
  --directory D     where data/ and saved_models/ live [default: the folder of this script]

Stop it with Ctrl-C or kill at any moment; the same command goes on where it stood. A second copy in the same directory
exits at once.

exit codes: 0 done, 1 a stage failed, 2 wrong usage, 75 another copy is running, 130 Ctrl-C, 143 SIGTERM
HELP
}

preset=go9-tour generations=5 directory=$root
while (($#)); do
    case $1 in
        --preset | --generations | --directory)
            (($# > 1)) || fail "$1 needs a value; see --help" 2
            printf -v "${1#--}" %s "$2"
            shift 2
            ;;
        -h | --help)
            usage
            exit
            ;;
        *) fail "unknown option '$1'; see --help" 2 ;;
    esac
done
[[ $generations =~ ^[0-9]+$ ]] || fail "--generations: found '$generations', wanted a whole number; 0 = until stopped" 2
generations=$((10#$generations))
[[ $preset != *.y*ml || $preset == /* ]] || preset=$PWD/$preset
mkdir -p "$directory"
cd "$directory"

# One copy at a time. The lock is on file descriptor 9, which every command started here inherits: it is held until the
# last of them has ended, even if this script is killed.
mkdir -p data
exec 9>>data/.rl_loop.lock
base=${MUGO_PYTHON:-$(find_python)}
lock() { "$base" -c 'import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | int(sys.argv[1]))' "$1"; }
started() { printf '%s %s\n' "$$" "$1" >data/.rl_loop.lock; }
if ! lock 4 2>/dev/null; then # 4 = LOCK_NB
    read -r other command <data/.rl_loop.lock || true
    if [[ -z ${other:-} ]] || kill -0 "$other" 2>/dev/null; then
        fail "another copy is running here already (process ${other:-unknown}, in $PWD); nothing to do" 75
    fi
    say "the loop that ran here was killed; stopping the command it left behind (process ${command:-unknown})"
    started "${command:-}"
    [[ -z ${command:-} ]] || kill -TERM "$command" 2>/dev/null || true
    run lock 0
fi
started ""

set_up fast

newest_generation() {
    local models=(saved_models/[0-9][0-9][0-9][0-9][0-9][0-9]-*/) name
    name=$(basename "${models[-1]}")
    [[ $name =~ ^([0-9]{6})- ]] && echo $((10#${BASH_REMATCH[1]})) || echo 0
}
# main COMMAND …: run a command of main.py. Returns 0, or 75 if there is nothing to do yet (but for init and show); any
# other exit code ends the loop.
main() {
    local code=0
    run "$python" "$root/main.py" "$@" || code=$?
    ((code == 0)) || [[ $code == 75 && $1 =~ ^(evaluate|selfplay|gather|train)$ ]] || fail "$1 failed (exit code $code); the line above says why" "$code"
    return "$code"
}

[[ -e saved_models/best_model ]] || { say "init: a model with random weights"; main init --preset "$preset"; }
while true; do
    generation=$(newest_generation)
    say "generation $generation: evaluate"
    main evaluate --preset "$preset" || true # 75: nothing new to evaluate
    ((generations == 0 || generation < generations)) || break

    next="generation $((generation + 1))"
    ((generations == 0)) || next+=" of $generations"
    say "$next: selfplay"
    main selfplay --preset "$preset" --top-up || true # 75: all its games are there
    say "$next: gather, train"
    until main gather --preset "$preset" && main train --preset "$preset"; do # 75: too few positions yet
        say "$next: more selfplay"
        main selfplay --preset "$preset"
    done
done

[[ $PWD == "$root" ]] && shown=. || shown=$PWD
run "$python" "$root/main.py" show "$shown"
again="./rl_loop.sh --preset $preset"
[[ $PWD == "$root" ]] || again+=" --directory $PWD"
cat <<END
  $again --generations $((generation + 5))
  $again --generations 0     (until stopped)
END
[[ -n ${MUGO_PYTHON:-} ]] || echo "where python is that of .venv: source .venv/bin/activate"
