"""Run notebooks with papermill and store them so that an unchanged run changes no byte."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import papermill

from .pictures import repack_png

KEPT_CELL_METADATA = ("tags", "jupyter", "slideshow", "editable", "deletable")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def execute(path: str | Path) -> Path:
    """Run the notebook at `path` with its default parameters and store the result in place.

    The stored file is only replaced once every cell has run.
    """
    path = Path(path)
    notebook = run_with(path)
    nbformat.write(notebook, path)
    return normalise(path)


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
        notebook = nbformat.read(path, as_version=4)
        notebook.metadata = _metadata()  # papermill needs the kernel's name, which a new notebook may lack
        nbformat.write(notebook, source)
        _refuse_unknown(parameters, list(papermill.inspect_notebook(str(source))), path.name)
        papermill.execute_notebook(
            str(source), str(done), parameters, cwd=str(path.parent), progress_bar=False, log_output=False
        )
        return nbformat.read(done, as_version=4)


def normalise(path: str | Path) -> Path:
    """Drop from the notebook at `path` whatever differs between two equal runs: timings, widget state, counters."""
    path = Path(path)
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = _metadata()
    code_cells = 0
    for number, cell in enumerate(notebook.cells, start=1):
        cell.metadata = nbformat.from_dict(_stable_metadata(cell.metadata))
        cell.setdefault("id", f"cell-{number:02d}")
        if cell.cell_type == "code":
            code_cells += 1
            _normalise_outputs(cell, code_cells)
    nbformat.write(notebook, path)
    return path


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
