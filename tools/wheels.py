"""Builds the wheel and tries it on each Python that pyproject.toml names and this machine has: ``make wheels``.

Each gets an empty environment and an empty folder, in which the installed command judges a demo dump.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DUMP = ROOT / "testdata" / "kubernetes-1.37.json.gz"
VERSION = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def versions() -> list[str]:
    """Return the Python versions ("3.X") that the project says it runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [match[1] for text in project["classifiers"] if (match := VERSION.fullmatch(text))]


def find(version: str) -> Path | None:
    """Return an interpreter of this version: of pyenv's, on the path, or of uv's; None if none starts."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [*map(str, sorted(pyenv.glob(f"{version}.*/bin/python"))), shutil.which(f"python{version}")]
    if uv := shutil.which("uv"):
        of_uv = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        candidates.append(of_uv.stdout.strip())
    for candidate in filter(None, candidates):
        code = "import sys, venv; print(*sys.version_info[:2], sep='.')"
        printed = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if printed.stdout.strip() == version:
            return Path(candidate)
    return None


def main() -> int:
    """Return 0 if the wheel judged the dump on every Python that is here, else 1."""
    failed = []
    # What PYTHONPATH names would be taken for installed.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        wheels = here / "wheels"
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = wheels.glob("*.whl")
        for version in versions():
            python = find(version)
            if python is None:
                print(f"Python {version}: not here, not tried")
                continue
            binaries = here / version / "bin"
            subprocess.run([str(python), "-m", "venv", str(here / version)], env=environment, check=True)
            install = [str(binaries / "pip"), "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), str(wheel)], env=environment, check=True)
            empty = here / f"empty-{version}"
            empty.mkdir()
            command = [str(binaries / "etcd-coverage"), str(DUMP)]
            judged = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, check=False)
            lines = judged.stdout.splitlines() or judged.stderr.splitlines() or [""]
            print(f"Python {version}: {lines[-1]}", flush=True)
            if judged.returncode:
                failed.append(version)
                print(judged.stdout + judged.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
