"""Lesson aids: questions to answer first, exercises that check themselves, hints, the real source, and progress.

All of them print as plain text; a notebook shows HTML, and a live front end with widgets shows an interactive
question. What they print depends on their arguments, and on what the reader did before in the same session.
"""

from __future__ import annotations

import ast
import hashlib
import html
import inspect
import math
import string
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

from cookbook import units
from cookbook.charts.card import served
from cookbook.result import html_text
from cookbook.units import shown

# Unit mistakes: ratio of the answer to the right one, the kinds of unit concerned, and the feedback for each side.
_BYTES, _WORK, _TIME, _PURE, _ANY = ("", "B"), ("", "FLOP", "OP", "MAC"), ("", "s"), ("",), None
RATIOS: tuple[tuple[float, tuple[str, ...] | None, str, str], ...] = (
    (
        2,
        _WORK,
        "too large by a factor of 2: were FLOP taken for MAC? 1 MAC = 2 FLOP",
        "too small by a factor of 2: were MAC taken for FLOP? 1 MAC = 2 FLOP",
    ),
    (
        8,
        _BYTES,
        "eight times too large: bits taken for bytes (1 B = 8 bit)",
        "an eighth of the right value: bytes taken for bits",
    ),
    (1.024, _BYTES, "2.4 % too large: 1,024 taken for 1,000", "2.4 % too small: 1,000 taken for 1,024"),
    (1.024**2, _BYTES, "4.9 % too large: MiB taken for MB", "4.9 % too small: MB taken for MiB"),
    (1.024**3, _BYTES, "7.4 % too large: GiB taken for GB", "7.4 % too small: GB taken for GiB"),
    (1.024**4, _BYTES, "10 % too large: TiB taken for TB", "9 % too small: TB taken for TiB"),
    (60, _TIME, "60 times too large: seconds and minutes", "60 times too small: seconds and minutes"),
    (3600, _TIME, "3,600 times too large: seconds and hours", "3,600 times too small: seconds and hours"),
    (
        1e2,
        _PURE,
        "100 times too large: a percentage where a fraction is expected",
        "100 times too small: a fraction where a percentage is expected",
    ),
    (1e3, _ANY, "1,000 times too large: one SI prefix off", "1,000 times too small: one SI prefix off"),
    (1e6, _ANY, "10^6 times too large: two SI prefixes off", "10^6 times too small: two SI prefixes off"),
    (1e9, _ANY, "10^9 times too large: three SI prefixes off", "10^9 times too small: three SI prefixes off"),
    (1e12, _ANY, "10^12 times too large: four SI prefixes off", "10^12 times too small: four SI prefixes off"),
)
RATIO_TOLERANCE = 0.005
QUESTION, EXERCISE = "q", "x"
LONGEST, DIGITS = 40, 6
# Questions and exercises seen in this session, by key, with the answer; "" while there is none.
_seen: dict[str, str] = {}


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
        return f'<p role="status"><strong>{html_text(head)}:</strong>{html_text(tail)}</p>'


