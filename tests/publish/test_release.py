"""What is released: a source archive that builds without the repository, and a wheel that answers on its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import cookbook

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cookbook"
MADE = ("vega_bundle.js", "specs.json")  # by the build
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(command: list[str | Path], folder: Path, **environment: str) -> str:
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build the wheel from the source archive, which has neither bundle nor specs, so that the build must make them."""
    copy = tmp_path_factory.mktemp("release")
    for name in ("cookbook", "data"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*MADE, "__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "LICENSE-docs"):
        shutil.copy(ROOT / name, copy)
    build = [sys.executable, "-m", "hatchling", "build", "-t"]
    run([*build, "sdist"], copy, HATCH_BUILD_NO_HOOKS="true")
    (archive,) = (copy / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(copy / "unpacked", filter="data")
    (source,) = (copy / "unpacked").iterdir()
    assert not any((source / "cookbook" / "charts" / name).exists() for name in MADE)
    run([*build, "wheel"], source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.all
def test_wheel_carries_data_bundle_and_specs(names):
    assert {f"cookbook/charts/{name}" for name in MADE} <= names
    tables = {path.name for path in (ROOT / "data").glob("*.csv")}
    schemas = {path.name for path in (ROOT / "data" / "schema").glob("*.csv")}
    assert tables and {f"cookbook/data/{name}" for name in tables} <= names
    assert {f"cookbook/data/schema/{name}" for name in schemas} <= names


@pytest.mark.all
def test_wheel_carries_every_module_and_style_file(names):
    ours = {f"cookbook/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*.*") if path.is_file()}
    assert not {name for name in ours - names if "__pycache__" not in name}
    assert not any(name.startswith(("tests/", "notebooks/")) for name in names)


@pytest.mark.all
def test_wheel_is_for_every_machine_and_small(wheel):
    assert wheel.name.endswith("-py3-none-any.whl"), "pure Python"
    assert wheel.stat().st_size < 6e6, "a page that loads it over a phone's network waits for each megabyte"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Install the wheel alone, as its metadata say, beside what it requires and nothing of the repository."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        python,
        wheel,
    ]
    run(install, place)
    (packages,) = (place / "lib").glob("python*/site-packages")
    (packages / "required.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    where = run([python, "-c", "import cookbook; print(cookbook.__file__, cookbook.__version__)"], place).split()
    assert Path(where[0]).is_relative_to(packages) and where[1] == cookbook.__version__
    return place


@pytest.mark.all
def test_the_command_answers_from_the_wheel_alone(installed):
    answer = json.loads(run([installed / "bin" / "cookbook", "what-runs", "--on", "rtx-4090", "--json"], installed))
    assert len(answer["table"]) > 20 and "RTX 4090" in answer["headline"]


@pytest.mark.all
def test_the_command_refuses_from_the_wheel_with_its_exit_code(installed):
    command = [installed / "bin" / "cookbook", "what-runs", "--on", "rtx-9999", "--json"]
    said = subprocess.run(command, cwd=installed, capture_output=True, text=True)
    assert said.returncode == 1 and json.loads(said.stdout)["refusal"]["code"] == "accelerator-unknown"
    assert not said.stderr


IMPORTED = """
import ast, sys
from pathlib import Path
import cookbook as cb

cb.planning.what_runs(accelerator="rtx-4090")
cb.serve("llama3_8b", "h100-sxm", rate=1)
found = set()
for name, module in list(sys.modules.items()):
    if name.split(".")[0] == "cookbook":
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                found.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
print(*found - set(sys.stdlib_module_names) - {"cookbook"})
"""


@pytest.mark.all
def test_what_the_command_imports_is_what_the_wheel_requires(wheel, installed):
    """A package that another one brings along today is missing where it does not."""
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        said = Parser().parsestr(opened.read(metadata).decode("utf-8"))
    required = {re.split(r"[<>=;\[ ]", line)[0] for line in said.get_all("Requires-Dist") if "extra ==" not in line}
    imported = run([installed / "bin" / "python", "-c", IMPORTED], installed).split()
    assert imported and set(imported) <= required


def test_one_version_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.findall(r"^## \[(\d.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert PROJECT["version"] == cookbook.__version__ == cited["version"] == changes[0]
