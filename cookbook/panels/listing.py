"""A page of the app: the panel that its address names, in a process that was started before it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import anywidget
import ipywidgets

from cookbook import panels

# What a page says whose process has no memory left to make its panel.
EXHAUSTED = "There is not enough memory for this panel. Close pages that you no longer need, then reload this one."


class Door(anywidget.AnyWidget):
    """Widget that sends the panel named in the page's address to the process, and says if none arrives."""

    _esm = """export default { render({ model, el }) {
      el.setAttribute("role", "status");
      el.textContent = "Opening the panel.";
      const late = setTimeout(() => {
        el.textContent = "The panel has not come yet. If it does not, the memory of its process may be exhausted: "
          + "close pages that you no longer need, then reload this one.";
      }, 20000);
      model.send({ panel: new URLSearchParams(location.search).get("panel") ?? "" });
      return () => clearTimeout(late);
    } };"""


def page(most_bytes: float | None = None) -> ipywidgets.VBox:
    """Return the box of the app's notebook: empty at first, then with the requested panel.

    Parameters
    ----------
    most_bytes : float, optional
        Memory that this process may allocate [B]; None for no limit. Linux alone keeps it.

    Examples
    --------
    >>> box = page()
    >>> opened(box, {"panel": "assembly_line"}), box.children[0].name
    (True, 'assembly_line')
    """
    for name in panels.RECIPES:  # so that a page waits for no import
        getattr(panels, name)
    if most_bytes is not None:
        keep_within(most_bytes)
    door = Door()
    box = ipywidgets.VBox([door])
    door.on_msg(lambda _, message, __: opened(box, message))
    return box


def opened(box: ipywidgets.VBox, message: Mapping[str, Any]) -> bool:
    """Return True if the box now contains the requested panel; otherwise it contains the reason."""
    name = message.get("panel")
    if name not in panels.RECIPES:
        names = ", ".join(panels.RECIPES)
        box.children = (_told(f"There is no panel {str(name)[:60]!r}; there are {names}."),)
        return False
    try:
        box.children = (getattr(panels, name)(),)
    except MemoryError:
        box.children = (_told(EXHAUSTED),)
        return False
    return True


def _told(text: str) -> ipywidgets.HTML:
    return ipywidgets.HTML(f'<p role="alert">{escape(text)}</p>')


def keep_within(most_bytes: float) -> bool:
    """Limit the memory of this process, so that its panel can report a MemoryError; return True if that was possible.

    Parameters
    ----------
    most_bytes : float
        Memory that the process may allocate beyond its code [B].
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return False
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = int(most_bytes) if hard == resource.RLIM_INFINITY else min(int(most_bytes), hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    return True
