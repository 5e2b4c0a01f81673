"""One definition of an idea: each has one home, and no other function or library does the same."""

import ast
import re
from functools import cache

import pytest
from syntax import PACKAGE, package_trees, tree_of

from cookbook.catalog.parts import part_groups

# Idea -> its home, words that name functions of it, arguments that they take, and libraries that have it.
IDEAS = {
    "quantile of Student's t": (
        "evidence/__init__.py:student_t",
        re.compile(r"(?:^|_)(?:students?_(?:t|quantile|factor|reach)|t_(?:quantile|ppf|value|factor)|critical_t)$"),
        {"freedom", "dof", "degrees_of_freedom"},
        {"scipy": ()},
    ),
    "nearest name": (
        "catalog/reading.py:nearest",
        re.compile(r"^_?(?:(?:nearest|closest|close)(?:_(?:names?|matches|spellings?|words?))?|did_you_mean)$"),
        set[str](),
        {"difflib": ("catalog/reading.py",), "rapidfuzz": (), "Levenshtein": (), "jellyfish": ()},
    ),
}


def functions_of(tree: ast.AST, words: re.Pattern[str], arguments: set[str]) -> list[str]:
    """Functions and methods whose name or arguments say that they are of an idea."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [
        node.name
        for node in found
        if words.search(node.name) or arguments & {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
    ]


def libraries_of(tree: ast.AST) -> set[str]:
    """Libraries imported, wherever in a module."""
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in found}


@cache
def libraries_by_module() -> dict[str, set[str]]:
    """Libraries that each module of the package imports."""
    return {name: libraries_of(tree) for name, tree in package_trees().items()}


# Who else tells a number from a flag and refuses it, and why: cells of files and of documents, controls of panels, what
# builders of networks declare by type, and what has no single value. An argument of a public function is none of these.
ELSEWHERE = {
    "catalog/prices.py:__post_init__": "a record that is made, of arrays too",
    "hardware/topology.py:_rate": "a rate of a link, infinite too",
    "lesson.py:check": "a lesson, which opens without tables",
    "lesson.py:_value": "what is right: a number, a word or a function",
    "panels/controls.py:from_link": "a control",
    "panels/controls.py:_number": "a control",
    "prediction/requirements.py:_array": "batches of a sweep, of which single ones may be wrong",
    "prediction/scenario.py:_truth": "a column of a scenario, yes and no in words",
    "prediction/scenario.py:_recompute": "a column of a scenario: words, shares and modules",
    "topics/accuracy/measurements_panel.py:_year": "a control",
    "topics/accuracy/measurements_panel.py:_like": "a control",
    "topics/cluster/jobs.py:_urgent": "a cell of a table",
    "topics/cluster/study.py:_team_quotas": "numbers of teams, bounded by the cluster",
    "topics/machine/report.py:_check_document": "a document",
    "topics/machine/report.py:_check_plain": "a document",
    "topics/machine/report.py:_number": "a cell of a document",
    "topics/storage/host.py:one_data_set": "one of what may be several",
    "workloads/arguments.py:check": "an argument of a builder",
    "workloads/arguments.py:_check_members": "an argument of a builder",
    "workloads/builders/sequence.py:_numbers": "an argument of a builder",
    "workloads/readers/fields.py:flag": "a field of a file",
    "workloads/readers/fields.py:number": "a field of a file",
}
CHECKS = "catalog/fields.py"


def tells_flags_from_numbers(function: ast.FunctionDef) -> bool:
    """Whether a function asks whether something is a flag, and refuses something: the mark of a check by hand."""
    asked = [
        node.args[1]
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    ]
    named = {getattr(part, "id", getattr(part, "attr", "")) for kinds in asked for part in ast.walk(kinds)}
    return bool(named & {"bool", "bool_"}) and any(isinstance(node, ast.Raise) for node in ast.walk(function))


def checks_of(tree: ast.AST) -> list[str]:
    """Functions that check by hand, the inner ones of a function by its own name."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node.name for node in found if tells_flags_from_numbers(node)]


