"""Questions to answer before running: each wrong option is a misconception with its name."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from cookbook.lesson.record import QUESTION, key_of, note


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
    note(key_of(QUESTION, question))
    keys = dict(zip(options, "abcdefgh", strict=False))
    told = {keys[option]: words for option, words in options.items()}
    right = keys[answer]
    return Question(question, {key: option for option, key in keys.items()}, right, told, told[right])


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
