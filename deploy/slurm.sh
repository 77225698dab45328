#!/usr/bin/env bash
# A run on Slurm: task 0 gathers, trains and evaluates, tasks 1 to 8 play. All share the folder RUN.
#
#   cd /path/to/mugo && bash -c '. ./setup.sh; set_up fast'   once, on a shared disk; else the first task sets up .venv
#   RUN=/shared/run sbatch deploy/slurm.sh               from there; submit it again when its time is over
#
# PRESET: go9-tour, or another whose settings go by generations: those that go by a share of the time need ./rl_loop.sh.
# EXTRAS: what its game needs, e.g. fast,text.
#
#SBATCH --job-name=mugo
#SBATCH --array=0-8
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=mugo-%A-%a.log
# --signal: this script gets SIGTERM two minutes before the end and passes it on, so that what is finished is written.
# --requeue: a task whose node fails, or that makes room for others, starts again and goes on.
set -euo pipefail
repository=${MUGO:-${SLURM_SUBMIT_DIR:?submit this script by sbatch from the folder of MuGo}} # Slurm runs a copy of it
source "$repository/setup.sh" # run, say, fail; signals stop what runs
preset=${PRESET:-go9-tour} task=${SLURM_ARRAY_TASK_ID:?run this script by sbatch, as an array}
rounds=${ROUNDS:-0} # of this task; 0: until its time is over
set_up "${EXTRAS:-fast}"
mkdir -p "${RUN:?the folder of the run, on a disk that all nodes share}"
cd "$RUN"
run "$python" "$root/main.py" presets "$preset" --generation 1 >/dev/null || fail "the line above says why" 2

# main COMMAND …: 0, or 75 where there is nothing to do yet; anything else ends this task.
main() {
    local code=0
    run "$python" "$root/main.py" "$1" --preset "$preset" "${@:2}" || code=$?
    ((code == 0 || code == 75)) || fail "$1 failed (exit code $code); the line above says why" "$code"
    return "$code"
}

if ((task == 0)); then
    [[ -e saved_models/best_model ]] || main init
    for ((round = 1; rounds == 0 || round <= rounds; round++)); do
        main evaluate || true # of a model that an earlier task has trained
        until main gather && main train; do run sleep 20; done
        main evaluate || true
    done
else
    until [[ -e saved_models/best_model ]]; do run sleep 5; done
    for ((round = 1; rounds == 0 || round <= rounds; round++)); do
        main selfplay --worker "w$task" || run sleep 20 # 75: this worker plays already
    done
fi
