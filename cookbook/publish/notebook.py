"""Notebooks executed and stored so that an unchanged run changes no byte, and copies of them for students."""

import ast
import base64
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import papermill

from cookbook.catalog.writing import check_target, write_bytes, write_text

KEPT_CELL_METADATA = ("tags", "jupyter", "slideshow", "editable", "deletable")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SOLUTION = "solution"
PLACEHOLDER = {"code": "# your turn", "markdown": "*Your turn: write your answer here.*"}
SIGNATURE = b"\x89PNG\r\n\x1a\n"
SHOWN = (b"IHDR", b"PLTE", b"tRNS", b"IEND")


def read(path: str | Path) -> nbformat.NotebookNode:
    """The notebook at `path`; raises ValueError in a sentence where the file is none."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except (ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as problem:
        what = str(problem).splitlines()[0][:120] if str(problem) else type(problem).__name__
        raise ValueError(f"{path} is not a Jupyter notebook ({what}): give a file that Jupyter saved") from None
    return notebook


def write(notebook: nbformat.NotebookNode, path: str | Path) -> Path:
    """Store `notebook` at `path` whole or not at all."""
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
        Values by the names of the parameters cell.

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
    """The same `notebook` without what differs between two equal runs; solutions and what they print are folded."""
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


def _refuse_unknown(parameters: dict[str, Any], known: list[str], name: str) -> None:
    unknown = ", ".join(sorted(set(parameters) - set(known)))
    if unknown:
        offered = ", ".join(known) or "none (no cell is tagged `parameters`)"
        raise ValueError(f"{name} has no parameter {unknown}; its parameters are: {offered}")


def _stable_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key in KEPT_CELL_METADATA}
    if "tags" in kept:
        kept["tags"] = [tag for tag in kept["tags"] if tag != "injected-parameters"]
        if not kept["tags"]:
            del kept["tags"]
    if SOLUTION in kept.get("tags", []):
        kept["jupyter"] = {**kept.get("jupyter", {}), "outputs_hidden": True}
    return kept


def _normalise_outputs(cell: nbformat.NotebookNode, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if "execution_count" in output:
            output["execution_count"] = count
        if "data" in output:
            output["data"].pop(WIDGET_VIEW, None)
            if "image/png" in output["data"]:
                output["data"]["image/png"] = repack_png(output["data"]["image/png"])
            output["metadata"] = nbformat.from_dict({})


@contextmanager
def _static_charts() -> Iterator[None]:
    """Ask charts to embed a PNG, which shows where no kernel runs."""
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
    """The same picture as `encoded` (a PNG in base64), its pixels compressed as far as zlib goes.

    Charts are drawn with a fast compressor; this takes a quarter of its size. Anything but a PNG comes back as it is.
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
        elif kind in SHOWN:
            chunks.append((kind, body))
        place += 12 + length
    chunks.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))
    return base64.b64encode(SIGNATURE + b"".join(_chunk(kind, body) for kind, body in chunks)).decode()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))


def student(path: str | Path, out: str | Path = "build/student") -> Path:
    """Write a copy of the notebook at `path` into the folder `out`, cells tagged `solution` emptied.

    Prompts and checks stay. Outputs go, since a stored output gives the answer away; pictures that the text shows come
    along. Raises ValueError where the copy would take the place of the notebook itself.
    """
    path, out = Path(path), Path(out)
    notebook = read(path)
    target = check_target(out / path.name, path, new_folders=True)
    for cell, below in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if SOLUTION in cell.metadata.get("tags", []):
            cell.source = _your_turn(cell, below)
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


def _your_turn(cell: nbformat.NotebookNode, below: nbformat.NotebookNode | None) -> str:
    """What stands where a solution was: a blank for its answer, and the check of it with what that needs."""
    source = cell.source if cell.cell_type == "code" else ""
    made = {name for statement in _statements(source) for name in _names(statement, ast.Store)}
    checks = [statement for statement in _statements(source) if _check_in(statement)]
    later = _statements(below.source) if below is not None and below.cell_type == "code" else []
    calls = [call for statement in checks or later if (call := _check_in(statement)) and call.args]
    asked = calls[0].args[0] if calls else None
    name = asked.id if isinstance(asked, ast.Name) and asked.id in made else "answer" if checks else ""
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
    """The call of `check` within a statement."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return next((call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) == "check"), None)


def _names(node: ast.AST, how: type[ast.expr_context]) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, how)]


def _needed(wanted: list[ast.expr], statements: list[ast.stmt], answer: str) -> list[ast.stmt]:
    """The statements that a check rests on, in their order, but for that of the answer."""
    names, kept = {name for node in wanted for name in _names(node, ast.Load)}, list[ast.stmt]()
    for statement in reversed(statements):
        stored = set(_names(statement, ast.Store)) - {answer}
        if stored & names:
            names |= set(_names(statement, ast.Load))
            kept.insert(0, statement)
    return kept
