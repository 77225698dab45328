"""One trial: a stage is disturbed some times, run to its end, and compared with a run that nobody disturbed.

After each fault: the exit code is one that is documented, nothing that was committed is missing, `verify` finds nothing
but what the killed process left over. After running again: nothing is left over either, nothing that was there is gone,
no game stands twice, and the folder holds the same as after an undisturbed run.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import FileError
from pipeline.run import layout
from pipeline.run.matches import list_matches
from pipeline.run.models import list_models
from tests.chaos.faults import ERRORS, POINTS, SIGNALS, Fault
from tests.chaos.stages import PRESET, STAGES, Stage, committed, copy, games_of, make_base, outcome
from tests.chaos.workshop import Done, Workshop

CODES = {0, 1, 2, 75, 130, 143}
ENDS_BY_SIGNAL = {"kill": {-signal.SIGKILL}, "term": {143}, "int": {130}}
LEFT_OVER = "left over"
LOOP = "loop"
VERIFY = "verify"  # says why it fails in lines of its own


@dataclass
class Trial:
    """What happened in one. faults: names of those that struck; recovery: seconds of the run that ended it."""

    stage: str
    seed: int
    faults: list[str] = field(default_factory=list)
    missed: int = 0  # processes that had ended before the fault
    lost: int = 0
    twice: int = 0
    wrong: int = 0  # promotions
    failures: list[str] = field(default_factory=list)
    recovery: float = 0.0

    def fail(self, text: str) -> None:
        self.failures.append(text)


@dataclass
class Reference:
    """A stage undisturbed: its base, what it ends with, how long it takes, how many fault points it has."""

    stage: Stage
    base: Path
    outcome: dict[str, object]
    games: dict[int, str]
    seconds: float
    points: int


class Bench:
    """Bases and references of all stages, made when they are first needed, and the folder that trials run in."""

    def __init__(self, workshop: Workshop, folder: Path) -> None:
        self.workshop, self.folder = workshop, folder
        self._references: dict[str, Reference] = {}
        self._loop: Done | None = None

    def reference(self, name: str) -> Reference:
        if name not in self._references:
            stage = STAGES[name]
            base = make_base(stage, self.folder / "bases" / name, self.workshop)
            folder = copy(base, self.folder / "references" / name)
            done = self.workshop.run(stage.arguments, folder, Fault())
            assert done.code == 0, done.said
            self._references[name] = Reference(
                stage, base, outcome(folder), games_of(folder), done.seconds, len(POINTS) * done.calls
            )
        return self._references[name]

    def finished(self) -> Path:
        """A run in which every stage has ended."""
        self.reference("evaluate")
        return self.folder / "references" / "evaluate"

    @contextmanager
    def copy_of(self, name: str, label: str) -> Iterator[Path]:
        """The base of a stage, to be disturbed. Removed afterwards, unless the block fails."""
        folder = copy(self.reference(name).base, self.folder / f"{name}-{label}")
        yield folder
        shutil.rmtree(folder)

    # Faults inside a process, and signals at any moment

    def disturb(self, name: str, seed: int, faults: int, thorough: bool = True) -> Trial:
        """A trial with that many faults, chosen by the seed.

        thorough: verify after every second one, not only after the last.
        """
        rng = random.Random(f"{name} {seed}")
        reference, trial = self.reference(name), Trial(name, seed)
        with self.copy_of(name, str(seed)) as folder:
            for number in range(faults):
                ended = self._strike(reference, rng, folder, trial)
                if trial.failures:
                    break
                if ended or number == faults - 1 or (thorough and rng.random() < 0.5):
                    self.verify_after_fault(folder, trial, repair=rng.random() < 0.3)
                if ended:
                    break
            self.finish(reference, folder, trial)
        return trial

    def _strike(self, reference: Reference, rng: random.Random, folder: Path, trial: Trial) -> bool:
        """Returns whether the stage came to its end all the same."""
        before = committed(folder)
        action = rng.choice(("kill", "kill", "kill", "term", "int", rng.choice(list(ERRORS))))
        arguments = reference.stage.arguments
        if action in SIGNALS and rng.random() < 0.3:
            running = self.workshop.start(arguments, folder, Fault())
            time.sleep(rng.uniform(0, 1.2 * reference.seconds))
            running.signal(SIGNALS[action])
            done, what = running.wait(), f"{action} at an instant"
        else:
            # A run that goes on where another stopped has fewer points left.
            point = int(reference.points * rng.random() ** (1 + min(len(trial.faults), 3)))
            fault = Fault(action, point, stays=rng.random() < 0.5)
            done, what = self.workshop.run(arguments, folder, fault), f"{action} at a point"
            what += " that stays" if action in ERRORS and fault.stays else ""
        self.check_end(done, action, what, trial)
        after = committed(folder)
        self.check_kept(before, after, done, trial)
        return done.code == 0

    def check_end(self, done: Done, action: str, what: str, trial: Trial) -> None:
        """The exit code, and that a failure is told in a line."""
        struck = done.code in ENDS_BY_SIGNAL.get(action, {1}) or (action in ERRORS and "warning" in done.said)
        if struck and what not in ("", VERIFY):
            trial.faults.append(what)
        elif what not in ("", VERIFY):
            trial.missed += 1
        if done.code not in CODES | ({-signal.SIGKILL} if action == "kill" else set()):
            trial.fail(f"{what}: exit code {done.code}: {done.said[-1500:]}")
        if "Traceback" in done.said or "Exception ignored" in done.said:
            trial.fail(f"{what}: {done.said[-3000:]}")
        last = done.said.strip().rpartition("\n")[2]
        says_why = last.startswith("mugo") or what == VERIFY or (done.code in (130, 143) and not done.said)
        if done.code in (1, 2, 75, 130, 143) and not says_why:
            trial.fail(f"{what}: exit code {done.code} without a line that says why: {done.said[-500:]}")

    def check_kept(self, before: dict[str, str], after: dict[str, str], done: Done, trial: Trial) -> None:
        """That what stood there stands there still, and what the process has put there, too."""
        gone = [name for name, content in before.items() if after.get(name, "gone") != content]
        promised = [path for _, name, path in done.log if name in ("rename", "replace")]
        for path in promised:
            wanted = [path, str(Path(path).with_suffix(layout.SHARD_SUFFIX))] if path.endswith(".meta") else [path]
            if path.endswith((".meta", ".h5", "games.jsonl")):
                gone += [one for one in wanted if not Path(one).exists()]
        for _, call, rest in done.log:
            size, _, path = rest.partition(" ")
            if call == "fsync" and path.endswith(".jsonl") and Path(path).stat().st_size < int(size):
                gone.append(f"{path} from {size} bytes on")
        if gone:
            trial.lost += len(gone)
            trial.fail(f"lost: {gone}")

    def verify_after_fault(self, folder: Path, trial: Trial, repair: bool) -> None:
        done = self.workshop.run(("verify", "--json", "--verbose", "0", *(["--repair"] if repair else [])), folder)
        if "Traceback" in done.said:
            trial.fail(f"verify: {done.said[-3000:]}")
            return
        found = json.loads(done.said)
        for problem in found["problems"]:
            if problem["subject"] != LEFT_OVER or (repair and not problem["repaired"]):
                trial.fail(f"verify after {trial.faults[-1:]}: {problem}")
                trial.wrong += "was promoted" in problem["text"]

    def finish(self, reference: Reference, folder: Path, trial: Trial) -> None:
        """Run the stage to its end, and compare."""
        before = committed(folder)
        done = self.workshop.run(reference.stage.arguments, folder, Fault())
        trial.recovery = done.seconds
        if done.code not in (0, 75):
            trial.fail(f"run again: exit code {done.code}: {done.said[-2000:]}")
            return
        self.check_kept(before, committed(folder), done, trial)
        self.verify_whole(folder, trial)
        games = self._games(folder, trial)
        if games is None:
            return
        if games != reference.games:
            missing, more = reference.games.keys() - games.keys(), games.keys() - reference.games.keys()
            trial.fail(f"other games than undisturbed: {len(missing)} missing, {len(more)} more")
        found = outcome(folder)
        for name in sorted({*found, *reference.outcome}):
            if found.get(name) != reference.outcome.get(name):
                trial.fail(f"{name}: {found.get(name)}\nundisturbed: {reference.outcome.get(name)}")

    def _games(self, folder: Path, trial: Trial) -> dict[int, str] | None:
        try:
            return games_of(folder)
        except AssertionError as error:
            trial.twice += 1
            trial.fail(str(error))
        except FileError as error:
            trial.fail(str(error))
        return None

    # The loop

    def disturb_loop(self, seed: int, faults: int) -> Trial:
        """The same for rl_loop.sh: signals to it, to it and all it started, and faults at points."""
        rng = random.Random(f"{LOOP} {seed}")
        trial = Trial(LOOP, seed)
        reference = self.reference_of_loop()
        folder = self._folder_of_loop(str(seed))
        for _ in range(faults):
            before = committed(folder)
            ended = self._strike_loop(reference, rng, folder, trial)
            gone = [name for name, content in before.items() if committed(folder).get(name, "gone") != content]
            if gone:
                trial.lost += len(gone)
                trial.fail(f"lost: {gone}")
            if trial.failures or ended:
                break
            if (folder / layout.SAVED_MODELS).is_dir():
                self.verify_after_fault(folder, trial, repair=rng.random() < 0.3)
        done = self.workshop.run_loop(folder)
        trial.recovery = done.seconds
        if done.code != 0:
            trial.fail(f"run again: exit code {done.code}: {done.said[-2000:]}")
        else:
            self._check_loop(folder, trial)
        if not trial.failures:
            shutil.rmtree(folder)
        return trial

    def reference_of_loop(self) -> Done:
        """The loop undisturbed: how long it takes here, and its calls."""
        if self._loop is None:
            folder = self._folder_of_loop("undisturbed")
            self._loop = self.workshop.run_loop(folder, fault=Fault())
            assert self._loop.code == 0, self._loop.said
            shutil.rmtree(folder)
        return self._loop

    def _folder_of_loop(self, label: str) -> Path:
        folder = self.folder / f"{LOOP}-{label}"
        folder.mkdir(parents=True)
        (folder / "tiny.yaml").write_text(PRESET)
        return folder

    def _strike_loop(self, reference: Done, rng: random.Random, folder: Path, trial: Trial) -> bool:
        """Returns whether the loop came to its end all the same."""
        action = rng.choice(("kill", "kill", "term", "int"))
        if rng.random() < 0.5:
            fault, what = Fault(action, rng.randrange(len(POINTS) * reference.calls)), f"{action} at a point"
            done = self.workshop.run_loop(folder, fault=fault)
        else:
            what = f"{action} at an instant"
            whole = rng.random() < 0.5
            seconds = rng.uniform(0, reference.seconds)
            done = self.workshop.run_loop(folder, after=(seconds, SIGNALS[action], whole))
        if done.code == 0:
            trial.missed += 1
        else:
            trial.faults.append(what)
        if done.code not in {0, 75, 130, 143, 137, -signal.SIGKILL}:
            trial.fail(f"{what}: exit code {done.code}: {done.said[-1500:]}")
        if "Traceback" in done.said or "Exception ignored" in done.said:
            trial.fail(f"{what}: {done.said[-3000:]}")
        return done.code == 0

    def _check_loop(self, folder: Path, trial: Trial) -> None:
        """That one generation was made, no more and no less."""
        self.verify_whole(folder, trial)
        games = self._games(folder, trial)
        if games is None:
            return
        models = [path.name for path in list_models(folder / layout.SAVED_MODELS)]
        matches = [match.name for match in list_matches(folder / "data/evaluate")]
        if len(games) != 12 or models != ["000000-init", "000001-b1c8"] or len(matches) != 1:
            trial.fail(f"{len(games)} games, models {models}, matches {matches}")

    def verify_whole(self, folder: Path, trial: Trial, after_a_kill: bool = False) -> None:
        """That nothing is wrong, and, unless a process was killed, nothing left over."""
        if after_a_kill:
            self.workshop.run(("verify", "--repair"), folder)
        verified = self.workshop.run(("verify", "--verbose", "0"), folder)
        if verified.code != 0:
            trial.fail(f"verify at the end: {verified.said}")
            trial.wrong += "was promoted" in verified.said
            trial.twice += "as well; wanted each" in verified.said


def count(trials: list[Trial]) -> Counter[str]:
    return Counter(fault for trial in trials for fault in trial.faults)
