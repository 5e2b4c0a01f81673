"""Everything that a reader sees is in plain English: no phrase of the list in text, questions, panels or docs."""

import csv
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
with (Path(__file__).parent / "voice.csv").open(encoding="utf-8", newline="") as table:
    PHRASES = [(re.compile(row["pattern"], re.I), row["instead"], row["example"]) for row in csv.DictReader(table)]
NO_PROSE = r"`[^`\n]*`|\]\([^)]*\)|https?://\S+|sha=\w+|^ *(?!cb\.predict_first)[\w.]+(?: = )?[\w.]*\(.*\)$"
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "notebooks").rglob("*.md"))]


def read(path: Path) -> str:
    """Return what a reader reads: Markdown, questions, feedback, and what panels and records say."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    texts = []
    for cell in nbformat.read(path, as_version=4).cells:
        said = cell.cell_type == "markdown" or {"question", "check", "parameters"} & set(cell.metadata.get("tags", []))
        texts.append(cell.source if said else "")
        for output in cell.get("outputs", []):
            texts += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
    return "\n".join(texts)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in [*NOTEBOOKS, *PAGES]])
def test_no_phrase_of_the_list(path):
    # Code, addresses and the fingerprints of charts are not read as prose.
    text = re.sub(NO_PROSE, " ", read(path), flags=re.M)
    found = [(match[0], instead) for pattern, instead, _ in PHRASES for match in pattern.finditer(text)]
    assert not found, "\n".join(f"{phrase!r}: write {instead}" for phrase, instead in found)


@pytest.mark.parametrize(("pattern", "example"), [(pattern, example) for pattern, _, example in PHRASES])
def test_each_phrase_is_found_where_it_is(pattern, example):
    assert pattern.search(example), example