@pytest.mark.parametrize("idea", IDEAS)
def test_an_idea_has_one_definition(idea):
    home, words, arguments, _ = IDEAS[idea]
    found = [
        f"{name}:{each}" for name, tree in package_trees().items() for each in functions_of(tree, words, arguments)
    ]
    assert found == [home], f"{idea}: call {home} in place of {set(found) - {home}}"


def test_parts_of_a_step_are_named_in_one_table():
    """Parts of predictions, colours, titles and explanations are columns of data/parts.csv, and no mapping of code."""
    assert mappings_of(
        ast.parse("NAMES = {'launch': 1, 'bubble': 2, 'waiting': 3}"), {"launch", "bubble", "x", "y"}
    ) == [1]
    names = set(part_groups())
    found = {name: lines for name, tree in package_trees().items() if (lines := mappings_of(tree, names))}
    assert not found, f"{found}: ask cookbook.catalog.parts.part_groups"


def mappings_of(tree, names):
    """Lines of mappings that name half of some names, or more."""
    dicts = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    keys = [(node.lineno, {key.value for key in node.keys if isinstance(key, ast.Constant)}) for node in dicts]
    return [line for line, known in keys if 2 * len(known & names) >= len(names)]


@pytest.mark.parametrize("idea", IDEAS)
def test_only_its_home_imports_a_library_for_it(idea):
    for library, homes in IDEAS[idea][3].items():
        users = tuple(name for name, libraries in libraries_by_module().items() if library in libraries)
        assert users == homes, f"{idea}: {users} import {library}"


def test_values_of_the_table_of_constants_are_read_in_one_place():
    """`catalog.constant` reads values; recipe 15 lists sources of rows."""
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    users = {name for name, text in texts.items() if re.search(r"""table\(["']constants["']\)""", text)}
    assert users == {"catalog/tables.py", "topics/analog/panel.py"}, f"{users}: call cookbook.catalog.constant"


def test_arguments_are_checked_in_one_place():
    """A public function declares its arguments: `checked` and `Field` of catalog/fields read them, in one wording."""
    found = {f"{name}:{each}" for name, tree in package_trees().items() if name != CHECKS for each in checks_of(tree)}
    assert found == set(ELSEWHERE), f"declare {found - set(ELSEWHERE)} in {CHECKS}; gone: {set(ELSEWHERE) - found}"


def test_a_check_by_hand_is_found():
    planted = ast.parse(
        "def whole(name, value):\n    if isinstance(value, bool) or value < 1:\n        raise ValueError\n"
        "def flag(name, value):\n    if not isinstance(value, (bool, np.bool_)):\n        raise refused(name)\n"
        "def shown(value):\n    return isinstance(value, bool)\ndef text(value):\n    raise ValueError"
    )
    assert checks_of(planted) == ["whole", "flag"]
    one = tree_of(PACKAGE / CHECKS)
    assert {"to_number", "_flag"} <= set(checks_of(one))


def test_a_second_definition_is_found():
    """Those that there once were, and what else one would write."""
    t, near = (IDEAS[idea][1:3] for idea in IDEAS)
    planted = ast.parse(
        "def student(level, freedom): ...\ndef student_quantile(share, free): ...\ndef _t_ppf(p, n): ...\n"
        "class Names:\n    def nearest(self, name): ...\ndef closest_names(name): ...\ndef student(path, out): ...\n"
        "def nearest_divisors(value, whole): ..."
    )
    assert functions_of(planted, *t) == ["student", "student_quantile", "_t_ppf"]
    assert functions_of(planted, *near) == ["closest_names", "nearest"]
    imported = ast.parse("def f():\n    from scipy.stats import t\nimport difflib as d")
    assert libraries_of(imported) == {"scipy", "difflib"}
