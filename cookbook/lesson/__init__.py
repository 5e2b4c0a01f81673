"""Lesson aids: questions to answer first, exercises that check themselves, hints, the real source, and progress.

All of them print as plain text; a notebook shows HTML, and a live front end with widgets shows an interactive
question. What they print depends on their arguments, and on what the reader did before in the same session.
"""

from cookbook.lesson.checks import RATIOS, Verdict, check
from cookbook.lesson.questions import Question, predict_first
from cookbook.lesson.reading import Hint, Source, hint, show_source
from cookbook.lesson.record import Progress, progress

__all__ = [
    "RATIOS", "Hint", "Progress", "Question", "Source", "Verdict", "check", "hint", "predict_first", "progress",
    "show_source",
]  # fmt: skip
