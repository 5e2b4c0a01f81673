"""Lesson aids: questions to answer first, exercises that check themselves, hints, and the real source.

All of them print as plain text; a notebook shows HTML, and a live front end with widgets shows an interactive
question. What they print depends on their arguments alone.
"""

from __future__ import annotations

import ast
import html
import inspect
import math
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from cookbook import units

# The usual slips: ratio of the answer given to the right one, and what each direction points to.
RATIOS: tuple[tuple[float, str, str], ...] = (
    (
        2,
        "twice too large: MAC counted as FLOP twice, or a sparse peak taken for a dense one (1 MAC = 2 FLOP)",
        "half of it: MAC taken for FLOP (1 MAC = 2 FLOP), or a dense peak halved once more",
    ),
    (
        3,
        "three times too large: only the forward pass is asked for, not forward and backward",
        "a third of it: the backward pass is missing (it costs two forward passes)",
    ),
    (
        6,
        "six times too large: forward MAC are asked for, not the FLOP of training",
        "a sixth of it: forward MAC, where training costs 3 passes of 2 FLOP each MAC",
    ),
    (8, "eight times too large: bits taken for bytes (1 B = 8 bit)", "an eighth of it: bytes taken for bits"),
    (
        4,
        "four times too large: bytes counted where elements are asked for (4 B in single precision)",
        "a quarter of it: elements counted where bytes are asked for (4 B in single precision)",
    ),
    (1.024, "2.4 % too large: 1,024 taken for 1,000", "2.4 % too small: 1,000 taken for 1,024"),
    (1.024**2, "4.9 % too large: MiB taken for MB", "4.9 % too small: MB taken for MiB"),
    (1.024**3, "7.4 % too large: GiB taken for GB", "7.4 % too small: GB taken for GiB"),
    (1.024**4, "10 % too large: TiB taken for TB", "9 % too small: TB taken for TiB"),
    (60, "60 times too large: seconds and minutes", "60 times too small: seconds and minutes"),
    (3600, "3,600 times too large: seconds and hours", "3,600 times too small: seconds and hours"),
    (
        1e2,
        "100 times too large: a percentage given for a fraction",
        "100 times too small: a fraction given for a percentage",
    ),
    (1e3, "1,000 times too large: one SI prefix off", "1,000 times too small: one SI prefix off"),
    (1e6, "10^6 times too large: two SI prefixes off", "10^6 times too small: two SI prefixes off"),
    (1e9, "10^9 times too large: three SI prefixes off", "10^9 times too small: three SI prefixes off"),
    (1e12, "10^12 times too large: four SI prefixes off", "10^12 times too small: four SI prefixes off"),
)
RATIO_TOLERANCE = 0.005


@dataclass(frozen=True)
class Question:
    """A question to answer before running; see `predict_first`."""

    question: str
    options: dict[str, str]
    answer: str
    misconceptions: dict[str, str]
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


@dataclass(frozen=True)
class Verdict:
    """Outcome of `check`; true where the answer is right."""

    correct: bool
    message: str

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        head, _, tail = self.message.partition(":")
        return f'<p role="status"><strong>{html.escape(head)}:</strong>{html.escape(tail)}</p>'


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
        The answer is not an option, there are fewer than two, or an option has nothing to say.

    Examples
    --------
    >>> predict_first("1 MAC in FLOP?", {"1": "a MAC multiplies and adds", "2": "one product, one sum"}, "2")
    Predict: 1 MAC in FLOP?
      a) 1
      b) 2
    Answer: b) 2. one product, one sum
      Not a): a MAC multiplies and adds
    """
    if len(options) < 2 or answer not in options:
        raise ValueError(f"answer = {answer!r} must be one of two or more options; they are {list(options)}")
    mute = [option for option, words in options.items() if not words]
    if mute:
        raise ValueError(f"option {mute[0]!r} says nothing; give the misconception behind it, or why it is right")
    keys = dict(zip(options, "abcdefgh", strict=False))
    told = {keys[option]: words for option, words in options.items()}
    right = keys[answer]
    return Question(question, {key: option for option, key in keys.items()}, right, told, told[right])


def check(answer: Any, expected: Any, tolerance: float = 0.02, unit: str = "") -> Verdict:
    """Whether an answer agrees with what the package computes.

    Parameters
    ----------
    answer : float, str or None
        The reader's answer in SI units, text with a unit such as "132 TFLOP/s", or a word; None or `...`
        stands for an exercise not done yet.
    expected : callable, float or str
        What is right; a callable is called now, so that the answer is recomputed and not stored.
    tolerance : float
        Relative difference that passes, 0 to 1.
    unit : str
        SI unit in which the answer is printed, such as "FLOP/s".

    Returns
    -------
    Verdict
        True where the answer is right; a wrong answer is not given away, but a usual slip is named.

    Raises
    ------
    ValueError
        A tolerance out of range.

    Examples
    --------
    >>> check("264 TFLOP/s", lambda: 2 * 132e12, unit="FLOP/s")
    Correct: 264 TFLOP/s, within 2 % of the computed value.
    >>> check(132e12, lambda: 2 * 132e12, unit="FLOP/s")
    Not yet: 132 TFLOP/s is half of it: MAC taken for FLOP (1 MAC = 2 FLOP), or a dense peak halved once more.
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance = {tolerance!r} is outside [0, 1); give a fraction such as 0.02")
    if answer is None or answer is ...:
        return Verdict(False, "Not answered yet: put your answer in place of the blank, run again.")
    right = expected() if callable(expected) else expected
    if isinstance(right, (str, bool)):
        return _check_word(answer, right)
    return _check_number(answer, float(right), tolerance, unit)


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


