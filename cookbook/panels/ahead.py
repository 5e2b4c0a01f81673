"""What a reader probably asks next, computed and sent while the present answer is read.

Whoever moved a slider by a stop mostly moves it by another one. That state is drawn while the kernel has nothing to do,
and travels to the page, which shows it at the next key press without waiting for the kernel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cookbook.charts import live
from cookbook.panels.controls import PROBLEMS, Slider, same

if TYPE_CHECKING:
    from cookbook.panels.shell import Panel, View

# Longer than a key that is held down waits between two presses, and shorter than a reader looks [s].
PAUSE = 0.06
# What changes with the state that a panel tells of.
CHANGING = ("_state", "_good", "_view", "_typed", "_off", "_seq", "_turn")


def later(seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle | None:
    """Call once the kernel has nothing to do for so long; at no time where no kernel waits: in a script, in a test."""
    try:
        return asyncio.get_running_loop().call_later(seconds, call)
    except RuntimeError:
        return None


def packed(coming: Mapping[str, Any], _widget: Any = None) -> dict[str, Any]:
    """A coming state as it travels: its columns as those of a chart."""
    return {**coming, "columns": live.packed(coming["columns"])} if coming.get("columns") else dict(coming)


def next_stop(slider: Slider, before: Any, now: Any) -> float | None:
    """The stop after the one that a slider was moved to, in the direction of the move; None at either end.

    Examples
    --------
    >>> batch = Slider("batch", "Batch", "Workload", stops=(1.0, 2.0, 4.0, 8.0))
    >>> next_stop(batch, 2, 4), next_stop(batch, 4, 2), next_stop(batch, 4, 8)
    (8.0, 1.0, None)
    """
    if not isinstance(before, (int, float)) or now not in slider.stops or before == now:
        return None
    at = slider.stops.index(now) + (1 if now > before else -1)
    return slider.stops[at] if 0 <= at < len(slider.stops) else None


class Ahead:
    """Draws the state of a panel that comes next, and keeps it until it is asked for."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._timer: asyncio.TimerHandle | None = None
        self._known: tuple[dict[str, Any], View | None, View] | None = None

    def view(self, values: dict[str, Any], pinned: View | None) -> View:
        """The view of a state: the one that was drawn ahead, or a new one."""
        if self._known:
            known, with_pinned, view = self._known
            if with_pinned is pinned and all(same(known[name], value) for name, value in values.items()):
                return view
        return self._panel._draw(values, pinned)

    def after(self, changed: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Think ahead of a reader who moved one slider, once the answer to that is out."""
        if self._timer:
            self._timer.cancel()
        if len(changed) == 1 and not self._panel._error:
            (name,) = changed
            slider, now = self._panel._controls[name], self._panel._state
            stop = next_stop(slider, before[name], now[name]) if isinstance(slider, Slider) else None
            if stop is not None:
                self._timer = later(PAUSE, lambda: self.draw(name, stop))

    def draw(self, name: str, stop: float) -> None:
        """Draw a coming state and send it; nothing, where it has no answer or asks for another chart."""
        panel, view = self._panel, None
        with suppress(*PROBLEMS):
            values = panel._read({**panel._state, name: stop})
            view = panel._draw(values, panel._pinned)
        if view is None or panel._error or view.picture.name not in panel.specs:
            return
        self._known = values, panel._pinned, view
        columns = None if view.picture.frame is panel._drawn else live.to_columns(view.picture.frame)
        shown = self._message(values, view)
        panel.coming = {"turn": panel.shown["turn"], "name": name, "raw": stop, "shown": shown, "columns": columns}

    def _message(self, values: dict[str, Any], view: View) -> dict[str, Any]:
        """What the page would show of a state that is asked for next; the panel stays as it is."""
        panel = self._panel
        now = {what: getattr(panel, what) for what in CHANGING}
        typed = {name: text for name, text in panel._typed.items() if same(values[name], panel._state[name])}
        try:
            panel._state, panel._good, panel._view = values, values, view
            panel._typed, panel._off = typed, dict(panel._off)
            panel._seq, panel._turn = now["_seq"] + 1, now["_turn"] + 1
            return panel._message(view)
        finally:
            for what, value in now.items():
                setattr(panel, what, value)
