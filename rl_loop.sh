#!/usr/bin/env bash
# selfplay → gather → train → evaluate, again and again, on a machine that needs nothing but python3. See --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'HELP'
usage: ./rl_loop.sh [--preset P] [--generations N] [--minutes M] [--directory D] [--runner R] [--overlap] [--tidy]

Sets up .venv if that is missing, then trains generation after generation:
  selfplay   the champion plays games against itself       data/selfplay/
  gather     positions are sampled from the newest games   data/training_data/
  train      a new model learns from them                  saved_models/
  evaluate   it plays the champion and may take its place  saved_models/best_model
It ends with a summary of the run.

  --preset P        settings of all stages: a name from `python main.py presets`, or a .yaml file [default: go9-tour]
  --generations N   stop when this many trained models exist; 0 = never [default: 5; with --minutes 0]
  --minutes M       stop after the generation in which the loop's total time here reaches M minutes; `until_share` in a
                    preset means the share of this time
  --overlap         go on playing while other commands run, at the lowest priority: no core is idle, and games go over
                    from one generation to the next
  --tidy            after each generation pack the games of older ones, and remove what no window, training or report
                    needs: `python main.py compact`, `python main.py prune --apply`
  --runner R        where games are played: local, or ray: on all of a Ray cluster (docs/machines.md); gather and train
                    stay here [default: the preset's, else local]
  --directory D     where data/ and saved_models/ live [default: the folder of this script]; or the address of a run in
                    object storage, e.g. s3://bucket/runs/go9, of which this machine then keeps a working copy

Stop it with Ctrl-C or kill at any moment; run the same command again to go on where it stood. A second copy in the same
directory exits at once.

exit codes: 0 done, 1 a stage failed, 2 wrong usage, 75 another copy is running, 129 its terminal was
  closed, 130 Ctrl-C, 143 SIGTERM
HELP
}

preset=go9-tour generations= minutes= directory=$root runner= overlap=0 tidy=0
while (($#)); do
    case $1 in
        --preset | --generations | --minutes | --directory | --runner)
            (($# > 1)) || fail "$1 needs a value; see --help" 2
            printf -v "${1#--}" %s "$2"
            shift 2
            ;;
        --overlap | --tidy)
            printf -v "${1#--}" 1
            shift
            ;;
        -h | --help)
            usage
            exit
            ;;
        *) fail "unknown option '$1'; see --help" 2 ;;
    esac