def is_live() -> bool:
    """Whether a front end with widgets is watching: a Jupyter server started this kernel for a notebook."""
    return "JPY_SESSION_NAME" in os.environ and find_spec("ipywidgets") is not None


def _check_word(answer: Any, right: str | bool) -> Verdict:
    same = str(answer).strip().casefold() == str(right).strip().casefold()
    return Verdict(same, f"Correct: {answer}." if same else f"Not yet: {answer} is not what is computed.")


def _check_number(answer: Any, right: float, tolerance: float, unit: str) -> Verdict:
    try:
        given = _in_unit(answer, "B" if unit == "iB" else unit)
    except (TypeError, ValueError) as problem:
        return Verdict(False, f"Not a number: {problem}")
    shown = units.human(given, unit) if unit else f"{given:,.4g}"
    if given == right or abs(given - right) <= tolerance * abs(right):
        return Verdict(True, f"Correct: {shown}, within {100 * tolerance:g} % of the computed value.")
    return Verdict(False, f"Not yet: {shown} is {_slip(given, right, tolerance)}.")


def _in_unit(answer: Any, unit: str) -> float:
    """The answer as a number in `unit`: text must have a unit of its kind, where one is asked for."""
    if isinstance(answer, str) and unit:
        return float(units.si(answer, unit)) / units.scale(unit)
    return float(units.si(answer))


def _slip(given: float, right: float, tolerance: float) -> str:
    if not math.isfinite(given) or not right or given / right < 0:
        return "not a value that this quantity can take"
    ratio = given / right
    for factor, large, small in RATIOS:
        if math.isclose(ratio, factor, rel_tol=RATIO_TOLERANCE):
            return large
        if math.isclose(ratio, 1 / factor, rel_tol=RATIO_TOLERANCE):
            return small
    side = "too large" if ratio > 1 else "too small"
    return f"{side} by more than the {100 * tolerance:g} % allowed, and by no usual slip"


def _without_docstring(source: str) -> list[str]:
    lines = source.rstrip().splitlines()
    node = ast.parse(source).body[0]
    body = getattr(node, "body", [])
    if not body or not isinstance(body[0], ast.Expr) or ast.get_docstring(node, clean=False) is None:  # type: ignore[arg-type]
        return lines
    first, last = body[0].lineno, body[0].end_lineno or body[0].lineno
    return lines[: first - 1] + lines[last:]


def _question_widget(question: Question) -> Any:
    """Radio buttons that answer the choice with the misconception behind it, or with the explanation."""
    import ipywidgets

    choices = [(f"{key}) {text}", key) for key, text in question.options.items()]
    wide = ipywidgets.Layout(width="auto")
    radio = ipywidgets.RadioButtons(options=choices, value=None, layout=wide)
    told = ipywidgets.HTML('<p role="status">Choose one before you run the next cell.</p>')
    asked = ipywidgets.HTML(f"<strong>Predict:</strong> {html.escape(question.question)}")

    def tell(change: Any) -> None:
        told.value = f'<p role="status">{html.escape(question.feedback(change["new"]))}</p>'

    radio.observe(tell, names="value")
    return ipywidgets.VBox([asked, radio, told])
