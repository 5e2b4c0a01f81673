"""A progress bar for long computations, on one line of standard error."""

from __future__ import annotations

import sys
import time

WIDTH, LINE, PATIENCE = 30, 100, 1.0  # letters of the bar and of its line; seconds before it shows


def progress_bar(done: int, total: int, name: str = "", *, unit: str = "", since: float | None = None) -> None:
    """Show progress: an overwritten bar on a screen; elsewhere a line for each step with a name.

    Parameters
    ----------
    done, total : int
        Steps that are done, and all of them.
    name : str
        The step that is being done.
    unit : str
        The noun of what is counted, such as "jobs".
    since : float, optional
        When the computation began, by `time.monotonic` [s]: nothing is shown within the first second.

    Examples
    --------
    >>> progress_bar(2, 9, "matmul 256x256x256")
    """
    if since is not None and time.monotonic() - since <= PATIENCE:
        return
    if sys.stderr.isatty():
        filled = "#" * (WIDTH * done // max(total, 1))
        line = f"[{filled:{WIDTH}}] " + " ".join(filter(None, (f"{done:,} of {total:,}", unit, name)))
        print(f"\r{line[:LINE]:{LINE}}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif name:
        print(f"[{done}/{total}] {name}"[:LINE], file=sys.stderr, flush=True)
