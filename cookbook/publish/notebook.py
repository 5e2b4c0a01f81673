"""Notebooks executed and stored so that an unchanged run changes no byte, copies of them for students, and budgets that
keep each page short, readable and accessible.
"""

import ast
import base64
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import numpy as np
import papermill

from cookbook.catalog.files import check_target, write_bytes, write_text
from cookbook.units import percent

KEPT_CELL_METADATA = ("tags", "jupyter", "slideshow", "editable", "deletable")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SOLUTION = "solution"
PLACEHOLDER = {"code": "# your turn", "markdown": "*Your turn: write your answer here.*"}
SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IEND")


def read(path: str | Path) -> nbformat.NotebookNode:
    """Read the notebook at `path`; raises ValueError where the file is not a notebook."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except (ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as problem:
        cause = str(problem).splitlines()[0][:120] if str(problem) else type(problem).__name__
        raise ValueError(f"{path} is not a Jupyter notebook ({cause}): give a file that Jupyter saved") from None
    return notebook


def write(notebook: nbformat.NotebookNode, path: str | Path) -> Path:
    """Write `notebook` to `path` atomically."""
    return write_text(path, nbformat.writes(notebook).rstrip("\n") + "\n")


def execute(path: str | Path) -> Path:
    """Run the notebook at `path` with its default parameters and store the result in place.

    The stored file is only replaced once every cell has run.
    """
    read(path)
    return write(normalised(run_with(path)), path)


def run_with(path: str | Path, **parameters: Any) -> nbformat.NotebookNode:
    """Run the notebook at `path` with other values in its parameters cell; the file stays as it is.

    Parameters
    ----------
    path : str or Path
        Notebook to run.
    **parameters
        Values by name in the parameters cell.

    Returns
    -------
    nbformat.NotebookNode
        The executed copy.

    Raises
    ------
    ValueError
        If a name is not in the parameters cell. Papermill alone would ignore it.
    """
    path = Path(path).resolve()
    with TemporaryDirectory() as folder, _static_charts():
        source, done = Path(folder) / path.name, Path(folder) / f"done-{path.name}"
        notebook = read(path)
        notebook.metadata = _metadata()  # papermill needs the kernel's name, which a new notebook may lack
        nbformat.write(notebook, source)
        _refuse_unknown(parameters, list(papermill.inspect_notebook(str(source))), path.name)
        papermill.execute_notebook(
            str(source), str(done), parameters, cwd=str(path.parent), progress_bar=False, log_output=False
        )
        return nbformat.read(done, as_version=4)


def normalise(path: str | Path) -> Path:
    """Drop from the notebook at `path` whatever differs between two equal runs: timings, widget state, counters."""
    return write(normalised(read(path)), path)


def normalised(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the `notebook` without what differs between two equal runs; solutions and their output are folded."""
    notebook.metadata = _metadata()
    code_cells = 0
    for number, cell in enumerate(notebook.cells, start=1):
        cell.metadata = nbformat.from_dict(_stable_metadata(cell.metadata))
        cell.setdefault("id", f"cell-{number:02d}")
        if cell.cell_type == "code":
            code_cells += 1
            _normalise_outputs(cell, code_cells)
    return notebook


def _metadata() -> nbformat.NotebookNode:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})


def _refuse_unknown(parameters: dict[str, Any], allowed: list[str], name: str) -> None:
    unknown = ", ".join(sorted(set(parameters) - set(allowed)))
    if unknown:
        offered = ", ".join(allowed) or "none (no cell is tagged `parameters`)"
        raise ValueError(f"{name} has no parameter {unknown}; its parameters are: {offered}")


def _stable_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    stable = {key: value for key, value in metadata.items() if key in KEPT_CELL_METADATA}
    if "tags" in stable:
        stable["tags"] = [tag for tag in stable["tags"] if tag != "injected-parameters"]
        if not stable["tags"]:
            del stable["tags"]
    if SOLUTION in stable.get("tags", []):
        stable["jupyter"] = {**stable.get("jupyter", {}), "outputs_hidden": True}
    return stable


