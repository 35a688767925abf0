"""The house: which room may import which, where pytest is known, that each module is listed and small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "etcd_coverage"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

GROUND = {"text", "attributes", "atomic"}
RULES = {"key_pattern", "matchers", "reference", "releases"}

ARROWS = {
    "text": set(),
    "attributes": set(),
    "atomic": set(),
    "cli": GROUND,
    "key_pattern": GROUND,
    "matchers": GROUND,
    "reference": {"key_pattern", "matchers", *GROUND},
    "releases": {"reference"},
    "dumps": GROUND,
    "judging": {"dumps", *RULES, *GROUND},
    "comparing": {"judging", "dumps", *RULES, *GROUND},
    "reports": {"comparing", "judging", "dumps", *RULES, *GROUND},
    "showing": {"judging", "dumps", *RULES, *GROUND},
    "sources": {"judging", "dumps", *RULES, *GROUND},
    "collecting": GROUND,
    "suite": {"reports", "comparing", "judging", "dumps", *RULES, *GROUND},
}
"""What each room, and each module outside of one, may import. Every other module is a command: all but the suite."""

COMMAND = {*ARROWS} - {"suite"}

ARROWS["__main__"] = {"suite"}


def place_of(module: str) -> str:
    """Return the room, or the module outside of one, that a dotted name is in."""
    return module.removeprefix("etcd_coverage.").split(".")[0]


def imports(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, inside of functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports in full"
            assert node.module
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            in_package = {
                name for name in names if (ROOT / Path(*name.split("."))).with_suffix(".py").exists() or name in DOTTED
            }
            found |= in_package or {node.module}
    return found


DOTTED = {".".join(room.relative_to(ROOT).parts) for room in ROOMS}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(path.relative_to(PACKAGE).parts))
def test_no_arrow_runs_up(path: Path) -> None:
    own = place_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    allowed = ARROWS.get(own, COMMAND) | {own}
    ours = {place_of(name) for name in imports(path) if name.startswith("etcd_coverage.")}
    assert ours - allowed == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(path.relative_to(PACKAGE).parts))
def test_pytest_is_imported_in_the_suite_alone(path: Path) -> None:
    if "suite" not in path.relative_to(PACKAGE).parts:
        assert {name for name in imports(path) if name.split(".")[0] in {"pytest", "_pytest", "xdist"}} == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(path.relative_to(PACKAGE).parts))
def test_modules_are_small(path: Path) -> None:
    if path.name != "reference.py":  # a table, which grows by its rows
        assert len(path.read_text(encoding="utf-8").splitlines()) < 300


@pytest.mark.parametrize("folder", [PACKAGE, *ROOMS], ids=lambda folder: folder.name)
def test_each_module_is_listed_in_the_docstring_of_its_folder(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    there = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)`", docstring)) >= there - {"__init__", "__main__"}


def test_the_test_of_arrows_sees_imports(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def f():\n    from etcd_coverage.dumps import files\n    import etcd_coverage.suite.run\n    import re\n"
    )
    assert imports(path) == {"etcd_coverage.dumps.files", "etcd_coverage.suite.run", "re"}
