"""Modules of the package as syntax trees; each is parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "cookbook"


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a file; none may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def package_trees() -> dict[str, ast.Module]:
    """Return the trees of all modules, by the path within the package."""
    return {path.relative_to(PACKAGE).as_posix(): tree_of(path) for path in sorted(PACKAGE.rglob("*.py"))}
