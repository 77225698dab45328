"""deploy/: what is written there is what Kubernetes, Slurm and Docker take, and its commands work."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.commands import COMMANDS, SECTIONS
from pipeline.presets import make_config, preset_names
from pipeline.schedules import RunState
from tests.chaos.stages import PRESET
from tests.chaos.workshop import ROOT, Workshop

DEPLOY = ROOT / "deploy"
KUBERNETES = "1.31", "1.37"  # the oldest and the newest that were looked at
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for processes as Linux has them")


# Kubernetes


def objects() -> dict[str, dict[str, Any]]:
    """What is made there, by its kind and name."""
    (whole,) = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {f"{one['kind']} {one['metadata']['name']}": one for one in whole["items"]}


def pods() -> dict[str, dict[str, Any]]:
    """Pods by the name of what makes them."""
    found = {}
    for name, one in objects().items():
        if one["kind"] in ("Job", "CronJob"):
            job = one["spec"]["jobTemplate"]["spec"] if one["kind"] == "CronJob" else one["spec"]
            found[name] = job["template"]["spec"]
    return found


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """In the order in which they run."""
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_schema_of_kubernetes_takes_every_object(version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install '.[test]'")
    for one in objects().values():
        validate.validate(one, version, strict=True)
    wrong = objects()["CronJob mugo-train"]
    wrong["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartpolicy"] = "Never"
    with pytest.raises(Exception, match="restartpolicy"):
        validate.validate(wrong, version, strict=True)


def test_what_objects_refer_to_is_there() -> None:
    made = objects()
    preset = made["ConfigMap mugo"]["data"]["PRESET"]
    assert preset in preset_names()
    for stage in SECTIONS:
        make_config(COMMANDS[stage].config, stage, preset, lambda _: RunState(1))  # where nobody counts the run's time
    for pod in pods().values():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert f"PersistentVolumeClaim {volumes['run']['persistentVolumeClaim']['claimName']}" in made
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
            assert "ConfigMap " + container["envFrom"][0]["configMapRef"]["name"] in made
            assert container["image"] == "mugo" and "command" not in container  # main.py is process 1, no shell
    assert "ReadWriteMany" in made["PersistentVolumeClaim mugo-run"]["spec"]["accessModes"]


def test_workers_are_a_job_with_a_name_for_each_that_starts_again() -> None:
    job = objects()["CronJob mugo-selfplay"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    job = job["jobTemplate"]["spec"]
    assert job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"] == 8
    assert job["backoffLimitPerIndex"] > 0 and job["template"]["spec"]["restartPolicy"] == "Never"
    names = {tuple(command_lines({"WORKER": str(index)})["CronJob mugo-selfplay"][0]) for index in range(8)}
    assert len(names) == 8


def command_lines(variables: dict[str, str]) -> dict[str, list[list[str]]]:
    """What the containers of each pod run, as Kubernetes fills in $(NAME)."""

    def filled(text: str) -> str:
        return re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], text)

    variables = {"PRESET": "tiny.yaml", "WORKER": "0", **variables}
    return {name: [list(map(filled, one["args"])) for one in containers(pod)] for name, pod in pods().items()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(PRESET)
    return tmp_path


@LINUX
def test_the_commands_of_kubernetes_make_a_generation(workshop: Workshop, run: Path) -> None:
    """The very command lines, each on a machine of its own, all workers at once; a pod that is killed starts again."""

    def pod(name: str, host: str) -> None:
        for arguments in command_lines({})[name]:
            done = workshop.run(arguments, run, host=host)
            if "PermissionError" in done.said:
                pytest.skip("no new process namespaces are permitted")
            assert done.code == 0, (arguments, done.said)

    pod("Job mugo-init", "init")
    for again in (False, True):
        workers = [command_lines({"WORKER": str(index)})["CronJob mugo-selfplay"][0] for index in range(8)]
        # Those that are ended come last: on a busy machine the first are done before the last have begun.
        running = {
            index: workshop.start(workers[index], run, host=f"selfplay-{index}") for index in (*range(2, 8), 0, 1)
        }
        if not again:
            running[0].signal(signal.SIGKILL)
            running[1].signal(signal.SIGTERM)
        codes = [running[index].wait().code for index in range(8)]
        assert codes == [0] * 8 if again else codes[2:] == [0] * 6 and codes[:2] in ([-9, 143], [-9, 0])
    pod("CronJob mugo-train", "train")
    pod("CronJob mugo-evaluate", "evaluate")
    nothing = workshop.run(command_lines({})["CronJob mugo-evaluate"][0], run, host="evaluate")
    assert nothing.code == 75  # a failed job that does no harm
    assert workshop.run(("verify",), run).code == 0
    assert sorted(path.name for path in (run / "saved_models").glob("0*")) == ["000000-init", "000001-b1c8"]


# Slurm

SBATCH = {  # options of sbatch that scripts here may use, and what their values look like
    "job-name": r"\w+",
    "array": r"\d+-\d+(%\d+)?",
    "nodes": r"\d+",
    "ntasks": r"\d+",
    "cpus-per-task": r"\d+",
    "mem": r"\d+[KMGT]",
    "time": r"\d+(-\d+)?(:\d\d){2}",
    "signal": r"[BR]*:?[A-Z0-9]+(@\d+)?",
    "requeue": "",
    "open-mode": "append|truncate",
    "output": r"[\w%-]+\.log",
}


def test_slurm_knows_every_option() -> None:
    script = DEPLOY / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    lines = script.read_text().splitlines()
    options = [line for line in lines if line.startswith("#SBATCH")]
    for line in options:
        match = re.fullmatch(r"#SBATCH --([a-z-]+)(?:=(\S+))?", line)
        assert match and match[1] in SBATCH, line
        assert re.fullmatch(SBATCH[match[1]], match[2] or ""), line
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert all(lines.index(line) < first_command for line in options)  # sbatch reads no further
    assert os.access(script, os.X_OK)
    if shutil.which("sbatch"):
        subprocess.run(["sbatch", "--test-only", str(script)], check=True, env={**os.environ, "RUN": "run"})


@LINUX
def test_the_tasks_of_slurm_make_a_generation(workshop: Workshop, run: Path) -> None:
    """A copy of the script, as Slurm makes one, in three tasks of three machines; a task that is stopped goes on.

    Only its pauses are shorter.
    """
    copy = run / "slurm_script"
    text, pauses = re.subn(r"\bsleep \d+", "sleep 0.3", (DEPLOY / "slurm.sh").read_text())
    assert pauses == 3
    copy.write_text(text)
    given = {"SLURM_SUBMIT_DIR": str(ROOT), "RUN": str(run / "shared"), "PRESET": str(run / "tiny.yaml"), "ROUNDS": "1"}

    def task(number: int, **more: str) -> subprocess.Popen[str]:
        environment = {**workshop.loop_environment(), **given, "SLURM_ARRAY_TASK_ID": str(number), **more}
        return subprocess.Popen(
            ["bash", str(copy)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    stopped = task(3)  # nobody has made a model yet: it waits
    time.sleep(0.5)
    stopped.send_signal(signal.SIGTERM)
    said, _ = stopped.communicate(timeout=60)
    assert stopped.returncode == 143, said
    running = [task(number) for number in range(3)]
    for one in running:
        said, _ = one.communicate(timeout=200)
        assert one.returncode == 0, said
    assert workshop.run(("verify",), run / "shared").code == 0
    assert sorted(path.name for path in (run / "shared/saved_models").glob("0*")) == ["000000-init", "000001-b1c8"]
    assert {path.name for path in (run / "shared/data/selfplay").glob("*/*")} == {"w1", "w2"}
    by_time = task(1, PRESET="go9")  # which no task could train
    said, _ = by_time.communicate(timeout=60)
    assert by_time.returncode == 2 and "share of the run's time" in said
    wrong = task(0, PRESET="nosuch")
    said, _ = wrong.communicate(timeout=60)
    assert wrong.returncode != 0 and "nosuch" in said


# Docker


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's, comments left out and lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest) for line in text.splitlines() if line for word, _, rest in [line.partition(" ")]]


def test_the_image_has_what_it_needs_and_no_rights() -> None:
    found = instructions()
    words = [word for word, _ in found]
    assert words[0] == "FROM" and set(words) <= {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "ENTRYPOINT", "CMD"}
    users = [rest for word, rest in found if word == "USER"]
    assert users[-1].isdigit() and int(users[-1]) > 0  # by number: Kubernetes can tell that it isn't root
    assert words.index("USER") > max(number for number, word in enumerate(words) if word in ("RUN", "COPY"))
    python = re.fullmatch(r"python:(3\.\d+)-slim", found[0][1])
    assert python and python[1] == "3.11"
    entry = json.loads(dict(found)["ENTRYPOINT"])  # no shell: signals reach it
    assert entry == ["python", "/mugo/main.py"]
    installs = next(rest for word, rest in found if word == "RUN" and "pip" in rest)
    extras = re.findall(r"\.\[(\w+)\]", installs)
    assert "-c constraints.txt" in installs and extras == ["fast"]
    for pod in pods().values():
        assert str(pod["securityContext"]["runAsUser"]) == users[-1]
        mounted = {mount["mountPath"] for one in containers(pod) for mount in one["volumeMounts"]}
        assert dict(found)["WORKDIR"] in mounted  # the last one: where commands run


def copied_into(image: Path) -> None:
    """What the Dockerfile copies, as it stands after what .dockerignore leaves out."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n")
    assert lines[1] == "*"
    sent = {line[1:] for line in lines if line.startswith("!")}
    folder = ""
    for word, rest in instructions():
        if word == "WORKDIR":
            folder = rest
        if word == "COPY":
            *sources, target = shlex.split(rest)
            for source in sources:
                assert source in sent, f"{source} isn't sent to the builder"
                to = image / folder.strip("/") / target / (source if len(sources) > 1 else "")
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, to)


@LINUX
def test_process_1_of_a_container_stops_at_a_signal(run: Path, tmp_path: Path) -> None:
    """Files as in the image, and no shell: Linux drops signals that process 1 has no handler for."""
    copied_into(tmp_path / "image")
    main = tmp_path / "image/mugo/main.py"
    assert main.is_file() and (main.parent / "pretrained/go9/model.json").is_file()
    contained = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, str(main)]
    made = subprocess.run([*contained, "init", "--preset", "tiny.yaml"], cwd=run, capture_output=True, text=True)
    if "unshare" in made.stderr:
        pytest.skip("no new process namespaces are permitted")
    assert made.returncode == 0, made.stderr
    playing = ["selfplay", "--preset", "tiny.yaml", "--games", "100000"]
    process = subprocess.Popen([*contained, *playing], cwd=run, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not list((run / "data").glob("selfplay/*/*/*.meta")):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "mugo selfplay: interrupted" in said
