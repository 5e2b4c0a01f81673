"""Parts of README that commands write between two marks: the accuracy of predictions, and launch links for Binder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from cookbook import catalog
from cookbook.catalog.writing import write_text

if TYPE_CHECKING:
    import pandas as pd

ACCURACY, BINDER = "accuracy", "binder-links"
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
    return put(path, ACCURACY, accuracy_section(report))


def links(repo: str, tag: str, notebooks: list[Path]) -> str:
    """Markdown list of launch links: one a notebook of `notebooks`, for the GitHub repository `repo` at `tag`.

    Raises ValueError for a `repo` that is not owner/name or a `tag` that is not a version such as v0.1.0.

    >>> print(links("owner/name", "v0.1.0", [Path("notebooks/00-start-here.ipynb")]))
    - [00-start-here](https://mybinder.org/v2/gh/owner/name/v0.1.0?urlpath=lab%2Ftree%2Fnotebooks%2F00-start-here.ipynb)
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise ValueError(f"REPO is {repo!r}; write it as owner/name")
    if not re.fullmatch(r"v\d+(\.\d+)*[\w.-]*", tag):
        raise ValueError(f"TAG is {tag!r}; write a version tag such as v0.1.0 (a branch would move under the reader)")
    base = f"https://mybinder.org/v2/gh/{repo}/{tag}?urlpath="
    return "\n".join(
        f"- [{path.stem}]({base}{quote(f'lab/tree/notebooks/{path.name}', safe='')})" for path in notebooks
    )


def write_links(readme: str | Path, repo: str, tag: str) -> Path:
    """Put launch links for every notebook beside `readme` into it; pinned to a tag, a link opens the same next year.

    Raises ValueError if the marks are missing, or as `links` does for a bad `repo` or `tag`.
    """
    notebooks = sorted((Path(readme).parent / "notebooks").glob("[0-9][0-9]-*.ipynb"))
    return put(readme, BINDER, links(repo, tag, notebooks) + "\n")


def marks(part: str) -> tuple[str, str]:
    """The two lines between which a command writes the `part` of a page."""
    return f"<!-- {part}: start -->", f"<!-- {part}: end -->"


def put(path: str | Path, part: str, text: str) -> Path:
    """Write `text` between the marks of a `part` of the page at `path`; raises ValueError where it lacks them."""
    start, end = marks(part)
    page = Path(path).read_text(encoding="utf-8")
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{path} lacks the marks {start} and {end}; put them where the part belongs")
    return write_text(path, f"{before}{start}\n{text}{end}{after}")
