"""The floors of the house: imports point downward, read from the source with ast."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

import cookbook

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "cookbook"
FLOORS = {
    "units": 1, "charts": 1, "performance": 1,
    "catalog": 2,
    "hardware": 3, "workloads": 3,
    "prediction": 4,
    "calibration": 5, "lesson": 5, "measure": 5, "planning": 5,
    "panels": 6, "publish": 6,
}  # fmt: skip
MODULES = sorted(PACKAGE.rglob("*.py"))
# What a floor must not know, beyond the floors above it.
FORBIDDEN_LIBRARIES = {
    "units": {"numpy", "pandas", "altair", "ipywidgets", "anywidget"},
    "catalog": {"altair", "ipywidgets", "anywidget"},
    "hardware": {"altair", "ipywidgets", "anywidget"},
    "workloads": {"altair", "ipywidgets", "anywidget"},
    "prediction": {"altair", "ipywidgets", "anywidget"},
    "planning": {"altair", "ipywidgets", "anywidget"},
    "calibration": {"altair", "ipywidgets", "anywidget"},
    "measure": {"altair", "ipywidgets", "anywidget"},
}


def room(path: Path) -> str:
    """Module or subpackage of cookbook that `path` belongs to; empty for the top files."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first.startswith("__") else first


def imports(path: Path) -> set[str]:
    """Full dotted names that the module imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = list(path.relative_to(ROOT).parts[: -node.level]) if node.level else []
            base = ".".join([*package, *filter(None, [node.module])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def rooms_used(path: Path) -> set[str]:
    """Rooms of the package that the module imports from."""
    used = {name.split(".")[1] for name in imports(path) if name.startswith("cookbook.")}
    return used if "cookbook" not in imports(path) else used | {"__init__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downward(path):
    here = room(path)
    if not here:
        return
    assert here in FLOORS, f"{here} stands on no floor: give it one in FLOORS"
    for other in rooms_used(path) - {here}:
        assert FLOORS.get(other, 9) < FLOORS[here], f"{here} (floor {FLOORS[here]}) imports cookbook.{other}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_do_not_know_what_is_not_their_business(path):
    libraries = {name.split(".")[0] for name in imports(path)}
    assert not libraries & FORBIDDEN_LIBRARIES.get(room(path), set())


def test_performance_imports_numpy_only():
    for path in (PACKAGE / "performance").glob("*.py"):
        foreign = {
            name for name in imports(path)
            if name.split(".")[0] not in {"numpy", "__future__", "typing", "collections", "statistics"}
            and not name.startswith("cookbook.performance")
        }  # fmt: skip
        assert not foreign, f"{path.name} imports {foreign}"


def test_physics_stays_out_of_charts_and_panels():
    """Charts and panels draw what prediction says; they compute no times and no bytes themselves."""
    for folder in ("charts", "panels"):
        for path in (PACKAGE / folder).glob("*.py"):
            assert "performance" not in rooms_used(path), f"{path.name} computes physics"


def test_no_literal_figures_of_devices_in_the_package():
    """Facts are data: no accelerator is named in Python, except in a docstring's example or a default argument."""
    names = {row.split(",")[0] for row in (ROOT / "data" / "accelerators.csv").read_text().splitlines()[1:]}
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            key.value for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys
            if isinstance(key, ast.Constant) and key.value in names
        }  # fmt: skip
        assert not named, f"{path.relative_to(ROOT)} tabulates {named}: make it rows of data/"


def test_notebooks_import_the_package_by_one_name():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                for line in re.findall(r"^\s*(?:import|from)\s+cookbook.*", cell.source, re.M):
                    assert line.strip() == "import cookbook as cb", f"{path.name}: {line}"


def test_the_front_door_has_at_most_thirty_names():
    assert len(cookbook.__all__) <= 30
