"""Budgets of size and shape, so that the taste of the house outlives its builders."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from syntax import PACKAGE, tree_of

import cookbook

# What the house may grow to; lowered as it shrinks, never raised without a reason.
# A folder of a topic costs one module, which says the topic's question in a line; a namespace costs one. A panel is one
# module, the first chart of a topic another: CONTRIBUTING.md says how to add them, so there is space for one.
MOST_MODULES = 240
# Statements without docstrings and declared types: a measure that the formatter has no say in. Facts are tables, so a
# statement is seldom a long one. The last thousand are commands: those of engines, which start what was chosen, and
# of a shell.
MOST_STATEMENTS = 35_100
MOST_STATEMENTS_OF_A_MODULE = 400
MOST_NAMES = 40  # of the front door; the last is `cb.crossbar`, formulas that a reader swaps in recipe 15

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(PACKAGE.rglob("*.py"))
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


def project_files() -> list[Path]:
    """Files that git tracks or would track; all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def statements(tree: ast.AST) -> int:
    """Return the number of statements below `tree` that do something: no docstrings, no declared types."""
    return sum(isinstance(node, ast.stmt) and not (is_text(node) or is_type(node)) for node in ast.walk(tree))


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_type(node: ast.stmt) -> bool:
    """Return whether a statement says the type of a name and gives it no value."""
    return isinstance(node, ast.AnnAssign) and node.value is None


def test_what_counts_as_a_statement():
    text = '"""Docstring.\n\nMore."""\n\n# comment\nx = (\n    1,\n)\n\ndef f():\n    """One."""\n    return x\n'
    assert statements(ast.parse(text)) == 3
    assert statements(ast.parse("x: int\ny: int = 1\n")) == 1


@each_module
def test_modules_are_short(path):
    assert statements(tree_of(path)) <= MOST_STATEMENTS_OF_A_MODULE


def test_the_house_is_small():
    number = sum(statements(tree_of(path)) for path in MODULES)
    assert len(MODULES) <= MOST_MODULES, f"{len(MODULES)} modules: fold what belongs together"
    assert number <= MOST_STATEMENTS, f"{number:,} statements"


def test_functions_are_mostly_short():
    lengths = {
        f"{path.relative_to(PACKAGE)}:{node.name}": statements(node) - 1
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
    }
    long = {name: length for name, length in lengths.items() if length > 18}
    assert len(long) <= len(lengths) / 20, f"more than one function in twenty exceeds 18 statements: {long}"
    assert not {name: length for name, length in long.items() if length > 54}


@each_module
def test_public_names_are_few(path):
    nodes = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in tree_of(path).body if isinstance(node, nodes) and not node.name.startswith("_")]
    assert len(names) <= 30


def test_front_door_is_small():
    assert len(cookbook.__all__) <= MOST_NAMES
    guide = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("\n", " ")
    assert guide.count(f"{MOST_NAMES} names") == 1 and guide.count(f"{MOST_NAMES} public names") == 1


def test_class_hierarchies_are_flat():
    parents = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }
    for name, bases in parents.items():
        for base in bases & set(parents):
            assert not parents[base] & set(parents), f"{name} stands on {base}, which stands on another of ours"


def test_no_drawer_for_odds_and_ends():
    names = {path.stem for path in MODULES} | {path.name for path in PACKAGE.rglob("*") if path.is_dir()}
    assert not names & {"utils", "util", "helpers", "misc", "common", "tools"}


def test_nothing_is_left_to_do_in_comments():
    mark = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    for path in {*MODULES, *(ROOT / "tests").rglob("*.py")} - {Path(__file__).resolve()}:
        assert not mark.search(path.read_text(encoding="utf-8")), path


def run(*command: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


def test_style_and_no_code_in_comments():
    result = run(sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise")
    assert result.returncode == 0, result.stdout
    result = run(sys.executable, "-m", "ruff", "format", "--check", "--no-cache")
    assert result.returncode == 0, result.stdout


@pytest.mark.all
def test_types():
    result = run(sys.executable, "-m", "mypy")
    assert result.returncode == 0, result.stdout


def test_import_is_light():
    code = "import cookbook, sys; print(*({'pandas', 'altair', 'ipywidgets', 'anywidget', 'numpy'} & set(sys.modules)))"
    assert run(sys.executable, "-c", code).stdout.strip() == ""


def test_every_name_of_the_front_door_opens():
    for name in cookbook.__all__:
        assert getattr(cookbook, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        cookbook.no_such_name  # noqa: B018


FOREIGN = re.compile(
    r"(py" + r"pi\.org|python" + r"hosted\.org|registry\.npm" + r"js|conda\.ana" + r"conda|"
    r"/(?:root|work|tmp)/" + r"\w|/home/(?!jovyan)" + r"\w|[A-Z]:\\Us" + r"ers|\.\./sha" + r"red)"
)


def test_no_registry_host_and_no_path_of_one_machine():
    for path in project_files():
        if path.suffix in {".png", ".whl"} or not (text := readable(path)):
            continue
        found = FOREIGN.search(text)
        assert not found, f"{path.relative_to(ROOT)} holds {found[0]!r}"


def readable(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_relative_links_lead_somewhere():
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "notebooks").rglob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "notebooks").glob("history/*.ipynb"),
    ]
    for page in pages:
        for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_requirements_are_hashed_and_agree():
    pinned = {}
    for name in ("binder/requirements.txt", "tests/requirements.txt", "tests/installer.txt"):
        text = (ROOT / name).read_text()
        entries = re.findall(r"^([\w.-]+)==([^\s;]+)(.*?)(?=^[\w.-]+==|\Z)", text, re.S | re.M)
        assert entries and all("--hash=sha256:" in rest for _, _, rest in entries), name
        pinned[name] = {(package, version) for package, version, _ in entries}
    assert pinned["binder/requirements.txt"] <= pinned["tests/requirements.txt"], "run `make lock`"
    assert pinned["tests/installer.txt"] <= pinned["tests/requirements.txt"], "run `make lock`"
    assert not (ROOT / "uv.lock").exists()


def test_declared_dependencies_are_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, wanted in (
        ("binder", project["dependencies"] + project["optional-dependencies"]["lab"]),
        ("tests", project["optional-dependencies"]["test"]),
    ):
        locked = (ROOT / name / "requirements.txt").read_text()
        for requirement in wanted:
            package = re.match(r"[\w.-]+", requirement)[0]
            assert package == project["name"] or f"\n{package}==" in locked, f"{package} is not locked: run `make lock`"
