"""A report of one panel: one page that opens without a network, or PDF."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cookbook import panels
from cookbook.catalog.files import check_target, write_text
from cookbook.catalog.reading import check_names
from cookbook.charts import live
from cookbook.panels.decision import PICTURE
from cookbook.units import shown

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-pdf-header-footer")
LONGEST_PRINT = 120  # seconds
PAGES = (".html", ".htm")


def report(
    name: str,
    out: str | Path = "report.html",
    state: Mapping[str, Any] | None = None,
    question: str = "",
    note: str = "",
    pdf: bool = False,
) -> list[Path]:
    """Write a panel in one state as a page of its own, and as PDF on request.

    The page contains answer, interval, inputs, chart, table, sources with their links, versions and the code that
    reproduces it. It fetches nothing; its one script is that of the print button.

    Parameters
    ----------
    name : str
        A panel of `cookbook.panels`, such as "stack".
    out : str or Path
        The page to write, whose name ends in .html; the PDF gets the same stem.
    state : mapping, optional
        Controls that differ from the panel's defaults, as typed.
    question, note : str
        Title of the report, and the reader's own words.
    pdf : bool
        True to print it to PDF too, by the Chromium of this machine (or CHROMIUM of the environment).

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If the panel or a control does not exist, the state has no answer (the message gives the reason), or the file
        is not a page.
    OSError
        If there is no Chromium, or it wrote nothing or took too long.
    """
    values = made(name, state or {}).values
    out = check_target(Path(out))
    if out.suffix.lower() not in PAGES:
        raise ValueError(f"out = {out} is a page; give a name that ends in .html, and pdf=True for the PDF beside it")
    panel = getattr(panels, name)(**values)  # made in this state, whose chart is that of the report
    picture = b64encode(live.to_png(**panel.chart)).decode()
    page = panels.record(panel, question, note=note).report(f"{PICTURE}{picture}")
    written = [write_text(out, page)]
    return [*written, printed(written[0])] if pdf else written


def made(name: str, state: Mapping[str, Any]) -> Any:
    """Return the panel called `name` with its controls set to `state`.

    A ValueError explains what is wrong with either.
    """
    if name not in panels.RECIPES:
        raise ValueError(f"{shown(name)} is no panel; take one of {', '.join(panels.RECIPES)}")
    panel = getattr(panels, name)()
    check_names(state, list(panel.values), name, "control")
    panel.update(**state)
    if panel.shown["error"]:
        raise ValueError(panel.shown["error"])
    return panel


def read_state(given: list[str]) -> dict[str, Any]:
    """Read controls `given` as ``name=value`` on a command line; lists and empty values are written as JSON.

    ValueError where one has no name or no equals sign.

    Examples
    --------
    >>> read_state(["task=serve", "rate=20", 'accelerators=["t4", "l4"]', "seq=null"])
    {'task': 'serve', 'rate': 20, 'accelerators': ['t4', 'l4'], 'seq': None}
    """
    state: dict[str, Any] = {}
    for assignment in given:
        name, sign, text = assignment.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"--set {shown(assignment)} is not NAME=VALUE; write one such as task=serve")
        try:
            state[name.strip()] = json.loads(text)
        except ValueError:
            state[name.strip()] = text
    return state


def printed(source: Path) -> Path:
    """Print the page `source` to a PDF beside it, by the Chromium of this machine; OSError where there is none."""
    names = (os.environ.get("CHROMIUM", ""), *BROWSERS)
    browser = next((path for path in (shutil.which(name) for name in names if name) if path), None)
    if browser is None:
        raise OSError(
            "no Chromium was found to print with: install one, give its path in CHROMIUM, or open "
            f"{source} in any browser and print it there"
        )
    target = source.with_suffix(".pdf").resolve()
    fresh = target.with_name(f"{target.stem}.{os.getpid()}.part")  # beside it, where a browser in a cage may write too
    try:
        reason = _print(browser, source, fresh)
        if reason:
            target.unlink(missing_ok=True)  # one of an earlier run would pass for this one
            raise OSError(f"{browser} {reason} for {target}; open {source} in a browser and print it there")
        return fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _print(browser: str, source: Path, target: Path) -> str:
    """Return the reason why a browser could not print a page to a file; "" where it could."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", f"--print-to-pdf={target}", source.resolve().as_uri()]
        try:
            subprocess.run(command, check=False, capture_output=True, timeout=LONGEST_PRINT)
        except subprocess.TimeoutExpired:
            return f"took longer than {LONGEST_PRINT} s"
    whole = target.is_file() and target.read_bytes().startswith(b"%PDF")
    return "" if whole else "printed nothing"
