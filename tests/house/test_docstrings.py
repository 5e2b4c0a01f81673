"""Docstrings are part of the interface: units, arguments, references and examples are read and run here."""

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from syntax import PACKAGE, tree_of

import cookbook

ROOT = Path(__file__).resolve().parents[2]
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__main__.py"]
UNIT = re.compile(r"\[[^\[\]]+\]")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# First words of a docstring that asks a question or states a condition, in the place of what it returns.
QUESTION_WORDS = ("What", "How", "Whether", "Where", "Why", "If", "Who")


def questions(tree: ast.Module) -> list[str]:
    """Names of a module, its classes and functions, inner ones too, whose docstring begins with a question word."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    pattern = re.compile(rf"(?:{'|'.join(QUESTION_WORDS)})\b")
    return [getattr(node, "name", "module") for node in nodes if pattern.match(ast.get_docstring(node) or "")]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def functions(path: Path) -> list[tuple[str, ast.FunctionDef]]:
    """Public functions of a module and public methods of its public classes."""
    found = []
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found += [(f"{node.name}.{item.name}", item) for item in node.body if isinstance(item, ast.FunctionDef)]
        elif isinstance(node, ast.FunctionDef):
            found.append((node.name, node))
    return [(name, node) for name, node in found if not node.name.startswith("_")]


def case(path: Path, name: str, node: ast.FunctionDef):
    return pytest.param(node, id=f"{dotted(path)}.{name}")


def physics() -> list:
    """Public formulas: the functions of floor 1 that a reader may swap."""
    return [
        case(path, name, node)
        for path in MODULES
        if path.parent.name == "formulas" and not path.stem.startswith("_")
        for name, node in functions(path)
    ]


def front_door() -> list:
    """Functions that readers call: the names of `import cookbook as cb`, and the publishing verbs."""
    doors = {(f"cookbook.{home}", name) for name, home in cookbook._HOMES.items()}
    found = []
    for path in MODULES:
        module, publishing = dotted(path), path.parent.name == "publish"
        names = {name for home, name in doors if module.startswith(home)}
        found += [case(path, *each) for each in functions(path) if publishing or each[0].split(".")[0] in names]
    return found


def arguments(node: ast.FunctionDef) -> list[str]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in every if argument.arg not in ("self", "cls")]


def sections(docstring: str) -> dict[str, str]:
    """Sections of a numpy-style docstring by heading; the text before the first is `Summary`."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.M)
    return {"Summary": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(section: str) -> dict[str, str]:
    """Names of a Parameters section with the text below each."""
    parts = re.split(r"^(\*{0,2}\w[\w, ]*?)(?: : .*)?\n(?=    )", section, flags=re.M)
    return {
        name.strip("* "): text
        for names, text in zip(parts[1::2], parts[2::2], strict=True)
        for name in names.split(",")
    }


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_modules_and_classes_say_what_they_are(path):
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{path.name} has no docstring"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"class {node.name} has no docstring"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_docstrings_begin_with_a_noun_or_a_verb(path):
    """ "Return the number of ...", or a noun phrase: subject, verb, object."""
    names = questions(tree_of(path))
    assert not names, f"{names}: begin with 'Return ...' or a noun phrase, not with {', '.join(QUESTION_WORDS)}"


def test_a_docstring_that_asks_is_found():
    planted = ast.parse(
        '"""Whatever."""\ndef few():\n    """How many."""\ndef known():\n    """Return whether it is known."""\n'
        'class Rows:\n    """Why."""\n    def first(self):\n        """Iffy."""\n'
    )
    assert questions(planted) == ["few", "Rows"]


@pytest.mark.parametrize("node", physics())
def test_physics_states_units_source_and_example(node):
    docstring = ast.get_docstring(node)
    assert docstring, "no docstring"
    found = sections(docstring)
    assert {"Parameters", "Returns", "References", "Examples"} <= set(found)
    assert ".. math::" in found["Summary"]
    parameters = described(found["Parameters"])
    assert list(parameters) == arguments(node), "Parameters and signature disagree"
    for name, text in parameters.items():
        assert UNIT.search(text), f"{name} states no [unit]"
    assert UNIT.search(found["Returns"]), "Returns states no [unit]"
    assert re.search(r"\b(19|20)\d\d\b", found["References"]), "References names no dated source"
    assert ">>>" in found["Examples"]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_public_function_says_what_it_gives(path):
    for name, node in functions(path):
        summary = (ast.get_docstring(node) or "").split("\n\n")[0].rstrip()
        assert summary.endswith((".", "?", ":")), f"{name} has no summary sentence"


@pytest.mark.parametrize("node", front_door())
def test_front_door_explains_arguments_and_errors(node):
    """Each argument is named in the docstring (`in backticks` or under Parameters) and typed there or in the code."""
    docstring = ast.get_docstring(node) or ""
    listed = described(sections(docstring).get("Parameters", ""))
    every = {argument.arg: argument for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    for name in arguments(node):
        assert name in listed or re.search(rf"`+{name}\b", docstring), f"argument {name} is not explained"
        assert name in listed or every[name].annotation, f"argument {name} has no type"
    raised = {
        item.exc.func.id
        for item in ast.walk(node)
        if isinstance(item, ast.Raise) and isinstance(item.exc, ast.Call) and isinstance(item.exc.func, ast.Name)
    }
    # Arguments are refused by `refused`, which makes a ValueError of what is wrong.
    raised = {"ValueError" if name.lower() == "refused" else name for name in raised}
    for name in raised - {"SystemExit"}:
        assert name in docstring, f"{name} is raised but not mentioned"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_examples_run(path):
    module = importlib.import_module(dotted(path))
    failed, _ = doctest.testmod(module, optionflags=FLAGS)
    assert not failed


def test_signatures_match_what_is_imported():
    """A decorator must not hide the arguments that the docstring explains."""
    paths = sorted((PACKAGE / "formulas").glob("*.py"))
    assert paths
    for path in paths:
        module = importlib.import_module(dotted(path))
        for name, node in functions(path):
            assert list(inspect.signature(getattr(module, name)).parameters) == arguments(node)
