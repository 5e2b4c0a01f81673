"""Budgets of a notebook page, so that each stays short, readable and accessible."""

import ast
import re
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import median

import nbformat

from cookbook.publish.notebook import read

MAX_BYTES = 300_000
CELLS, WORDS, PROSE_SHARE = (22, 36), (600, 2500), (0.45, 0.65)
MEDIAN_LINES, P90_LINES, MAX_LINES = 3, 8, 10
MAX_IMPORTS, MAX_DEF_LINES, MAX_PARAMETERS = 4, 8, 6
ALLOWED_IMPORTS = ("cookbook", "numpy", "pandas", "altair", "math")
PLUMBING = ("observe", "on_click", "interact", "interactive", "interactive_output", "jslink", "on_trait_change")
EMPTY_LINKS = ("click here", "here", "link", "this link", "this", "more", "read more")

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
_HEADING = re.compile(r"^(#{1,6})\s+\S", re.M)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\([^)]*\)")
_WORD = re.compile(r"[^\W_][\w'’.,-]*")


def lint(path: str | Path) -> list[str]:
    """Problems of the notebook at `path`, one plain sentence each; empty if it keeps every budget."""
    path = Path(path)
    notebook = read(path)
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    recipe = bool(re.match(r"\d\d-", path.name)) and not path.name.startswith("00-")
    problems = _size(path, notebook, prose, recipe)
    problems += _headings(prose) + _words_and_pictures(prose)
    problems += _code(code)
    problems += _cells(notebook, code, recipe)
    return problems


def code_lines(source: str) -> int:
    """Lines of `source` that a reader must follow: neither blank nor comment only."""
    return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))


def words(prose: list[str]) -> int:
    """Words in the markdown cells `prose`, without code, formulas, addresses and tags."""
    text = "\n".join(_FENCE.sub(" ", source) for source in prose)
    for pattern in (r"\$\$.*?\$\$", r"\$[^$\n]+\$", r"`[^`]*`", r"\]\([^)]*\)", r"<[^>]+>"):
        text = re.sub(pattern, " ", text, flags=re.S)
    return len(_WORD.findall(text))


def _size(path: Path, notebook: nbformat.NotebookNode, prose: list[str], recipe: bool) -> list[str]:
    # The check of an exercise belongs to the answer above it; a question is read and not run through.
    problems, kinds = [], [set(cell.metadata.get("tags", [])) for cell in notebook.cells]
    cells, told = (sum(not kind & tags for kind in kinds) for tags in ({"check"}, {"check", "question"}))
    if path.stat().st_size > MAX_BYTES:
        problems.append(f"file has {path.stat().st_size / 1e3:.0f} kB; at most {MAX_BYTES / 1e3:.0f}")
    share = len(prose) / max(told, 1)
    if not PROSE_SHARE[0] <= share <= PROSE_SHARE[1]:
        problems.append(f"{share:.0%} of the cells are prose; {PROSE_SHARE[0]:.0%} to {PROSE_SHARE[1]:.0%} wanted")
    if recipe and not CELLS[0] <= cells <= CELLS[1]:
        problems.append(f"{cells} cells; a recipe has {CELLS[0]} to {CELLS[1]}")
    count = words(prose)
    if recipe and not WORDS[0] <= count <= WORDS[1]:
        problems.append(f"{count} words; a recipe has {WORDS[0]} to {WORDS[1]}")
    return problems


def _headings(prose: list[str]) -> list[str]:
    levels = [len(mark) for source in prose for mark in _HEADING.findall(_FENCE.sub("", source))]
    problems = []
    if levels.count(1) != 1 or levels[0] != 1:
        problems.append(f"{levels.count(1)} headings of level 1; exactly one is wanted, and it comes first")
    for above, below in pairwise(levels):
        if below > above + 1:
            problems.append(f"a heading of level {below} follows one of level {above}: a level is skipped")
    return problems


