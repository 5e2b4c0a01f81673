"""Panels as the recipes show them first: what is prepared before a reader comes."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from cookbook import panels
from cookbook.panels.shell import Panel

RECIPES = "[0-9][0-9]-*.ipynb"
# What a recipe that a reader changed may raise.
FAILS = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError, RuntimeError,
         SyntaxError, TypeError, ValueError)  # fmt: skip


def panels_of(notebooks: Path) -> Iterator[Panel]:
    """Each panel in the state it has by itself, and the first of each recipe of the folder `notebooks`.

    The cells of a recipe are run up to its first panel. A recipe that was changed so that they fail is left out: its
    chart is then written when the reader runs the cell.
    """
    for name in panels._RECIPES:
        yield getattr(panels, name)()
    for path in sorted(notebooks.glob(RECIPES)):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        panel = _first(["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"], path.name)
        if panel is not None:
            yield panel


def _first(cells: list[str], recipe: str) -> Panel | None:
    """The first panel that the cells of a recipe make."""
    names: dict[str, Any] = {"cb": sys.modules["cookbook"], "__name__": recipe}
    for source in cells:
        try:
            tree = ast.parse(source)
            last = tree.body[-1] if tree.body else None
            body = tree.body[:-1] if isinstance(last, ast.Expr) else tree.body
            shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else ast.parse("None", mode="eval")
            with redirect_stdout(io.StringIO()):
                exec(compile(ast.Module(body, []), recipe, "exec"), names)
                value = eval(compile(shown, recipe, "eval"), names)
        except FAILS as problem:
            print(f"{recipe} is left out: {problem}", file=sys.stderr)
            return None
        for made in (value, *names.values()):
            if isinstance(made, Panel):
                return made
    return None
