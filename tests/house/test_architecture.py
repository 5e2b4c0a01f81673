"""The floors of the house: imports point downward and never in a circle, read from the source with ast."""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import nbformat
import pytest
from syntax import PACKAGE, tree_of

import cookbook

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {
    "namespace": 1,
    "units": 1,
    "progress_bar": 1,
    "result": 1,
    "formulas": 1,
    "catalog": 2,
    "charts": 3,
    "hardware": 3,
    "workloads": 3,
    "prediction": 4,
    "evidence": 5,
    "calibration": 6,
    "lesson": 6,
    "panels": 6,
    "topics": 7,
    "measure": 8,
    "planning": 8,
    "publish": 9,
}
MODULES = sorted(PACKAGE.rglob("*.py"))
# Rooms that read prose, and so may import regular expressions; logs and counters of other tools are prose too.
READS_PROSE = ("prediction/parsing", "catalog/", "publish/", "topics/clinic/")
# Modules of a warm call of `cb.train_step`: between the door and the deepest formula, and all that it enters; both are
# lowered as the walk gets shorter, and eight in all is where it should end. One of the walk is the check of arguments.
MOST_MODULES_OF_A_WALK, MOST_MODULES_ENTERED = 7, 21
# What a floor must not know, beyond the floors above it.
FORBIDDEN_LIBRARIES = {
    "units": {"numpy", "pandas", "altair", "ipywidgets", "anywidget"},
    "result": {"altair", "ipywidgets", "anywidget"},
    "catalog": {"altair", "ipywidgets", "anywidget"},
    "hardware": {"altair", "ipywidgets", "anywidget"},
    "workloads": {"altair", "ipywidgets", "anywidget"},
    "prediction": {"altair", "ipywidgets", "anywidget"},
    "evidence": {"altair", "ipywidgets", "anywidget"},
    "calibration": {"altair", "ipywidgets", "anywidget"},
}
# Within a topic, models know neither charts nor panels, and charts no models. A topic uses another one only as here.
MAY_USE = {
    "cluster": {"costs", "sweeps"},
    "clinic": {"machine"},
    "devices": {"costs"},
    "models": {"machine", "runs"},
    "purchase": {"costs", "devices", "runs", "serving"},
    "runs": {"sweeps"},
    "serving": {"costs", "devices"},
}


def room(path: Path) -> str:
    """Module or subpackage of cookbook that `path` belongs to; empty for the top files."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first.startswith("__") else first


@cache
def imports(path: Path, typing: bool = True) -> set[str]:
    """Full dotted names that the module imports, wherever in it; without `typing` only those that are run."""
    tree, names = tree_of(path), set()
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    unrun = set() if typing else {id(inner) for node in guards for each in node.body for inner in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) in unrun:
            continue
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


def is_drawn(path: Path) -> bool:
    """Whether a module of a topic holds its charts or its panel."""
    return room(path) == "topics" and path.stem.endswith(("charts", "panel", "measuring"))


TOPICS = [path for path in MODULES if room(path) == "topics"]


@pytest.mark.parametrize("path", TOPICS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_topics_are_models_below_charts_and_panels(path):
    topic, used = (
        path.parent.name,
        {name.split(".")[2] for name in imports(path) if name.startswith("cookbook.topics.")},
    )
    assert used - {topic} <= MAY_USE.get(topic, set()), f"{topic} uses {used - {topic}}: say so in MAY_USE, or move it"
    if not is_drawn(path):
        drawn = {name for name in imports(path) if "panel" in name or name.startswith("cookbook.charts")}
        assert not drawn, f"a model knows how it is drawn: {drawn}"
        assert not {name.split(".")[0] for name in imports(path)} & FORBIDDEN_LIBRARIES["prediction"]
    elif path.stem == "charts":
        known = {name for name in imports(path) if name.startswith("cookbook.")}
        assert all(name.startswith(("cookbook.charts", "cookbook.units")) for name in known), known


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_import_goes_in_a_circle():
    """Neither between folders nor inside one, imports within functions included."""
    paths = {dotted(path): path for path in MODULES}
    needs = {}
    for name, path in paths.items():
        named = {each if each in paths else each.rpartition(".")[0] for each in imports(path, typing=False)}
        needs[name] = {each for each in named & set(paths)} - {name}
    try:
        tuple(TopologicalSorter(needs).static_order())
    except CycleError as error:
        pytest.fail(f"imports go in a circle: {' -> '.join(error.args[1])}")


def test_calibration_is_an_offline_tool():
    """What it finds is in tables: nothing imports it but itself and, within their functions, commands of the shell."""
    shell = PACKAGE / "__main__.py"
    others = [path for path in MODULES if room(path) != "calibration"]
    users = {path.relative_to(PACKAGE).as_posix() for path in others if "calibration" in rooms_used(path)}
    assert users == {"__main__.py"}, f"{users - {'__main__.py'}}: move what is read at run time to cookbook/evidence"
    functions = [node for node in tree_of(shell).body if isinstance(node, ast.FunctionDef)]
    within = {id(inner) for node in functions for inner in ast.walk(node)}
    found = [node for node in ast.walk(tree_of(shell)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [node.lineno for node in found if id(node) not in within and "calibration" in ast.dump(node)]
    # Names that a door loads when they are first asked for are texts.
    texts = {
        (path.name, node.value)
        for path in others
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not {each for each in texts if each[1].startswith(("calibration.", "cookbook.calibration"))}


def test_regular_expressions_stay_where_prose_is_read():
    found = {path.relative_to(PACKAGE).as_posix() for path in MODULES if {"re", "regex"} & imported_libraries(path)}
    elsewhere = {name for name in found if not name.startswith(READS_PROSE)}
    assert not elsewhere, f"{elsewhere}: read prose in prediction/parsing"


def imported_libraries(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def unstable_sorts(tree: ast.AST) -> list[int]:
    """Lines that sort by one key and leave the order of ties to the processor's vector units."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return [
        call.lineno
        for call in calls
        if call.func.attr in ("sort_values", "argsort")
        and "kind" not in {keyword.arg for keyword in call.keywords}
        and not (call.args and isinstance(call.args[0], ast.List | ast.Tuple) and len(call.args[0].elts) > 1)
    ]