def check(
    answer: Any, expected: Any, tolerance: float = 0.02, unit: str = "", slips: Mapping[str, Any] | None = None
) -> Verdict:
    """Check an answer against the value that the package computes.

    Parameters
    ----------
    answer : float, str or None
        The reader's answer in SI units, text with a unit such as "132 TFLOP/s", or a word; None or `...`
        for an exercise not done yet.
    expected : callable, float or str
        The right answer; a callable is called now, so that the answer is recomputed and not stored.
    tolerance : float
        Relative difference that passes, 0 to 1.
    unit : str
        SI unit in which the answer is printed, such as "FLOP/s".
    slips : mapping, optional
        Likely mistakes, each a clause that completes "you get this if ...", and the value that it leads to, as for
        `expected`. A ratio upside down and a wrong unit are recognised without.

    Returns
    -------
    Verdict
        True where the answer is right; a wrong answer is not given away, but a mistake that is recognised is named.

    Raises
    ------
    ValueError
        A tolerance out of range, slips that are no mapping, or an expected value that is neither number nor word.

    Examples
    --------
    >>> check("264 TFLOP/s", lambda: 2 * 132e12, unit="FLOP/s")
    Correct: 264 TFLOP/s, within 2 % of the computed value.
    >>> check(6, 24, slips={"the positions were forgotten": lambda: 24 / 4})
    Not yet: you get 6 if the positions were forgotten.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance = {shown(tolerance)} is outside [0, 1); give a fraction such as 0.02")
    if not isinstance(unit, str) or len(unit) > LONGEST or not isinstance(slips, (Mapping, type(None))):
        raise ValueError(f"unit = {shown(unit)}, slips = {shown(slips)}: give a unit, and a mapping of slips to values")
    parsed_unit = units.parse("B" if unit == "iB" else unit)
    key = key_of(EXERCISE, expected)
    before = note(key)
    if answer is None or answer is ...:
        solved = f" You solved this before, with {before}." if before else ""
        return Verdict(False, f"Not answered yet: replace the blank with your answer and run the cell again.{solved}")
    right = _value("expected", expected)
    wrong = {str(name): _value(f"slips[{str(name)!r}]", value) for name, value in (slips or {}).items()}
    verdict = (
        _check_word(answer, right, wrong)
        if isinstance(right, str)
        else _check_number(answer, right, tolerance, unit, parsed_unit, wrong)
    )
    note(key, str(answer) if verdict else "")
    return verdict


def _value(name: str, value: Any) -> float | str:
    """Return a number, or a word in small letters; a callable is called."""
    result = value() if callable(value) else value
    if isinstance(result, (str, bool)):
        return str(result).strip().casefold()
    try:
        return float(result)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {shown(result)} is neither a number nor a word; give one, or a function") from None


def _check_word(answer: Any, right: str, wrong: Mapping[str, float | str]) -> Verdict:
    shown_answer = answer[:LONGEST] if isinstance(answer, str) else shown(answer, LONGEST)
    word = shown_answer.strip().casefold()
    if word == right:
        return Verdict(True, f"Correct: {shown_answer}.")
    slip = next((name for name, value in wrong.items() if word == value), "")
    return _wrong(shown_answer, slip, "not the computed value")


def _wrong(shown_answer: str, slip: str, reason: str) -> Verdict:
    """Return the verdict on a wrong answer: the slip that leads to it, or else the reason."""
    return Verdict(
        False, f"Not yet: you get {shown_answer} if {slip}." if slip else f"Not yet: {shown_answer} is {reason}."
    )


def _check_number(
    answer: Any, right: float, tolerance: float, unit: str, parsed_unit: units.Unit, wrong: Mapping[str, float | str]
) -> Verdict:
    try:
        number = _in_unit(answer, "B" if unit == "iB" else unit)
    except (TypeError, ValueError, ArithmeticError) as problem:
        return Verdict(False, f"Not a number: {str(problem)[:200]}")
    shown_number = units.human(number, unit) if unit else f"{number:,.4g}"
    if _is_close(number, right, tolerance):
        return Verdict(True, f"Correct: {shown_number}, within {100 * tolerance:g} % of the computed value.")
    listed = (
        name for name, value in wrong.items() if not isinstance(value, str) and _is_close(number, value, tolerance)
    )
    return _wrong(shown_number, next(listed, ""), _likely_mistake(number, right, tolerance, parsed_unit))


def _is_close(number: float, value: float, tolerance: float) -> bool:
    return number == value or abs(number - value) <= tolerance * abs(value)


def _in_unit(answer: Any, unit: str) -> float:
    """Return the answer as a number in `unit`: text must have a unit of its kind, where one is required."""
    if isinstance(answer, str) and unit:
        return float(units.si(answer[: 2 * LONGEST], unit)) / units.scale(unit)
    return float(units.si(answer[: 2 * LONGEST] if isinstance(answer, str) else answer))


def _likely_mistake(number: float, right: float, tolerance: float, parsed_unit: units.Unit) -> str:
    """Return the likely mistake that a ratio reveals: an inverted ratio, a wrong unit, or only the side."""
    if not math.isfinite(number) or not number or not right or number / right < 0:
        return "not a value that this quantity can take"
    if not parsed_unit.dimension and math.isclose(number * right, 1, rel_tol=max(tolerance, RATIO_TOLERANCE)):
        return "the right ratio upside down: give its reciprocal"
    # The counted quantity, with or without the rate's second: bytes of B/s, operations of FLOP/s.
    counted = tuple(dimension for dimension in parsed_unit.dimension if dimension[0] != "s") or parsed_unit.dimension
    ratio, side = number / right, "too large" if abs(number) > abs(right) else "too small"
    for factor, kinds, large, small in RATIOS:
        if kinds is None or counted in {units.parse(kind).dimension for kind in kinds}:
            for slip, reason in ((factor, large), (1 / factor, small)):
                if math.isclose(ratio, slip, rel_tol=RATIO_TOLERANCE):
                    return reason
    return f"{side} by more than the allowed {100 * tolerance:g} %, and not by a mistake that this check knows"


@dataclass(frozen=True)
class Progress:
    """The questions answered and exercises solved so far; see `progress`.

    Attributes
    ----------
    answered, asked : int
        Questions answered, and questions shown.
    solved, tried : int
        Exercises solved, and met.
    line : str
        The code that brings this state back.
    """

    answered: int
    asked: int
    solved: int
    tried: int
    line: str

    def __repr__(self) -> str:
        return f"{self._words()}\nTo go on later, run this line first:\n{self.line}"

    def _repr_html_(self) -> str:
        return f"<p>{self._words()} To go on later, run this line first:</p><pre>{html.escape(self.line)}</pre>"

    def _words(self) -> str:
        return f"Predictions made: {self.answered} of {self.asked}. Exercises solved: {self.solved} of {self.tried}."


def progress(line: str = "") -> Progress:
    """Return the questions answered in this session, with the line of code that restores them in the next.

    Parameters
    ----------
    line : str
        The state that an earlier call printed; what it holds is added to what this session has seen.

    Raises
    ------
    ValueError
        Text that no call of it printed.

    Examples
    --------
    >>> progress("x0a1b2c=264%20TFLOP%2Fs").line.startswith('cb.progress("')
    True
    """
    if not isinstance(line, str):
        raise ValueError(f"line = {shown(line)} is not text; paste the whole line that was printed")
    entries = [entry.partition("=") for entry in line.split()]
    for key, sign, answer in entries:
        if not sign or not _is_key(key) or quote(unquote(answer), safe="") != answer:
            entry = shown(f"{key}{sign}{answer}")
            raise ValueError(
                f"line contains {entry}, which is not a state of progress; paste the whole line that was printed"
            )
    for key, _, answer in entries:
        note(key, unquote(answer))
    done = {kind: [answer for key, answer in _seen.items() if key[0] == kind] for kind in (QUESTION, EXERCISE)}
    count = {kind: (sum(map(bool, answers)), len(answers)) for kind, answers in done.items()}
    state = " ".join(f"{key}={quote(answer, safe='')}" for key, answer in sorted(_seen.items()))
    return Progress(*count[QUESTION], *count[EXERCISE], f'cb.progress("{state}")')


def _is_key(key: str) -> bool:
    """Return True if a text is a key as `key_of` makes them: q or x, and six hexadecimal digits."""
    return key[:1] in (QUESTION, EXERCISE) and len(key) == 1 + DIGITS and set(key[1:]) <= set("0123456789abcdef")


def key_of(kind: str, what: str | Callable[..., Any]) -> str:
    """Return the key under which a question or an exercise is remembered; the same whenever the same notebook runs.

    Parameters
    ----------
    kind : str
        `QUESTION` or `EXERCISE`.
    what : str or callable
        Text of the question, or the function that computes what is right.
    """
    code = getattr(what, "__code__", None)
    plain = [constant for constant in getattr(code, "co_consts", ()) if isinstance(constant, (str, int, float, tuple))]
    text = repr((code.co_names, plain)) if code else what if isinstance(what, str) else shown(what)
    return kind + hashlib.sha256(text.encode(errors="replace")).hexdigest()[:DIGITS]


def note(key: str, answer: str = "") -> str:
    """Remember an answer; a blank one never replaces another. Returns what is remembered.

    Parameters
    ----------
    key : str
        From `key_of`.
    answer : str
        The reader's choice or typed answer, cut to 40 characters.
    """
    _seen[key] = answer[:LONGEST] or _seen.get(key, "")
    return _seen[key]


OPTION_LETTERS = string.ascii_lowercase


@dataclass(frozen=True)
class Question:
    """A question to answer before running, with what to say of each option; see `predict_first`."""

    question: str
    options: Mapping[str, str]
    answer: str
    words: Mapping[str, str]

    def __repr__(self) -> str:
        options = [f"  {key}) {text}" for key, text in self.options.items()]
        return "\n".join([f"Predict: {self.question}", *options, "\n  ".join(self._feedbacks())])

    def feedback(self, choice: str) -> str:
        """Return the reader's feedback on one option."""
        if choice == self.answer:
            return f"Answer: {choice}) {self.options[choice]}: {self.words[choice]}"
        return f"Not {choice}): {self.words[choice]}"

    def _feedbacks(self) -> list[str]:
        """Return the feedback on each option, the right one first."""
        return [self.feedback(key) for key in sorted(self.options, key=lambda key: key != self.answer)]

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{key}) {html_text(text)}</li>" for key, text in self.options.items())
        paragraphs = "".join(f"<p>{html_text(line)}</p>" for line in self._feedbacks())
        return (
            f"<p><strong>Predict:</strong> {html_text(self.question)}</p>"
            f'<ul style="list-style: none">{items}</ul>'
            f"<details><summary>Show the answer</summary>{paragraphs}</details>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if is_live():
            bundle.update(_question_widget(self)._repr_mimebundle_())
            bundle["text/plain"] = repr(self)
        return bundle


def predict_first(question: str, options: Mapping[str, str], answer: str) -> Question:
    """Ask a question to answer before running the next cell.

    Parameters
    ----------
    question : str
        The question.
    options : dict of str to str
        Text of each option, and the feedback to a reader who chooses it: for a wrong one the misconception that leads
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
    Answer: b) 2: one product, one sum
      Not a): a MAC multiplies and adds
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"question = {shown(question)} is not text; give the question")
    if not isinstance(options, Mapping) or not 2 <= len(options) <= len(OPTION_LETTERS):
        most = f"two to {len(OPTION_LETTERS)} options, each with what to say of it"
        raise ValueError(f"answer = {shown(answer)} must be one of {most}; they are {shown(options)}")
    mute = [option for option, words in options.items() if not (isinstance(words, str) and words)]
    if mute:
        raise ValueError(f"option {shown(mute[0])} says nothing; give the misconception behind it, or why it is right")
    if not isinstance(answer, str) or answer not in options:
        raise ValueError(f"answer = {shown(answer)} must be one of the options; they are {shown(list(options))}")
    note(key_of(QUESTION, question))
    keys = dict(zip(options, OPTION_LETTERS, strict=False))
    feedback = MappingProxyType({keys[option]: words for option, words in options.items()})
    texts = MappingProxyType({key: str(option) for option, key in keys.items()})
    return Question(question, texts, keys[answer], feedback)


def is_live() -> bool:
    """Return True if a front end with widgets is watching: a Jupyter server started this kernel for a notebook."""
    return served() and find_spec("ipywidgets") is not None


def _question_widget(question: Question) -> Any:
    """Return radio buttons that answer the choice with the misconception behind it, or with the explanation."""
    import ipywidgets

    choices = [(f"{key}) {text}", key) for key, text in question.options.items()]
    wide = ipywidgets.Layout(width="auto")
    key = key_of(QUESTION, question.question)
    before = note(key) if note(key) in question.options else None
    radio = ipywidgets.RadioButtons(options=choices, value=before, layout=wide)
    first = html.escape(question.feedback(before)) if before else "Choose one before you run the next cell."
    feedback = ipywidgets.HTML(f'<p role="status">{first}</p>')
    heading = ipywidgets.HTML(f"<strong>Predict:</strong> {html.escape(question.question)}")

    def tell(change: Any) -> None:
        note(key, change["new"])
        feedback.value = f'<p role="status">{html.escape(question.feedback(change["new"]))}</p>'

    radio.observe(tell, names="value")
    return ipywidgets.VBox([heading, radio, feedback])


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
        body = [html_text(line) for line in self.lines]
        body = [mark.format(line) if i in self.marked else line for i, line in enumerate(body)]
        return f"<pre><code># {html.escape(self.name)}\n" + "\n".join(body) + "</code></pre>"


def show_source(function: Callable[..., Any], lines: tuple[int, int] | None = None, highlight: str = "") -> Source:
    """Show the source that really runs, without its docstring.

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
    >>> from cookbook.formulas import arithmetic
    >>> show_source(arithmetic.ridge_point, lines=(-1, -1), highlight="mem_bandwidth")
    # cookbook.formulas.arithmetic.ridge_point
    >     return np.asarray(peak_flops / mem_bandwidth)
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
    """Return hints that a reader unfolds one by one.

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
