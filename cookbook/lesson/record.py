"""What a reader has answered and solved in this session, and one line of code that brings it back in another."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

ENTRY = re.compile(r"([qx][0-9a-f]{6})=([-\w.~%]*)")
QUESTION, EXERCISE = "q", "x"
LONGEST = 40
# What this session has seen: questions asked and exercises tried, by key, with the answer; "" while there is none.
_seen: dict[str, str] = {}


@dataclass(frozen=True)
class Progress:
    """What has been answered and solved so far; see `progress`.

    Attributes
    ----------
    answered, asked : int
        Questions answered, and asked.
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
    """What this session has answered and solved, with the line of code that restores it in the next.

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
    entries = line.split()
    wrong = next((entry for entry in entries if not ENTRY.fullmatch(entry)), "")
    if wrong:
        raise ValueError(f"line has {wrong!r}, which is no state of progress; paste the whole line that was printed")
    for key, answer in (entry.split("=") for entry in entries):
        note(key, unquote(answer))
    done = {kind: [answer for key, answer in _seen.items() if key[0] == kind] for kind in (QUESTION, EXERCISE)}
    count = {kind: (sum(map(bool, answers)), len(answers)) for kind, answers in done.items()}
    state = " ".join(f"{key}={quote(answer, safe='')}" for key, answer in sorted(_seen.items()))
    return Progress(*count[QUESTION], *count[EXERCISE], f'cb.progress("{state}")')


def key_of(kind: str, what: str | Callable[..., Any]) -> str:
    """Name under which a question or an exercise is remembered; the same whenever the same notebook runs.

    Parameters
    ----------
    kind : str
        `QUESTION` or `EXERCISE`.
    what : str or callable
        Text of the question, or the function that computes what is right.
    """
    code = getattr(what, "__code__", None)
    plain = [each for each in getattr(code, "co_consts", ()) if isinstance(each, (str, int, float, tuple))]
    text = repr((code.co_names, plain)) if code else str(what)
    return kind + hashlib.sha256(text.encode()).hexdigest()[:6]


def note(key: str, answer: str = "") -> str:
    """Remember an answer; a blank one never replaces another. Returns what is remembered.

    Parameters
    ----------
    key : str
        From `key_of`.
    answer : str
        What the reader chose or typed, cut to 40 characters.
    """
    _seen[key] = answer[:LONGEST] or _seen.get(key, "")
    return _seen[key]
