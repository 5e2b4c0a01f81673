"""Student copies: the same notebooks without solutions and without anything already run."""

import shutil
from pathlib import Path

import nbformat

SOLUTION = "solution"
PLACEHOLDER = {"code": "# your turn", "markdown": "*Your turn: write your answer here.*"}


def student(path: str | Path, out: str | Path = "build/student") -> Path:
    """Write a copy of the notebook at `path` into the folder `out`, cells tagged `solution` emptied.

    Prompts stay. Outputs go, since a stored output gives the answer away; pictures that the text shows come along.
    """
    path, out = Path(path), Path(out)
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if SOLUTION in cell.metadata.get("tags", []):
            cell.source = PLACEHOLDER.get(cell.cell_type, "")
            cell.metadata = nbformat.from_dict({"tags": ["your-turn"]})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    out.mkdir(parents=True, exist_ok=True)
    if (path.parent / "images").is_dir():
        shutil.copytree(path.parent / "images", out / "images", dirs_exist_ok=True)
    target = out / path.name
    nbformat.write(notebook, target)
    return target
