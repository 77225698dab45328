"""Measurements that take minutes to hours. They may import all of pipeline/; only their tests import them.

They need the extra ``benchmarks`` of pyproject.toml. docs/strength.md lists the questions they answer.
"""

from importlib.util import find_spec

missing = [name for name in ("matplotlib", "psutil") if find_spec(name) is None]
if missing:
    raise SystemExit(
        f"benchmarks: {', '.join(missing)} not installed; "
        "run `.venv/bin/python -m pip install -c constraints.txt -e '.[benchmarks]'`"
    )
