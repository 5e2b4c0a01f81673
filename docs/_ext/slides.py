"""Slides of a course: its schedule, the votes of its recipes, and the questions and sentences of their facilitators."""

import ast
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from cookbook.publish.notebook import read

# Patterns of a course: rows of its schedule, recipes and links in them, its closing sentence.
ROW = re.compile(r"^\| (\d+:\d\d)–(\d+:\d\d) \|(.*)\|$", re.M)
RECIPE = re.compile(r"\]\(\.\./(\d\d-[\w-]+)\.ipynb\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
TO_LEAVE_WITH = re.compile(r"One sentence to leave with: \*(.+)\*")
VOTES_IN_SHORT, TO_DISCUSS = 1, 3  # votes of a shortened recipe; questions of one slide


def slides(course: str | Path) -> str:
    """Return HTML of the slides of a course, one section per slide; they show votes and questions, and no answer.

    Parameters
    ----------
    course : str or Path
        Its facilitator page, whose table of times, blocks, recipes and ways names notebooks of the folder above.

    Returns
    -------
    str
        Sections with headings, in the order of the schedule.

    Raises
    ------
    ValueError
        If the page has no schedule.
    """
    course = Path(course)
    text = course.read_text(encoding="utf-8")
    rows = [(start, end, *(cell.strip() for cell in rest.split("|"))) for start, end, rest in ROW.findall(text)]
    if not rows:
        raise ValueError(f"{course} has no schedule: its rows begin like '| 9:00–9:45 | block | recipe | how |'")
    title, sentence = text.partition("\n")[0].lstrip("# "), TO_LEAVE_WITH.search(text)
    whole = "".join(f"<tr><td>{start}–{end}</td><td>{_line(block)}</td></tr>" for start, end, block, *_ in rows)
    closing = f"<p>{_line(_capitalised(sentence[1]))}</p>" if sentence else ""
    sections = [(title, closing), ("Schedule", f"<table>{whole}</table>")]
    for start, end, block, recipe, how, *leaves in rows:
        if linked := RECIPE.search(recipe):
            sections += _slides_of(course, linked[1], f"{start}–{end}", block, how, leaves)
        else:
            sections.append((f"{_line(block)}, until {end}", f"<p>{_line(how)}</p>"))
    return "".join(
        f'<section class="slide"><h{min(at, 1) + 1} id="slide-{at}">{head}</h{min(at, 1) + 1}>{body}</section>\n'
        for at, (head, body) in enumerate(sections)
    )


def _slides_of(
    course: Path, name: str, time: str, block: str, how: str, leaves: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield heading and HTML of each slide of a block: the decision, the votes, the discussion, the takeaways."""
    notebook = read(course.parents[1] / f"{name}.ipynb")
    opening = next(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    question_bold, goals = re.search(r"(?s)\*\*(.+?)\*\*", opening), re.findall(r"^\d\. (.+)$", opening, re.M)
    decision = f'<p class="question">{_line(question_bold[1])}</p>' if question_bold else ""
    goal = f"<p>You will be able to</p><ol>{_points(goals)}</ol>" if goals else ""
    yield f"{_line(block)} ({time})", f"{decision}{goal}"
    votes = [vote for cell in notebook.cells if cell.cell_type == "code" for vote in _votes(cell.source)]
    for question, options in votes if how.startswith("Whole") else votes[:VOTES_IN_SHORT]:
        letters = '<ol style="list-style-type: lower-alpha">'
        yield "Vote", f'<p class="question">{_line(question)}</p>{letters}{_points(options)}</ol>'
    page = course.parent / f"{name}.md"
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        aloud = re.search(r"(?s)## Questions to ask aloud\n(.+?)\n## ", text)
        listed = re.findall(r"^- (.+?)(?: \(.*)?$", aloud[1], re.M) if aloud else []
        if listed:
            yield "Discuss", f"<ul>{_points(listed[:TO_DISCUSS])}</ul>"
        if sentence := TO_LEAVE_WITH.search(text):
            with_you = f"<p>You leave with: {_line(leaves[0])}.</p>" if leaves and leaves[0] else ""
            yield "To keep", f'<p class="question">{_line(_capitalised(sentence[1]))}</p>{with_you}'


def _votes(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield question and options of each `predict_first` in the code of a cell."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "predict_first":
            question, options = map(ast.literal_eval, node.args[:2])
            yield question, list(options)


def _points(texts: list[str]) -> str:
    return "".join(f"<li>{_line(text).rstrip(';')}</li>" for text in texts)


def _capitalised(text: str) -> str:
    """Return a sentence with a capital letter, as it is printed alone on a slide."""
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    """Return one line of Markdown as HTML: emphasis and code remain, links become their words."""
    text = escape(LINK.sub(r"\1", " ".join(text.split())), quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"(?<![\w*])\*(\w[^*]*[\w.?!])\*(?![\w*])", r"<em>\1</em>", text)
