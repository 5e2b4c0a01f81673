"""Lesson aids: questions to answer first, exercises that check themselves, hints, the real source, and progress.

All of them print as plain text; a notebook shows HTML, and a live front end with widgets shows an interactive
question. What they print depends on their arguments, and on what the reader did before in the same session.
"""

from cookbook.lesson.exercises import RATIOS, Progress, Verdict, check, progress
from cookbook.lesson.reading import Hint, Question, Source, hint, predict_first, show_source

__all__ = [
    "RATIOS", "Hint", "Progress", "Question", "Source", "Verdict", "check", "hint", "predict_first", "progress",
    "show_source",
]  # fmt: skip