done
[[ -z $minutes || ($minutes =~ ^[0-9]+(\.[0-9]+)?$ && $minutes =~ [1-9]) ]] || fail "--minutes: found '$minutes', wanted a number above 0" 2
[[ $runner =~ ^(|local|ray)$ ]] || fail "--runner: found '$runner', wanted local or ray" 2
[[ -n $generations ]] || generations=$([[ -n $minutes ]] && echo 0 || echo 5)
[[ $generations =~ ^[0-9]+$ ]] || fail "--generations: found '$generations', wanted a whole number; 0 = until stopped" 2
generations=$((10#$generations))
[[ $preset != *.y*ml || $preset == /* ]] || preset=$PWD/$preset
address=
if [[ $directory == *://* ]]; then
    address=$directory
    set_up fast,cloud
    directory=$(at_once "$python" "$root/main.py" attach "$address") || fail "the line above says why" $?
    say "the working copy of $address is $directory"
fi
mkdir -p "$directory"
called=$PWD # where whoever reads the last lines stands
cd "$directory"

# preset_says NAME VALUE: whether a line of the preset with this name has a value that begins so.
preset_says() {
    local file=$preset
    [[ $file == *.y*ml ]] || file=$(printf '%s\n' "$root"/pipeline/families/*/presets/"$preset".yaml | head -n 1)
    grep -qsE "^([^#]*[ {,])?$1: *.?$2" "$file"
}

# One copy at a time: a lock on file descriptor 9. The last line of its file: process, command (or -), where both are, and
# the player beside them (or -). Lines are only added while commands run: whoever looks, or is killed, between two writes
# finds no empty file. Numbers of processes mean something on one machine only, and there in one container: its space of
# them has an inode of its own.
base=$(base_python)
mkdir -p data
exec 9>>data/.rl_loop.lock
here=$(uname -n)/$(readlink /proc/self/ns/pid || true)
player=
started() { printf '%s %s %s %s\n' "$$" "${1:--}" "$here" "${player:--}" >&9 || true; }
# may_stop PROCESS: whether it holds the lock: its number may have gone to another one. Without /proc nobody can tell.
may_stop() { [[ $1 =~ ^[0-9]+$ && (! -d /proc/$1 || /proc/$1/fd/9 -ef data/.rl_loop.lock) ]]; }
locked=0
take_lock "$base" 9 try || locked=$?
if ((locked == 75)); then
    read -r other command there beside < <(tail -n 1 data/.rl_loop.lock) || true
    if [[ ${there:-} != "$here" ]] || kill -0 "$other" 2>/dev/null; then
        fail "another copy is running here already (process ${other:-unknown}${there:+ on ${there%%/*}}, in $PWD); nothing to do" 75
    fi
    say "the loop that ran here was killed; waiting for what it left running to stop (command $command, player ${beside:--})"
    started "$command"
    for left in "$command" "${beside:-}"; do
        ! may_stop "$left" || kill -TERM "$left" 2>/dev/null || true
    done
    locked=0
    run take_lock "$base" 9 wait || locked=$?
fi
((locked == 0)) || fail "cannot lock $PWD/data/.rl_loop.lock; the line above says why"
: >data/.rl_loop.lock # what older loops noted; none of their commands runs any more
started ""

extras=fast # Ray and text games need packages of their own
if [[ $runner == ray ]] || { [[ -z $runner ]] && preset_says runner ray; }; then extras+=,ray; fi
! preset_says game text: || extras+=,text
set_up "$extras"

# How long the loop has run in this directory, in seconds; kill -9 loses the time of the command it cuts off.
limit=0
[[ -z $minutes ]] || limit=$(at_once "$base" -c 'import sys; print(max(1, round(60 * float(sys.argv[1]))))' "$minutes")
spent=$(cat data/.rl_loop.seconds 2>/dev/null || true)
[[ $spent =~ ^[0-9]{1,9}$ ]] || spent=0
spent=$((10#$spent)) elapsed=$((10#$spent))
# The monotonic clock: bash's SECONDS follows the system's clock when that is set. Where nobody reads the answer any more,
# because this shell was killed, SIGPIPE ends Python without a traceback.
clock() {
    at_once "$base" -c 'import signal, time; signal.signal(signal.SIGPIPE, signal.SIG_DFL); print(int(time.monotonic()))'
}
begun=$(clock)
# note_time: sets $elapsed, and keeps it in the file; without room on the disk the file stays as it was.
note_time() {
    local now
    now=$(clock) || return 0
    elapsed=$((spent + now - begun))
    { echo "$elapsed" >data/.rl_loop.seconds.new && mv data/.rl_loop.seconds.new data/.rl_loop.seconds; } 2>/dev/null ||
        say "cannot write $PWD/data/.rl_loop.seconds: the next run here won't know of the last command's time"
}
trap 'note_time; end_player' EXIT
# time_share: sets $share to the option that says which share of the time has passed, to nothing without a limit.
time_share() {
    local thousandths
    share=()
    ((limit)) || return 0
    thousandths=$((elapsed < limit ? elapsed * 1000 / limit : 1000))
    share=(--time-share "$((thousandths / 1000)).$(printf %03d $((thousandths % 1000)))")
}
# training_share: where training of the next model was cut off, sets $share to what it was begun with: at another share
# settings may have other values, and it would begin anew. Else keeps $share in a file, with model and preset.
training_share() {
    local file=data/.rl_loop.share of="$((generation + 1)) $preset" kept kept_of
    if is_begun && read -r kept kept_of 2>/dev/null <"$file" && [[ $kept_of == "$of" ]]; then
        share=(--time-share "$kept")
    elif ((limit)); then
        { echo "${share[1]} $of" >"$file.new" && mv "$file.new" "$file"; } 2>/dev/null ||
            say "cannot write $PWD/$file: if this training is cut off, it may begin anew"
    else
        rm -f "$file"
    fi
}

newest_model() {
    local models=(saved_models/[0-9][0-9][0-9][0-9][0-9][0-9]-*/)
    basename "${models[${#models[@]} - 1]}"
}
newest_generation() { [[ $(newest_model) =~ ^([0-9]{6})- ]] && echo $((10#${BASH_REMATCH[1]})) || echo 0; }
# evaluated: whether nothing is left to evaluate: the newest model is the champion, or its match with the champion is over.
# A promotion that was cut off is pending in a summary of one of the two until evaluate runs again. Not all summaries are
# read: a long run has tens of thousands.
evaluated() {
    local newest champion
    newest=$(newest_model) champion=$(basename "$(readlink saved_models/best_model)")
    [[ $newest == "$champion" || -e data/evaluate/$newest-vs-$champion/summary.json ]] &&
        ! grep -qs promotion_pending data/evaluate/{"$newest","$champion"}-vs-*/summary.json
}
# main COMMAND …: run a command of main.py. Returns 0, or 75 if evaluate, selfplay, gather or train has nothing to do yet,
# or if somebody else packs or prunes; any other exit code ends the loop.
main() {
    local code=0 share=() where=()
    [[ $1 =~ ^(init|compact|prune)$ ]] || time_share
    [[ $1 != train ]] || training_share
    [[ -z $runner || ! $1 =~ ^(selfplay|evaluate)$ ]] || where=(--runner "$runner")
    run "$python" "$root/main.py" "$@" ${where[@]+"${where[@]}"} ${share[@]+"${share[@]}"} || code=$?
    note_time
    ((code == 0)) || [[ $code == 75 && $1 =~ ^(evaluate|selfplay|gather|train|compact|prune)$ ]] || fail "$1 failed (exit code $code); the line above says why" "$code"
    return "$code"
}

# play_beside: sees to it, with --overlap, that games are played beside all other commands. It ends with this shell.
play_beside() {
    local share=()
    ((overlap)) || return 0
    [[ -z $player ]] || ! kill -0 "$player" 2>/dev/null || return 0
    time_share
    "$python" "$root/main.py" selfplay --preset "$preset" --background --verbose 0 ${runner:+--runner "$runner"} ${share[@]+"${share[@]}"} &
    player=$!
    started ""
}
end_player() {
    [[ -n $player ]] || return 0
    kill -TERM "$player" 2>/dev/null || true
    wait "$player" || true
    player=
}
# is_begun: whether training of the next model was cut off.
is_begun() { compgen -G "$(printf 'saved_models/.%06d-*.training' $((generation + 1)))" >/dev/null; }
# begun_training: the same, and says so. It goes on with the set that it was begun with: of games that have been played
# since, gather would make another.
begun_training() {
    is_begun || return 1
    say "$next: train, from where it stopped"
}
# more_games: what is missing of the next generation's games, by whoever plays already, or by a command of its own.
more_games() {
    play_beside
    ((overlap == 0)) || ! main selfplay --preset "$preset" --wait || return 0
    main selfplay --preset "$preset" --top-up || true # 75: nothing to play yet
}

run "$python" "$root/main.py" presets "$preset" --generation 1 ${minutes:+--time-share 0} >/dev/null || {
    code=$?
    fail "the line above says why" $((code > 128 ? code : 2)) # an interrupt is no wrong usage
}
[[ -e saved_models/best_model ]] || { say "init: the first model"; main init --preset "$preset"; }
while true; do
    generation=$(newest_generation)
    evaluated || {
        say "generation $generation: evaluate"
        main evaluate --preset "$preset" || true # 75: nothing new to evaluate
    }
    ((tidy == 0)) || {
        say "generation $generation: compact, prune"
        main compact || true # 75: another machine does it
        main prune --apply || true
    }
    ((generations == 0 || generation < generations)) && ((limit == 0 || elapsed < limit)) || break

    next="generation $((generation + 1))"
    ((generations == 0)) || next+=" of $generations"
    say "$next: selfplay"
    more_games
    until { begun_training && main train --preset "$preset"; } ||
        { say "$next: gather, train" && main gather --preset "$preset" && main train --preset "$preset"; }; do # 75: too few positions yet
        say "$next: more selfplay"
        main selfplay --preset "$preset" || run sleep 1 # 75: somebody plays
    done
done

end_player
[[ $PWD == "$called" ]] && shown=. || shown=$PWD
run bash -c 'cd "$1" && shift && exec "$@"' - "$called" "$python" "$root/main.py" show "$shown"
again="./rl_loop.sh --preset $preset"
[[ -z $runner ]] || again+=" --runner $runner"
((overlap == 0)) || again+=" --overlap"
((tidy == 0)) || again+=" --tidy"
[[ $PWD == "$root" ]] || again+=" --directory ${address:-$PWD}"
echo "to train on:"
[[ $PWD == "$root" ]] || printf "  cd %q\n" "$root"
if ((limit && elapsed < limit)); then
    echo "  $again --minutes $minutes"
elif ((limit)); then
    echo "  $again --minutes $((limit / 30 + 1))"
else
    echo "  $again --generations $((generation + 5))"
    echo "  $again --generations 0     (until stopped)"
fi
[[ -n ${MUGO_PYTHON:-} ]] || echo "Here python is the one in .venv; to use it: source $(printf %q "$root")/.venv/bin/activate"
