"""Questions to answer before running, hints that unfold, and the source that really runs."""

from __future__ import annotations

import ast
import html
import inspect
import os
import string
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from cookbook.lesson.exercises import QUESTION, key_of, note
from cookbook.units import shown

LETTERS = string.ascii_lowercase


@dataclass(frozen=True)
class Question:
    """A question to answer before running; see `predict_first`."""

    question: str
    options: Mapping[str, str]
    answer: str
    misconceptions: Mapping[str, str]
    explanation: str = ""

    def __repr__(self) -> str:
        lines = [f"Predict: {self.question}"]
        lines += [f"  {key}) {text}" for key, text in self.options.items()]
        lines += [self.feedback(self.answer)]
        lines += [f"  {self.feedback(key)}" for key in self.options if key != self.answer]
        return "\n".join(lines)

    def feedback(self, choice: str) -> str:
        """What the reader is told for one option."""
        if choice == self.answer:
            return " ".join(filter(None, [f"Answer: {choice}) {self.options[choice]}.", self.explanation]))
        return f"Not {choice}): {self.misconceptions[choice]}"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{key}) {html.escape(text)}</li>" for key, text in self.options.items())
        rest = [self.feedback(key) for key in (self.answer, *(k for k in self.options if k != self.answer))]
        told = "".join(f"<p>{html.escape(line)}</p>" for line in rest)
        return (
            f"<p><strong>Predict:</strong> {html.escape(self.question)}</p>"
            f'<ul style="list-style: none">{items}</ul>'
            f"<details><summary>Show the answer</summary>{told}</details>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if is_live():
            bundle.update(_question_widget(self)._repr_mimebundle_())
            bundle["text/plain"] = repr(self)
        return bundle


def predict_first(question: str, options: Mapping[str, str], answer: str) -> Question:
    """A question to answer before running the next cell.

    Parameters
    ----------
    question : str
        The question.
    options : dict of str to str
        Text of each option, and what to say to a reader who takes it: for a wrong one the misconception that leads
        to it, for the right one why it is right.
    answer : str
        The right option.

    Raises
    ------
    ValueError
        The answer is not an option, there are fewer than two or more than 26, or an option has nothing to say.

    Examples
    --------
    >>> predict_first("1 MAC in FLOP?", {"1": "a MAC multiplies and adds", "2": "one product, one sum"}, "2")
    Predict: 1 MAC in FLOP?
      a) 1
      b) 2
    Answer: b) 2. one product, one sum
      Not a): a MAC multiplies and adds
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"question = {shown(question)} is not text; give the question")
    if not isinstance(options, Mapping) or not 2 <= len(options) <= len(LETTERS):
        most = f"two to {len(LETTERS)} options, each with what to say of it"
        raise ValueError(f"answer = {shown(answer)} must be one of {most}; they are {shown(options)}")
    mute = [option for option, words in options.items() if not (isinstance(words, str) and words)]
    if mute:
        raise ValueError(f"option {shown(mute[0])} says nothing; give the misconception behind it, or why it is right")
    if not isinstance(answer, str) or answer not in options:
        raise ValueError(f"answer = {shown(answer)} must be one of the options; they are {shown(list(options))}")
    note(key_of(QUESTION, question))
    keys = dict(zip(options, LETTERS, strict=False))
    told = MappingProxyType({keys[option]: words for option, words in options.items()})
    texts = MappingProxyType({key: str(option) for option, key in keys.items()})
    return Question(question, texts, keys[answer], told, told[keys[answer]])


def is_live() -> bool:
    """Whether a front end with widgets is watching: a Jupyter server started this kernel for a notebook."""
    return "JPY_SESSION_NAME" in os.environ and find_spec("ipywidgets") is not None


def _question_widget(question: Question) -> Any:
    """Radio buttons that answer the choice with the misconception behind it, or with the explanation."""
    import ipywidgets

    choices = [(f"{key}) {text}", key) for key, text in question.options.items()]
    wide = ipywidgets.Layout(width="auto")
    key = key_of(QUESTION, question.question)
    before = note(key) if note(key) in question.options else None
    radio = ipywidgets.RadioButtons(options=choices, value=before, layout=wide)
    first = html.escape(question.feedback(before)) if before else "Choose one before you run the next cell."
    told = ipywidgets.HTML(f'<p role="status">{first}</p>')
    asked = ipywidgets.HTML(f"<strong>Predict:</strong> {html.escape(question.question)}")

    def tell(change: Any) -> None:
        note(key, change["new"])
        told.value = f'<p role="status">{html.escape(question.feedback(change["new"]))}</p>'

    radio.observe(tell, names="value")
    return ipywidgets.VBox([asked, radio, told])


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
    >>> from cookbook.performance import arithmetic
    >>> show_source(arithmetic.ridge_point, lines=(-1, -1), highlight="mem_bandwidth")
    # cookbook.performance.arithmetic.ridge_point
    >     return np.asarray(positive("peak_flops", peak_flops) / positive("mem_bandwidth", mem_bandwidth))
    """
    if not callable(function):
        raise ValueError(f"function = {shown(function)} is not a function; give one, such as cb.memory.training_bytes")
    if not isinstance(highlight, str):
        raise ValueError(f"highlight = {shown(highlight)} is not text; give a piece of the lines to mark")
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        raise ValueError(f"{name} has no Python source to show; give a function of the package") from None
    text = _without_docstring(source)
    if lines is not None:
        pair = isinstance(lines, (list, tuple)) and len(lines) == 2 and all(type(n) is int for n in lines)
        first, last = (n if n > 0 else len(text) + 1 + n for n in lines) if pair else (0, 0)
        if not 1 <= first <= last <= len(text):
            raise ValueError(f"lines = {shown(lines)} of {name} do not exist; it has lines 1 to {len(text)}")
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
        No text at all, or something else than text.

    Examples
    --------
    >>> hint("Count the passes.", "The backward pass costs two.")
    Hint 1: Count the passes.
    Hint 2: The backward pass costs two.
    """
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"hint() needs at least one text, and texts only; it was given {shown(texts)}")
    return Hint(texts)


def _without_docstring(source: str) -> list[str]:
    lines = source.rstrip().splitlines()
    try:
        node = ast.parse(source).body[0]
    except SyntaxError:  # a piece of a longer statement, as a lambda is
        return lines
    body = getattr(node, "body", [])
    if not body or not isinstance(body[0], ast.Expr) or ast.get_docstring(node, clean=False) is None:  # type: ignore[arg-type]
        return lines
    first, last = body[0].lineno, body[0].end_lineno or body[0].lineno
    return lines[: first - 1] + lines[last:]