def _normalise_outputs(cell: nbformat.NotebookNode, count: int) -> None:
    cell.execution_count = count
    cell.outputs = [part for output in _merged_outputs(cell.outputs) for part in _split_card(output)]
    for output in cell.outputs:
        if "execution_count" in output:
            output["execution_count"] = count
        if "data" in output:
            output["data"].pop(WIDGET_VIEW, None)
            if "image/png" in output["data"]:
                output["data"]["image/png"] = repack_png(output["data"]["image/png"])
            output["metadata"] = nbformat.from_dict({})


def _merged_outputs(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join printed text that came in several messages into one output: how a kernel cuts it depends on the clock."""
    merged: list[nbformat.NotebookNode] = []
    for output in outputs:
        if merged and output.get("name") and merged[-1].get("name") == output["name"]:
            merged[-1]["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def _split_card(output: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Split a card and its picture into two outputs.

    Of the kinds in one output, a page shows only the first that it knows.
    """
    data = output.get("data", {})
    if not {"text/html", "image/png"} <= set(data):
        return [output]
    return [nbformat.v4.new_output("display_data", {"text/html": data.pop("text/html")}), output]


@contextmanager
def _static_charts() -> Iterator[None]:
    """Make charts embed a PNG, which is shown where no kernel runs."""
    before = os.environ.get("COOKBOOK_STATIC")
    os.environ["COOKBOOK_STATIC"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["COOKBOOK_STATIC"]
        else:
            os.environ["COOKBOOK_STATIC"] = before


def repack_png(encoded: str) -> str:
    """Return the picture `encoded` (a PNG in base64) with its pixels compressed as far as zlib goes.

    Charts are drawn with a fast compressor; this takes two fifths of its size. Anything but a PNG comes back as it is.
    """
    data = base64.b64decode(encoded)
    if not data.startswith(SIGNATURE):
        return encoded
    chunks, pixels, place = [], b"", len(SIGNATURE)
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        if kind == b"IDAT":
            pixels += body
        elif kind in PNG_CHUNKS:
            chunks.append((kind, body))
        place += 12 + length
    header, rows = _filtered_rows(chunks[0][1], zlib.decompress(pixels))
    chunks[0] = b"IHDR", header
    chunks.insert(-1, (b"IDAT", zlib.compress(rows, 9)))
    return base64.b64encode(SIGNATURE + b"".join(_chunk(kind, body) for kind, body in chunks)).decode()


def _filtered_rows(header: bytes, rows: bytes) -> tuple[bytes, bytes]:
    """Return rows as differences of neighbours (PNG filter 1) as plain red, green and blue; any other rows as they are.

    Charts consist of large flat areas, which compress better this way.
    """
    width, height, depth, colour = struct.unpack(">IIBB", header[:10])
    if (depth, colour, header[12]) != (8, 6, 0):
        return header, rows
    lines = np.frombuffer(rows, np.uint8).reshape(height, 1 + 4 * width)
    pixels = np.cumsum(lines[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)
    if (lines[:, 0] != 1).any() or (pixels[..., 3] != 255).any():
        return header, rows
    plain = np.pad(pixels[..., :3].reshape(height, -1), ((0, 0), (1, 0)))
    return header[:9] + b"\x02" + header[10:], plain.tobytes()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))


def student(path: str | Path, out: str | Path = "build/student") -> Path:
    """Write a copy of the notebook at `path` into the folder `out`, cells tagged `solution` emptied.

    Prompts and checks stay. Outputs go, since a stored output gives the answer away; pictures that the text shows come
    along. Raises ValueError where the copy would take the place of the notebook itself.
    """
    path, out = Path(path), Path(out)
    out = out / "history" if path.parent.name == "history" else out  # links between pages are relative
    notebook = read(path)
    target = check_target(out / path.name, path, new_folders=True)
    for cell, below in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if SOLUTION in cell.metadata.get("tags", []):
            cell.source = _blank_for(cell, below)
            cell.metadata = nbformat.from_dict({"tags": ["your-turn"]})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    out.mkdir(parents=True, exist_ok=True)
    for picture in sorted((path.parent / "images").rglob("*")):
        copy = out / picture.relative_to(path.parent)
        if picture.is_file() and not (copy.exists() and copy.samefile(picture)):
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(copy, picture.read_bytes())
    return write(notebook, target)


def _blank_for(cell: nbformat.NotebookNode, below: nbformat.NotebookNode | None) -> str:
    """Return the replacement of a solution: a blank for its answer, and its check with what that needs."""
    source = cell.source if cell.cell_type == "code" else ""
    assigned = {name for statement in _statements(source) for name in _names(statement, ast.Store)}
    checks = [statement for statement in _statements(source) if _check_in(statement)]
    later = _statements(below.source) if below is not None and below.cell_type == "code" else []
    calls = [call for statement in checks or later if (call := _check_in(statement)) and call.args]
    checked = calls[0].args[0] if calls else None
    name = checked.id if isinstance(checked, ast.Name) and checked.id in assigned else "answer" if checks else ""
    if not name:
        return PLACEHOLDER.get(cell.cell_type, "")
    lines = [f"{name} = ...  # your turn"]
    if checks:
        needed = [*calls[0].args[1:], *(keyword.value for keyword in calls[0].keywords)]
        lines += [ast.unparse(statement) for statement in _needed(needed, _statements(source), name)]
        calls[0].args[0] = ast.Name(name, ast.Load())
        lines += [ast.unparse(statement) for statement in checks]
    return "\n".join(lines)


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:  # a magic of IPython, for one
        return []


def _check_in(statement: ast.AST) -> ast.Call | None:
    """Return the call of `check` within a statement."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return next((call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) == "check"), None)


def _names(node: ast.AST, how: type[ast.expr_context]) -> list[str]:
    return [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, how)]


def _needed(wanted: list[ast.expr], statements: list[ast.stmt], answer: str) -> list[ast.stmt]:
    """Return the statements that a check depends on, in their order, except that of the answer."""
    names, needed = {name for node in wanted for name in _names(node, ast.Load)}, list[ast.stmt]()
    for statement in reversed(statements):
        stored = set(_names(statement, ast.Store)) - {answer}
        if stored & names:
            names |= set(_names(statement, ast.Load))
            needed.insert(0, statement)
    return needed


MAX_BYTES = 300_000
CELLS, WORDS, PROSE_SHARE = (22, 36), (600, 2500), (0.45, 0.65)
MEDIAN_LINES, P90_LINES, MAX_LINES, MAX_STATEMENTS = 3, 8, 10, 10
MAX_IMPORTS, MAX_DEF_STATEMENTS, MAX_PARAMETERS = 4, 7, 6
ALLOWED_IMPORTS = ("cookbook", "numpy", "pandas", "altair", "math")
WIDGET_CALLS = ("observe", "on_click", "interact", "interactive", "interactive_output", "jslink", "on_trait_change")
EMPTY_LINKS = ("click here", "here", "link", "this link", "this", "more", "read more")

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
_HEADING = re.compile(r"^(#{1,6})\s+\S", re.M)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\([^)]*\)")
_NUMBER = re.compile(r"(?<![\w.,])\d(?:[\d,.]*\d)?(?!\w)(?! % interval)")
_WORD = re.compile(r"[^\W_][\w'’.,-]*")


def lint(path: str | Path) -> list[str]:
    """Return the problems of the notebook at `path`, one plain sentence each; empty if it keeps every budget."""
    path = Path(path)
    notebook = read(path)
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    recipe = bool(re.match(r"\d\d-", path.name)) and not path.name.startswith("00-")
    problems = _size_problems(path, notebook, prose, recipe)
    problems += _headings(prose) + _words_and_pictures(prose)
    problems += _code_problems(code)
    problems += _cells(notebook, code, recipe)
    return problems + _money_problems(notebook) + _answers_revealed(code)


def code_lines(source: str) -> int:
    """Return the number of lines of `source` that a reader must follow: neither blank nor comment only."""
    return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))


def statements(code: str | ast.AST) -> int:
    """Return the number of statements of `code`, those within others too; 0 of what is not plain Python."""
    trees = _statements(code) if isinstance(code, str) else [code]
    return sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree))


def words(prose: list[str]) -> int:
    """Return the number of words in the markdown cells `prose`, without code, formulas, addresses and tags."""
    text = "\n".join(_FENCE.sub(" ", source) for source in prose)
    for pattern in (r"\$\$.*?\$\$", r"\$[^$\n]+\$", r"`[^`]*`", r"\]\([^)]*\)", r"<[^>]+>"):
        text = re.sub(pattern, " ", text, flags=re.S)
    return len(_WORD.findall(text))


def _size_problems(path: Path, notebook: nbformat.NotebookNode, prose: list[str], recipe: bool) -> list[str]:
    # The check of an exercise belongs to the answer above it; a question is read, not executed.
    problems, kinds = [], [set(cell.metadata.get("tags", [])) for cell in notebook.cells]
    cells, counted = (sum(not kind & tags for kind in kinds) for tags in ({"check"}, {"check", "question"}))
    if path.stat().st_size > MAX_BYTES:
        problems.append(f"file has {path.stat().st_size / 1e3:.0f} kB; at most {MAX_BYTES / 1e3:.0f}")
    share = len(prose) / max(counted, 1)
    if not PROSE_SHARE[0] <= share <= PROSE_SHARE[1]:
        least, most = map(percent, PROSE_SHARE)
        problems.append(f"{percent(share)} of the cells are prose; {least} to {most} wanted")
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


def _code_problems(cells: list[nbformat.NotebookNode]) -> list[str]:
    """Check the budgets of code.

    Folded cells (questions, solutions, checks, records) are counted in statements, in which it does not matter where a
    line ends: nobody reads them line by line.
    """
    sources = [cell.source for cell in cells]
    shown = [cell.source for cell in cells if not cell.metadata.get("jupyter", {}).get("source_hidden", False)]
    lengths = sorted(count for count in map(code_lines, shown) if count)
    if not lengths:
        return ["no code"]
    problems, p90 = [], lengths[ceil(0.9 * len(lengths)) - 1]
    for name, value, limit in (
        ("median", median(lengths), MEDIAN_LINES),
        ("90th percentile", p90, P90_LINES),
        ("longest", lengths[-1], MAX_LINES),
    ):
        if value > limit:
            problems.append(f"code lines per cell: {name} is {value:g}; at most {limit}")
    longest = max(map(statements, sources))
    if longest > MAX_STATEMENTS:
        problems.append(f"statements per cell: longest is {longest}; at most {MAX_STATEMENTS}")
    try:
        tree = ast.parse("\n".join(sources))
    except SyntaxError as error:
        return [*problems, f"code is not plain Python: {error.msg}"]
    return problems + _of_tree(tree)


def _of_tree(tree: ast.Module) -> list[str]:
    problems, imports = [], 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += 1
            problems += _import(node)
        elif isinstance(node, ast.FunctionDef) and statements(node) > MAX_DEF_STATEMENTS + 1:
            problems.append(
                f"function {node.name} is longer than {MAX_DEF_STATEMENTS} statements; it belongs in the package"
            )
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in WIDGET_CALLS:
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


def _money_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Check that US dollars have one spelling; in Markdown, two bare signs would enclose a formula."""
    problems = []
    for cell in notebook.cells:
        texts = [
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])
        ]
        if re.search(r"\bk?USD\b", cell.source if cell.cell_type == "markdown" else "\n".join(texts)):
            problems.append(f"cell {cell.get('id', '?')} says USD; write $, in code by cb.human(amount, 'USD')")
        if cell.cell_type == "markdown" and re.search(r"(?<!<span>)\\\$", cell.source):
            problems.append(f"cell {cell.get('id', '?')} has a bare dollar sign; write <span>\\$</span> in Markdown")
    return problems


def _answers_revealed(code: list[nbformat.NotebookNode]) -> list[str]:
    """Check that a panel's headline shares no number with the answer of the question that follows it."""
    problems, shown_numbers = [], set[str]()
    for cell in code:
        shown = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        if "cb.panels." in cell.source:
            headlines = [re.split(r"(?<=[^.]\.) (?=[A-Z\d$])|\n", text)[0] for text in shown if text]
            shown_numbers = {number for text in headlines for number in _NUMBER.findall(text)}
        for answer in _answers(cell.source):
            if revealed := shown_numbers & {*_NUMBER.findall(answer)}:
                listed = ", ".join(sorted(revealed))
                problems.append(f"the panel above question {cell.get('id', '?')} gives its answer away: {listed}")
            shown_numbers = set()
    return problems


def _answers(source: str) -> Iterator[str]:
    """Yield the right option of each `predict_first` in a cell."""
    calls = (node for statement in _statements(source) for node in ast.walk(statement) if isinstance(node, ast.Call))
    for call in calls:
        if getattr(call.func, "attr", "") == "predict_first":
            values = (keyword.value for keyword in call.keywords if keyword.arg == "answer")
            yield from (str(node.value) for node in values if isinstance(node, ast.Constant))


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
