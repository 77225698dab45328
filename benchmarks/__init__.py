"""Measurements that take minutes to hours. They may import all of pipeline/; nothing imports them but their tests.

They need more packages than the pipeline does: the extra ``benchmarks`` of pyproject.toml.
"""

from importlib.util import find_spec

missing = [name for name in ("matplotlib", "psutil", "scipy") if find_spec(name) is None]
if missing:
    raise SystemExit(
        f"benchmarks: {', '.join(missing)} not installed; "
        "run `.venv/bin/python -m pip install -c constraints.txt -e '.[benchmarks]'`"
    )
