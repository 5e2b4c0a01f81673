"""Hints that unfold, and the source that really runs."""

from __future__ import annotations

import ast
import html
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Hint:
    """Hints that unfold one by one; see `hint`."""

    texts: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self._labelled())

    def _repr_html_(self) -> str:
        fold = "<details><summary>{}</summary><p>{}</p></details>"
        return "".join(fold.format(label, html.escape(text)) for label, text in self._labelled())

    def _labelled(self) -> list[tuple[str, str]]:
        if len(self.texts) == 1:
            return [("Hint", self.texts[0])]
        return [(f"Hint {number}", text) for number, text in enumerate(self.texts, start=1)]


@dataclass(frozen=True)
class Source:
    """Source of a function without its docstring; see `show_source`."""

    name: str
    lines: tuple[str, ...]
    marked: frozenset[int] = field(default_factory=frozenset)

    def __repr__(self) -> str:
        body = [f"{'>' if i in self.marked else ' '} {line}".rstrip() for i, line in enumerate(self.lines)]
        return "\n".join([f"# {self.name}", *body])

    def _repr_html_(self) -> str:
        mark = '<mark style="background: var(--jp-layout-color3, #ddd); color: inherit">{}</mark>'
        body = [html.escape(line) for line in self.lines]
        body = [mark.format(line) if i in self.marked else line for i, line in enumerate(body)]
        return f"<pre><code># {html.escape(self.name)}\n" + "\n".join(body) + "</code></pre>"


def show_source(
    function: Callable[..., Any], lines: tuple[int, int] | None = None, highlight: str = ""
) -> Source:
    """The source that really runs, without its docstring.

    Parameters
    ----------
    function : callable
        Function to show.
    lines : tuple of int, optional
        First and last line to show, counted from 1 without the docstring; negative ones count from the end.
    highlight : str
        Lines that contain this text are marked.

    Raises
    ------
    ValueError
        No such lines, or a function without Python source.

    Examples
    --------
    >>> from cookbook.performance import roofline
    >>> show_source(roofline.ridge_point, lines=(-1, -1), highlight="mem_bandwidth")
    # cookbook.performance.roofline.ridge_point
    >     return np.asarray(positive("peak_flops", peak_flops) / positive("mem_bandwidth", mem_bandwidth))
    """
    if not callable(function):
        raise ValueError(f"function = {function!r} is not a function; give one, such as cb.memory.training_bytes")
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        raise ValueError(f"{name} has no Python source to show; give a function of the package") from None
    text = _without_docstring(source)
    if lines is not None:
        first, last = (n if n > 0 else len(text) + 1 + n for n in lines)
        if not 1 <= first <= last <= len(text):
            raise ValueError(f"lines = {lines} of {name} do not exist; it has lines 1 to {len(text)}")
        text = text[first - 1 : last]
    marked = frozenset(i for i, line in enumerate(text) if highlight and highlight in line)
    return Source(name, tuple(text), marked)


def hint(*texts: str) -> Hint:
    """Hints that a reader unfolds one by one.

    Parameters
    ----------
    *texts : str
        The hints, the gentlest first.

    Raises
    ------
    ValueError
        No text at all.

    Examples
    --------
    >>> hint("Count the passes.", "The backward pass costs two.")
    Hint 1: Count the passes.
    Hint 2: The backward pass costs two.
    """
    if not texts:
        raise ValueError("hint() needs at least one text")
    return Hint(texts)


def _without_docstring(source: str) -> list[str]:
    lines = source.rstrip().splitlines()
    node = ast.parse(source).body[0]
    body = getattr(node, "body", [])
    if not body or not isinstance(body[0], ast.Expr) or ast.get_docstring(node, clean=False) is None:  # type: ignore[arg-type]
        return lines
    first, last = body[0].lineno, body[0].end_lineno or body[0].lineno
    return lines[: first - 1] + lines[last:]
