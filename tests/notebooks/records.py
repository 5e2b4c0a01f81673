"""Readers of stored pages: the tables of a recipe and the rows of its decision record, as a reader sees them."""

import re
from pathlib import Path

import nbformat
import pandas as pd
from bs4 import BeautifulSoup

NUMBER = r"((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|inf)"
FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
# PyTorch's own attention is FlashAttention 2.
WAYS = {"megatron-core": {}, "torchtitan": {}, "PyTorch FSDP": dict(attention="flash2")}


def cells(number: str) -> dict[str, nbformat.NotebookNode]:
    """Return the cells by name of recipe `number`, such as "04", or of a page of history, such as "ten"."""
    path = next(path for folder in (FOLDER, FOLDER / "history") for path in folder.glob(f"{number}-*.ipynb"))
    return {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}


def sources(number: str) -> dict[str, str]:
    """Return the text or code of each cell of a page."""
    return {name: cell.source for name, cell in cells(number).items()}


def outputs(number: str, cell: str) -> list[nbformat.NotebookNode]:
    """Return the stored outputs of a cell."""
    return cells(number)[cell].outputs


def table(number: str, cell: str) -> pd.DataFrame:
    """Return the first table that a cell shows, as text: rows by their first heading, columns by their names."""
    pages = ("".join(output.get("data", {}).get("text/html", "")) for output in outputs(number, cell))
    page = BeautifulSoup(next(page for page in pages if "<tbody>" in page), "html.parser")
    names = [head.get_text() for head in page.thead.find_all("tr")[0].find_all("th")]
    rows = [[entry.get_text() for entry in row.find_all(["th", "td"])] for row in page.tbody.find_all("tr")]
    return pd.DataFrame(rows, columns=names).set_index(names[0])


def words(number: str, cell: str) -> str:
    """Return what a cell prints or says as text: a panel's answer, a printed line, a check."""
    found = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs(number, cell))
    return "\n".join(filter(None, found))


def decision(number: str, cell: str = "decision") -> dict[str, str]:
    """Return the rows of the section Decision of a stored record: label and text."""
    section = words(number, cell).split("## Decision\n")[1].split("\n## ")[0]
    rows = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", section, re.M)
    return {label: re.sub(r"\\(.)", r"\1", text) for label, text in rows}


def interval(text: str) -> list[float]:
    """Return point, low and high of a text such as "8,000 (0 to 57,000)"."""
    return [
        float(figure.replace(",", "")) for figure in re.fullmatch(rf"{NUMBER} \({NUMBER} to {NUMBER}\)", text).groups()
    ]
