"""Namespaces whose names are loaded from their modules on first use, so that importing is fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    name: str, homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a namespace.

    Parameters
    ----------
    name : str
        Dotted name of the namespace, for its error.
    homes : mapping of str to str
        Names and, below `cookbook`, the module that defines each.
    modules : mapping of str to str, optional
        Names that are modules themselves, and where they are.

    Examples
    --------
    >>> names, get, _ = lazy("cookbook.planning", {"annuity_usd": "topics.costs.cost"})
    >>> names, get("annuity_usd").__name__
    (['annuity_usd'], 'annuity_usd')
    """
    places = {**homes, **(modules or {})}
    offered = sorted(places)

    def get(wanted: str) -> Any:
        if wanted not in places:
            raise AttributeError(f"{name} has no name {wanted!r}; it offers {', '.join(offered)}")
        module = import_module(f"cookbook.{places[wanted]}")
        return getattr(module, wanted) if wanted in homes else module

    return offered, get, lambda: list(offered)