def _words_and_pictures(prose: list[str]) -> list[str]:
    problems = []
    for source in prose:
        text = _FENCE.sub("", source)
        if any(not alt.strip() for alt in _IMAGE.findall(text)):
            problems.append("a picture has no alternative text")
        if any(not re.search(r"\balt\s*=\s*[\"'][^\"']+", tag) for tag in re.findall(r"<img\b[^>]*>", text)):
            problems.append("an <img> has no alternative text")
        for label in _LINK.findall(text):
            if label.strip().lower() in EMPTY_LINKS:
                problems.append(f"link text {label!r} does not say where it leads")
        if "click here" in text.lower():
            problems.append("the text says 'click here'")
    return problems


def _code(cells: list[nbformat.NotebookNode]) -> list[str]:
    """Budgets of code; folded cells (questions, solutions, checks), which nobody follows, count for the longest."""
    sources = [cell.source for cell in cells]
    shown = [cell.source for cell in cells if not cell.metadata.get("jupyter", {}).get("source_hidden", False)]
    lengths = sorted(count for count in map(code_lines, shown) if count)
    if not lengths:
        return ["no code"]
    problems, p90 = [], lengths[ceil(0.9 * len(lengths)) - 1]
    for name, value, limit in (
        ("median", median(lengths), MEDIAN_LINES),
        ("90th percentile", p90, P90_LINES),
        ("longest", max(map(code_lines, sources)), MAX_LINES),
    ):
        if value > limit:
            problems.append(f"code lines a cell: {name} is {value:g}; at most {limit}")
    try:
        tree = ast.parse("\n".join(sources))
    except SyntaxError as error:
        return [*problems, f"code is not plain Python: {error.msg}"]
    return problems + _statements(tree)


def _statements(tree: ast.Module) -> list[str]:
    problems, imports = [], 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += 1
            problems += _import(node)
        elif isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > MAX_DEF_LINES:
            problems.append(f"function {node.name} is longer than {MAX_DEF_LINES} lines; it belongs in the package")
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in PLUMBING:
                problems.append(f"widget plumbing ({name}); it belongs in the package")
    if imports > MAX_IMPORTS:
        problems.append(f"{imports} import lines; at most {MAX_IMPORTS}")
    return problems


def _import(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        names = [(f"{node.module}.{alias.name}", alias.asname) for alias in node.names]
    else:
        names = [(alias.name, alias.asname) for alias in node.names]
    problems = []
    for name, alias in names:
        if name.split(".")[0] == "cookbook" and (name, alias) != ("cookbook", "cb"):
            problems.append(f"imports {name}; a notebook imports the package as `import cookbook as cb`, no deeper")
        elif name.split(".")[0] not in ALLOWED_IMPORTS:
            problems.append(f"imports {name}; a notebook needs only {', '.join(ALLOWED_IMPORTS)}")
    return problems


def _cells(notebook: nbformat.NotebookNode, code: list[nbformat.NotebookNode], recipe: bool) -> list[str]:
    problems = []
    parameters = [cell.source for cell in code if "parameters" in cell.metadata.get("tags", [])]
    if len(parameters) > 1 or (recipe and not parameters):
        problems.append(f"{len(parameters)} cells tagged parameters; exactly one is wanted")
    problems += [problem for source in parameters for problem in _parameters(source)]
    for cell in notebook.cells:
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        if "solution" in cell.metadata.get("tags", []) and not hidden:
            problems.append(f"solution cell {cell.get('id', '?')} is not folded (jupyter.source_hidden)")
    for cell in code:
        for output in cell.outputs:
            if output.output_type == "error":
                problems.append(f"cell {cell.get('id', '?')} stores an error: {output.ename}")
            if "image/png" in output.get("data", {}) and "text/plain" not in output["data"]:
                problems.append(f"picture of cell {cell.get('id', '?')} has no words beside it")
    return problems


def _parameters(source: str) -> list[str]:
    problems, lines = [], source.splitlines()
    statements = ast.parse(source).body
    if len(statements) > MAX_PARAMETERS:
        problems.append(f"{len(statements)} parameters; at most {MAX_PARAMETERS}")
    for node in statements:
        text = lines[(node.end_lineno or 1) - 1]
        try:
            ast.literal_eval(node.value if isinstance(node, ast.Assign) else node)
        except (ValueError, TypeError):
            problems.append(f"parameter line {text!r} is not a plain literal")
        if "#" not in text:
            problems.append(f"parameter line {text!r} does not say its unit in a comment")
    return problems
