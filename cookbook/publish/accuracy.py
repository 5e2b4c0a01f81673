"""The accuracy section of README, written from the table of validation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cookbook import catalog

if TYPE_CHECKING:
    import pandas as pd

START, END = "<!-- accuracy: start -->", "<!-- accuracy: end -->"
KINDS = {
    "training_classic": "training of convolutional, recurrent and other classic networks",
    "training_transformer": "training of transformers",
    "inference": "one forward pass",
}
WAYS = {
    "source": "its publisher",
    "accelerator": "its accelerator's generation",
    "family": "its family of networks",
    "row": "the row alone",
}
SHOWN = ("full", "without neighbours", "constant utilisation", "scaled neighbour")
HEADINGS = ("predicted", "not seen", "model", "rows", "median error", "mean of publishers", "within 10 %",
            "80 % interval covers", "reaches")  # fmt: skip


def accuracy_section(report: pd.DataFrame | None = None) -> str:
    """Markdown: errors on measurements that were left out, the coverage of intervals, and the rules to beat.

    Parameters
    ----------
    report : pandas.DataFrame, optional
        Rows like those of the table ``validation``, which is the default.
    """
    table = catalog.table("validation") if report is None else report
    whole = table[(table["by"] == "all") & table["model"].isin(SHOWN)]
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for row in whole.itertuples(index=False):
        covers = f"{row.publishers_covered_80:.0%}" if row.publishers_covered_80 == row.publishers_covered_80 else ""
        reach = f"x{row.factor_80:.2f}" if row.factor_80 == row.factor_80 else ""
        cells = (KINDS[row.kind], WAYS[row.leave_out], row.model, f"{row.rows:.0f}", f"{row.median_error:.1%}",
                 f"{row.mean_of_publishers:.1%}", f"{row.within_10:.0%}", covers, reach)  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines[:2], *(line.replace("%", " %") for line in lines[2:])]) + "\n"


def write_accuracy(path: str | Path, report: pd.DataFrame | None = None) -> Path:
    """Write the section into a page, between its two marks.

    Parameters
    ----------
    path : str or Path
        The page.
    report : pandas.DataFrame, optional
        As for `accuracy_section`.

    Raises
    ------
    ValueError
        If the page lacks the marks.
    """
    page = Path(path)
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.S)
    if not pattern.search(text):
        raise ValueError(f"{page} lacks the marks {START} and {END}; put them where the section belongs")
    section = f"{START}\n{accuracy_section(report)}{END}"
    page.write_text(pattern.sub(lambda found: section, text), encoding="utf-8")
    return page
