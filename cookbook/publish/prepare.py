"""Panels as the recipes show them, made without running the recipes: what is prepared before a reader comes."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from cookbook import panels
from cookbook.panels.shell import Panel

OFFERED = "cb.panels."


def panels_of(notebooks: Path) -> Iterator[Panel]:
    """Each panel in the state it has by itself, and as each recipe of the folder `notebooks` calls it.

    A call whose arguments are made by cells above it, other than that of the parameters, is left out: its chart is then
    written when the reader runs the cell.
    """
    for name in panels._RECIPES:
        yield getattr(panels, name)()
    for path in sorted(notebooks.glob("*.ipynb")):
        names: dict[str, Any] = {"cb": sys.modules["cookbook"]}
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] != "code":
                continue
            with suppress(SyntaxError):
                tree = ast.parse("".join(cell["source"]))
                if "parameters" in cell["metadata"].get("tags", []):
                    names |= _literals(tree)
                yield from _made(tree, names)


def _literals(tree: ast.Module) -> dict[str, Any]:
    """Names that a cell gives plain values."""
    found = {}
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            with suppress(ValueError):
                found[line.targets[0].id] = ast.literal_eval(line.value)
    return found


def _made(tree: ast.Module, names: dict[str, Any]) -> Iterator[Panel]:
    """Panels of the calls in a cell, as far as their arguments are known."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called.removeprefix(OFFERED) in panels._RECIPES:
            with suppress(NameError, ValueError, KeyError, TypeError, AttributeError):
                panel = eval(compile(ast.Expression(node), called, "eval"), dict(names))  # a recipe's own code
                if isinstance(panel, Panel):
                    yield panel
