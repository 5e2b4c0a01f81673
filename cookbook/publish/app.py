"""All panels as one app for a classroom: a first page that asks for the decision, and a page for each panel."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from jinja2 import Environment, FileSystemLoader

from cookbook import panels

HERE = Path(__file__).parent
# Decisions on the first page, and the panels that lead to an answer, in the order in which to open them.
DECISIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("I must buy or rent hardware for a training run", ("model_zoo", "accelerators", "training_run", "where_to_run")),
    ("I must fine-tune a model on what I have", ("finetuning", "model_zoo", "where_to_run")),
    ("I must serve a model to users", ("serving", "accelerators", "where_to_run")),
    ("I must make a slow training step faster", ("clinic", "host", "storage")),
    ("I must share a cluster, or buy one thing for a whole group", ("cluster", "stack", "where_to_run")),
    ("I must judge a chip of a new kind", ("crossbar", "accelerators")),
    ("I must split a model over many devices", ("scaling", "assembly_line", "training_run")),
    ("I must judge whether a figure can be believed", ("accuracy", "measurements", "this_machine")),
)


@dataclass(frozen=True)
class Question:
    """A panel on the first page: its name, its question, the number of its recipe, and its full question."""

    name: str
    title: str
    recipe: str
    line: str


@cache
def questions() -> tuple[Question, ...]:
    """Return every panel, in the order of the recipes, in the words of its own module; nothing is imported.

    Examples
    --------
    >>> questions()[0]
    Question(name='finetuning', title='Can I fine-tune this model on that GPU?', recipe='01', line='Can this language \
model be fine-tuned on these GPUs, by which method, and what would help?')
    """
    entries = []
    for name, home in panels.RECIPES.items():
        path = Path(panels.__file__).parents[1].joinpath(*home.split(".")).with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        maker = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
        where, _, line = (ast.get_docstring(tree) or "").partition("\n")[0].partition(": ")
        title = (ast.get_docstring(maker) or "").partition('"')[2].partition('"')[0]
        entries.append(Question(name, title, where.rpartition(" ")[2], line[:1].upper() + line[1:]))
    return tuple(sorted(entries, key=lambda entry: (entry.recipe, entry.name)))


def first_page(base: str = "/") -> str:
    """Return HTML that asks what the reader must decide, and lists every panel; `base` is the app's address."""
    words = "Choose what is nearest to your decision, and take its questions in their order."
    return _page(base, "What must you decide?", words, False)


def problem_page(title: str, words: str, base: str = "/") -> str:
    """Return HTML on why a page cannot be opened (`title`) and what to do (`words`), with the panels below `base`."""
    return _page(base, title, words, True)


def _page(base: str, title: str, words: str, problem: bool) -> str:
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True)
    by_name = {entry.name: entry for entry in questions()}
    decisions = [(decision, [by_name[name] for name in names]) for decision, names in DECISIONS]
    return environment.get_template("app.html").render(
        base=base, title=title, words=words, problem=problem, panels=questions(), decisions=decisions
    )


def notebook(most_bytes: float | None) -> nbformat.NotebookNode:
    """Return the notebook behind every page: one cell, run before any request; `most_bytes` as of a page."""
    source = f"from cookbook.panels.listing import page\npage({most_bytes!r})"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "title": "Deep Learning Cookbook"}
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="page")], metadata=metadata)
