"""A button that measures this machine: progress, a way to stop, then the panel on the results."""

from __future__ import annotations

import threading
from html import escape
from typing import Any

import ipywidgets

from cookbook.charts import live
from cookbook.charts.card import kept
from cookbook.topics.machine.fitted import Calibration, calibrate
from cookbook.topics.machine.panel import this_machine
from cookbook.topics.machine.report import Report
from cookbook.topics.machine.suite import SECONDS, run

READY_TEXT = (
    "Matrix products, memory, the drive and a few networks, in about {seconds:.0f} s at most. Nothing is sent "
    "anywhere. Close other programs first."
)
STATIC_TEXT = "This button measures the machine that runs the page; it works in JupyterLab, on Binder and in Colab."
KEEP_TEXT = "Run the cells below to use it; to keep it: <code>button.report.write(&quot;measured.json&quot;)</code>."
# Wrapped sentences need less line spacing than a row of widgets.
TIGHT_LINES = '<div style="line-height:1.5">{}</div>'


class Measuring(ipywidgets.VBox):
    """A button, a bar and a sentence; below them the panel once there is a report. `measure_here` makes one.

    Attributes
    ----------
    report : Report or None
        The result of the last press.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.report: Report | None = None
        self._asked, self._wish, self._begun = options, threading.Event(), threading.Lock()
        wide = ipywidgets.Layout(width="auto")
        self.start = ipywidgets.Button(
            description="Measure this machine",
            button_style="primary",
            layout=wide,
            tooltip="Measures this machine; nothing is sent anywhere",
        )
        self.stop = ipywidgets.Button(
            description="Cancel",
            disabled=True,
            layout=wide,
            tooltip="Stops after the present sample; what was measured is kept",
        )
        self.bar = ipywidgets.IntProgress(value=0, max=1, layout=ipywidgets.Layout(flex="1 1 120px", max_width="400px"))
        self.said = ipywidgets.HTML(TIGHT_LINES.format(escape(READY_TEXT.format(seconds=options["seconds"]))))
        self.start.on_click(lambda _: self.press())
        self.stop.on_click(lambda _: self._wish.set())
        self.found = ipywidgets.VBox()
        row = ipywidgets.HBox([self.start, self.stop, self.bar], layout=ipywidgets.Layout(flex_flow="row wrap"))
        super().__init__([row, self.said, self.found])
        self.add_class("cookbook-measuring")

    def press(self) -> threading.Thread:
        """Measure beside the kernel's own work, so that the page can still ask to stop."""
        thread = threading.Thread(target=self.measure, daemon=True)
        thread.start()
        return thread

    def measure(self) -> None:
        """Measure here and now; a second press does nothing while the first is at work."""
        if not self._begun.acquire(blocking=False):
            return
        self._wish.clear()
        self.start.disabled, self.stop.disabled, self.bar.value = True, False, 0
        try:
            self.report = run(**self._asked, progress=self._progress, cancelled=self._wish.is_set)
            self._show(self.report)
        except (ValueError, OSError) as problem:
            self.said.value = TIGHT_LINES.format(escape(f"{problem}."))
        finally:
            self.start.disabled, self.stop.disabled = False, True
            self._begun.release()

    def _progress(self, number: int, count: int, name: str) -> None:
        self.bar.max, self.bar.value = count, number - 1
        self.said.value = escape(f"{number} of {count}: {name}")

    def _show(self, report: Report) -> None:
        """Show the panel on a report and the errors of its predictions, or the reason where too little was measured."""
        self.bar.value = self.bar.max if report.state == "complete" else self.bar.value
        words = f"{report.summary()}."
        try:
            calibration: Calibration | None = calibrate(report)
        except ValueError as problem:
            calibration, words = None, f"{words} {problem}."
        words = f"{words} {calibration.summary()[:1].upper()}{calibration.summary()[1:]}. " if calibration else words
        self.said.value = TIGHT_LINES.format(escape(words) + (KEEP_TEXT if calibration else ""))
        self.found.children = [this_machine(calibration, picture="products")] if calibration else []

    def __repr__(self) -> str:
        """Return the text that remains on a page without a kernel."""
        return STATIC_TEXT

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the live button, with its purpose for pages without a kernel."""
        bundle = live.static_bundle(repr(self), None, super()._repr_mimebundle_(**kwargs))
        return kept(bundle, f'<div class="ck-card"><p>{escape(STATIC_TEXT)}</p></div>')


def measure_here(device: str | None = None, quick: bool = True, seconds: float = 50.0) -> Measuring:
    """Return a button that measures the machine on which the kernel runs, and then shows it as `this_machine` does.

    Parameters
    ----------
    device : str, optional
        "numpy", "cpu", "cuda" or "mps", as in `cb.measure.run`; by default the fastest available.
    quick : bool
        Fewer and smaller cases; the others need 4 GB of free memory and about a minute.
    seconds : float
        Largest duration [s].

    Returns
    -------
    Measuring
        The button, whose `report` is None until it was pressed.

    Raises
    ------
    ValueError
        If `seconds` is not a number above 0 and at most a day.

    Examples
    --------
    >>> measure_here("numpy").report is None
    True
    """
    return Measuring({"device": device, "quick": quick, "seconds": float(SECONDS.read(seconds, "seconds"))})
