"""Launch links for Binder, pinned to a tag so that a link in a slide opens the same notebook next year."""

import re
from pathlib import Path
from urllib.parse import quote

START, END = "<!-- binder-links: start -->", "<!-- binder-links: end -->"


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
    """Replace the marked region of `readme` with launch links for every notebook beside it.

    Raises ValueError if the marks are missing, or as `links` does for a bad `repo` or `tag`.
    """
    readme = Path(readme)
    text = readme.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise ValueError(f"{readme.name} lacks the lines {START} and {END}")
    body = links(repo, tag, sorted((readme.parent / "notebooks").glob("[0-9][0-9]-*.ipynb")))
    before, rest = text.split(START, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{START}\n{body}\n{END}{after}", encoding="utf-8")
    return readme
