"""The rules of docs/design.md about what may import what, checked over the syntax tree; no stray paths."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import extensions
from tests.without import DELETED, copy_without, environment_of

ROOT = Path(__file__).parent.parent
MODULES = sorted([ROOT / "main.py", *(ROOT / "pipeline").rglob("*.py")])
SOURCES = sorted(
    path
    for pattern in ("*.py", "*.sh", "*.toml", "*.md", "*.yaml", ".ci/run", "pipeline/**/*", "tests/**/*", "docs/**/*",
                    "benchmarks/**/*", "examples/**/*")
    for path in ROOT.glob(pattern)
    if path.is_file() and path.suffix in {".py", ".sh", ".toml", ".md", ".yaml", ".sgf", ".json", ""}
)  # fmt: skip

ALL_FAMILIES = all((ROOT / "pipeline" / "families" / name).is_dir() for name in DELETED)
FOUNDATION = {
    "caches",
    "commands",
    "counter_rng",
    "errors",
    "extensions",
    "interrupts",
    "compiled_kernels",
    "machine",
    "options",
    "phrases",
    "presets",
    "progress",
    "schedules",
    "stalls",
}
# The layers of docs/design.md, highest first. A package imports from the layers below its own, never from its
# neighbours.
LAYERS: list[set[str]] = [
    {"main.py"},
    {"__main__"},
    {"main"},
    {"families"},  # above all that they build on; the core finds them through extensions.py alone
    {"bench", "loop", "upkeep", "command_state"},
    {"selfplay", "gather", "train", "evaluate", "play", "reports", "command_line"},
    {"ratings"},
    {"matches"},
    {"methods"},
    {"players", "tracking", "workers"},
    {"search", "networks", "run"},
    {"games"},
    FOUNDATION,
]
WITHIN_FOUNDATION = {
    "caches": {"phrases"},
    "compiled_kernels": {"caches", "phrases"},
    "extensions": {"errors"},
    "options": {"errors", "extensions"},
    "presets": {"commands", "errors", "extensions", "options", "schedules"},
    "schedules": {"errors"},
    "stalls": {"errors"},
}
USES_TORCH = {"networks", "methods", "train", "families"}


def may_import(package: str, other: str) -> bool:
    if package in FOUNDATION:
        return other in WITHIN_FOUNDATION.get(package, set())
    layer = next(number for number, packages in enumerate(LAYERS) if package in packages)
    return any(other in packages for packages in LAYERS[layer + 1 :])


def package_of(path: Path) -> str:
    """ "pipeline/games/go.py" → "games", "pipeline/config.py" → "config", "main.py" → "main.py"."""
    if path.parent == ROOT:
        return path.name
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "pipeline" and len(parts) > 1 else parts[0]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, absolute, and whether only inside a function."""

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import; write it absolute"
                module = child.module or ""
                yield from ((f"{module}.{alias.name}", inside) for alias in child.names)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue  # never executed
            else:
                yield from walk(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return walk(ast.parse(path.read_text(encoding="utf-8")), False)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    package = package_of(path)
    if path == ROOT / "pipeline" / "__init__.py":
        return
    known = set().union(*LAYERS)
    assert package in known, f"{name_of(path)}: unknown package {package!r}; add it to docs/design.md and to this test"
    for module, _ in imports(path):
        parts = module.split(".")
        if parts[0] == "pipeline" and len(parts) > 1:
            assert parts[1] == package or may_import(package, parts[1]), f"{package} must not import {module}"
            if package == parts[1] == "families":
                family = path.relative_to(ROOT).parts[2]
                assert parts[2] == family, f"{family} must not import another family: {module}"
        assert parts[0] not in ("main", "tests"), f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_torch_is_imported_where_it_is_needed(path: Path) -> None:
    """At the top only in USES_TORCH; a command imports what needs torch inside the function that does."""
    package = package_of(path)
    for module, inside_function in imports(path):
        if module.split(".")[0] == "torch":
            assert package in USES_TORCH or inside_function, module
        elif module.startswith("pipeline.") and package not in USES_TORCH and not inside_function:
            assert not needs_torch(imported_file(module)), f"import {module} inside the function that needs it"


def imported_file(module: str) -> Path:
    """The file of ``pipeline.a.b`` or of ``pipeline.a.b.name``."""
    whole = ROOT / Path(*module.split(".")).with_suffix(".py")
    return whole if whole.is_file() else ROOT / Path(*module.split(".")[:-1]).with_suffix(".py")


@functools.cache
def needs_torch(path: Path) -> bool:
    return path.is_file() and any(name.split(".")[0] == "torch" and not inside for name, inside in imports(path))


# Names of modules that hold the same idea in several places: in the packages of commands, methods or families.
SHARED_NAMES = {
    "__init__", "command", "config", "options", "kernels", "game", "heuristic", "board", "features", "notation",
    "protocol", "records", "player_kind", "page", "kind", "table", "method", "actor", "examples", "losses", "network",
    "tracking",
}  # fmt: skip


def test_no_two_modules_share_a_name_unless_they_are_the_same_idea() -> None:
    counts = Counter(path.stem for path in MODULES if path.is_relative_to(ROOT / "pipeline"))
    shared = {name for name, count in counts.items() if count > 1}
    assert shared <= SHARED_NAMES and (shared == SHARED_NAMES or not ALL_FAMILIES)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is(path: Path) -> None:
    if path.name != "__init__.py":
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no docstring"


@pytest.mark.parametrize("path", sorted((ROOT / "pipeline").glob("*/__init__.py")), ids=name_of)
def test_package_says_what_lives_there_what_it_may_import_and_what_it_never_does(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert len(docstring.splitlines()) >= 3
    assert re.search(r"\bimports?\b", docstring, re.IGNORECASE), "what it may import"
    assert re.search(r"\bnever\b", docstring, re.IGNORECASE), "what it never does"


def test_only_one_module_reads_pickle_never() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bpickle\b.*\bload|allow_pickle\s*=\s*True|torch\.load\(", text), name_of(path)


def test_no_path_of_one_machine() -> None:
    machine_path = re.compile(r"(?<![\w.$])/(home|work|root|Users|mnt)/\w")
    for path in SOURCES:
        if path != Path(__file__):
            found = machine_path.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{name_of(path)}: {found and found.group()}"


# Families


FAMILIES = sorted(path.parent.name for path in (ROOT / "pipeline" / "families").glob("*/__init__.py"))
OFFERED = {name for table in extensions._tables()[1:] for group, names in table.items()
           if group not in (extensions.OPTIONS, extensions.PRESETS) for name in names}  # fmt: skip
# What people call them, and what only they have
CALLED = {"gammon", "connect four", "tic-tac-toe", "reversi", "kifu", "sfen", "tsume", "textarena", "kuhn", "simpletak",
          "gnu backgammon", "language models?", "text games?", "temporal differences?"}  # fmt: skip
# Names that are words of English, of HTML or of the literature, too: only where they can't be anything else.
SHARPER = {
    "go": r"\bGo\b(?! on )|\bgo:(?!9\b)|[\"']go[\"']",
    "text": r"\btext:\w",
    "lines": r"families.lines\b|\blines/",
    "analysis": r"--protocol analysis|analysis (protocol|engine)",
    "mat": r"\.mat\b|--mat\b|[\"']mat[\"']",
    "td": r"[\"'`]td[\"'`]|\b(method|methods) td\b|TD\(λ\)",
    "server": r"--backend server|[\"'`]server[\"'`]",
}
ALLOWED = [
    r"\bgo:9\b",  # DEFAULT_GAME of games/specs.py, and the examples of a spec in help texts
    r"Self-Play Learning in Go",  # a title
    r"9x9 Go\b",  # what a default was measured on, see docs/log
    r"TD\(lambda\), Sutton 1988",  # a source
    r"Source: GTP version 2, 6\.3\.4",  # a source
    r"scope\.get\(['\"]server['\"]\)",  # ASGI's name for an address
]
CORE_TEXTS = sorted(
    path
    for path in [ROOT / "main.py", *(ROOT / "pipeline").rglob("*")]
    if path.suffix in {".py", ".js", ".css", ".html", ".svg", ".yaml"}
    and ROOT / "pipeline" / "families" not in path.parents
)


def family_names() -> re.Pattern[str]:
    plain = {re.escape(name) for name in (OFFERED | set(FAMILIES)) - set(SHARPER)} | CALLED
    return re.compile("|".join([rf"(?i:\b(?:{'|'.join(sorted(plain))})\b)", *SHARPER.values()]))


@pytest.mark.parametrize("path", CORE_TEXTS, ids=name_of)
def test_the_core_names_no_family(path: Path) -> None:
    names = family_names()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = names.search(re.sub("|".join(ALLOWED), "", line))
        assert found is None, f"{name_of(path)}:{number} names {found and found.group()!r}: {line.strip()}"


def test_family_names_are_found() -> None:
    """So that the test above can't pass by finding nothing."""
    names = family_names()
    for family, texts in {
        "go": ("Go, komi included", '"go"', "go:19", "gtp:gnugo"),
        "shogi": ("a game of Shogi", "USI", ".kif"),
        "backgammon": ('method="td"', "gnubg:0", "a.mat", "hypergammon"),
        "lines": ("connect four", "a game of tictactoe"),
        "text": ("text:KuhnPoker", "a2c with a critic", "models of vLLM"),
    }.items():
        for text in texts:
            assert names.search(text) or family not in FAMILIES, text
    for text in ("Go on with the match", "games go on", 'element("text", {})', "<td>", "--td-lambda", "lines"):
        assert not names.search(text), text


# What the core does without a family. The tests of these modules take seconds together; `python -m tests.without` runs
# all tests of the core in such a copy.
WITHOUT_IT = "test_extensions test_config test_specs test_chance test_toys test_player_specs test_architecture"
GENERATION = """
init: {game: tictactoe, network_size: b1c8}
selfplay: {games: 40, readouts: 4, threads: 1, seed: 1, backend: torch}
gather: {as_many_as_possible: true, positions_per_chunk: 64, seed: 1}
train: {epochs: 1, batch_size: 32, seed: 1}
evaluate: {games: 8, readouts: 4, threads: 1, seed: 1, backend: torch}
"""


def run_in(copy: Path, folder: Path, *words: str) -> str:
    """What Python prints in a folder, with the modules of a copy of the tree."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment_of(copy), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("family", [family for family in DELETED if family in FAMILIES])
def test_without_a_family_the_program_helps(family: str, tmp_path: Path) -> None:
    without = copy_without([family], tmp_path)
    assert "selfplay" in run_in(without, tmp_path, str(without / "main.py"), "--help")
    assert "go9" in run_in(without, tmp_path, str(without / "main.py"), "presets")


# The next two are without all these families at once, which is enough: no family imports another.


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_without([family for family in DELETED if family in FAMILIES], tmp_path_factory.mktemp("without"))


def test_without_families_the_program_plays(without: Path, tmp_path: Path) -> None:
    assert run_in(without, tmp_path, "-c", "import pipeline; print(pipeline.__file__)").startswith(str(without))
    (tmp_path / "tiny.yaml").write_text(GENERATION)
    run_in(without, tmp_path, str(without / "main.py"), "loop", "--preset", "tiny.yaml", "--generations", "1")
    assert list((tmp_path / "saved_models").glob("000001-*"))
    assert list((tmp_path / "data/evaluate").glob("*/summary.json"))


def test_without_families_the_tests_of_the_core_pass(without: Path) -> None:
    """All are collected, so none imports a family or plays its games by a list; some are run."""
    selected = " or ".join(WITHOUT_IT.split())
    run_in(without, without, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "--ignore", "tests/families",
           "-k", selected)  # fmt: skip


def imported_by(code: str) -> set[str]:
    """Top-level names of the modules that a fresh Python has loaded after running code in the repository root."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_help_imports_nothing_heavy() -> None:
    code = "from pipeline.main import app\ntry: app(['--help'])\nexcept SystemExit as end: assert not end.code"
    assert not {
        "torch",
        "numba",
        "scipy",
        "h5py",
        "openvino",
        "tensorboard",
        "numpy",
        "starlette",
        "uvicorn",
    } & imported_by(code)


def test_show_does_not_need_torch() -> None:
    assert "torch" not in imported_by("import pipeline.reports.show, pipeline.reports.show_models")


def test_status_imports_nothing_slow() -> None:
    loaded = imported_by("import pipeline.reports.status, pipeline.reports.status_screen")
    assert not {"torch", "numba", "scipy", "h5py", "openvino"} & loaded