def test_ties_are_sorted_alike_on_every_processor():
    assert unstable_sorts(ast.parse("x.sort_values('a')\nnp.argsort(x)\nx.sort_values(['a', 'b'])")) == [1, 2]
    notebooks = [*(ROOT / "notebooks").glob("[0-9]*.ipynb"), *(ROOT / "notebooks").glob("history/*.ipynb")]
    cells = {
        f"{path.name} [{at}]": cell.source
        for path in notebooks
        for at, cell in enumerate(nbformat.read(path, 4).cells)
        if cell.cell_type == "code"
    }
    places = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in MODULES} | cells
    wrong = {name: lines for name, text in places.items() if (lines := unstable_sorts(ast.parse(text)))}
    assert not wrong, f'{wrong}: sort with kind="stable", or by a second column'


def test_no_handler_catches_everything():
    """A handler of every exception hides mistakes of ours beside those of the reader."""
    found = set()
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ExceptHandler):
                caught = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {""}
                if caught & {"Exception", "BaseException", ""}:
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert not found


def test_the_walk_from_the_door_to_the_formula_is_short():
    """Modules on the way down, from the call of the door to a formula, and all that the call enters."""
    step, longest, entered = cookbook.train_step, set(), set()
    call = {"devices": 64, "tp": 8, "pp": 2, "global_batch": 64}
    step("llama2_7b", "h100-sxm", **call)

    def enter(frame, event, _):
        nonlocal longest
        if event == "call" and frame.f_globals.get("__name__", "").startswith("cookbook."):
            entered.add(frame.f_globals["__name__"])
        if event == "call" and frame.f_globals.get("__name__", "").startswith("cookbook.formulas."):
            walk = set()
            while frame is not None:
                walk.add(frame.f_globals.get("__name__", ""))
                frame = frame.f_back
            walk = {name for name in walk if name.startswith("cookbook.")}
            longest = walk if len(walk) > len(longest) else longest

    sys.setprofile(enter)
    try:
        step("llama2_7b", "h100-sxm", **call)
    finally:
        sys.setprofile(None)
    assert 0 < len(longest) <= MOST_MODULES_OF_A_WALK, f"{len(longest)} modules: {sorted(longest)}"
    assert len(entered) <= MOST_MODULES_ENTERED, f"{len(entered)} modules: {sorted(entered)}"


def test_formulas_import_numpy_only():
    paths = sorted((PACKAGE / "formulas").glob("*.py"))
    assert paths
    for path in paths:
        foreign = {
            name
            for name in imports(path)
            if name.split(".")[0] not in {"numpy", "__future__", "typing", "collections", "functools", "statistics"}
            and not name.startswith("cookbook.formulas")
        }
        assert not foreign, f"{path.name} imports {foreign}"


def test_physics_stays_out_of_charts_and_panels():
    """Charts and panels draw what prediction says; they compute no times and no bytes themselves."""
    for path in MODULES:
        if room(path) in ("charts", "panels") or is_drawn(path):
            assert "formulas" not in rooms_used(path), f"{path.name} computes physics"


def test_no_literal_figures_of_devices_in_the_package():
    """Facts are data: no accelerator is named in Python, except in a docstring's example or a default argument."""
    names = {row.split(",")[0] for row in (ROOT / "data" / "accelerators.csv").read_text().splitlines()[1:]}
    for path in MODULES:
        tree = tree_of(path)
        named = {
            key.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant) and key.value in names
        }
        assert not named, f"{path.relative_to(ROOT)} tabulates {named}: make it rows of data/"


def test_notebooks_import_the_package_by_one_name():
    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks").glob("history/*.ipynb")]:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                for line in re.findall(r"^\s*(?:import|from)\s+cookbook.*", cell.source, re.M):
                    assert line.strip() == "import cookbook as cb", f"{path.name}: {line}"


def test_tab_shows_public_names_alone():
    import cookbook
    from cookbook import charts, panels, planning

    for module in (cookbook, charts, panels, planning):
        assert set(dir(module)) - {"__version__"} == set(module.__all__)
