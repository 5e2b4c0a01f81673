"""Charts that stay on the page while their data change: one Vega runtime per kernel, data by columns."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import numpy as np
import pandas as pd
import traitlets

from cookbook.charts.card import chart_card, kept, served
from cookbook.charts.look import theme

_HERE = Path(__file__).parent
BUNDLE = _HERE / "vega_bundle.js"
VEGA_LITE = "6.4"
TITLE_SIGNAL = "live_title"
_TITLE_LETTERS = 88
PACKED_ABOVE = 2000

Columns = dict[str, list[Any]]


class MissingBundleError(FileNotFoundError):
    """The JavaScript that draws charts was not built with the package."""


def bundle_source(path: Path = BUNDLE) -> str:
    """Return the JavaScript of Vega, as the build wrote it beside this module.

    Raises
    ------
    MissingBundleError
        Where the package was copied instead of installed, so that no build ran.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        raise MissingBundleError(
            f"{path.name} is missing beside {__name__}: charts cannot be drawn. The build makes this file; "
            "install the package (`pip install .` or `make lab`) instead of running it from a copy."
        ) from missing


def script(*paths: Path) -> str:
    """Return one ES module from several source files, in order."""
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


class VegaRuntime(anywidget.AnyWidget):
    """Transport of the JavaScript bundle to the browser, once per kernel for any number of charts.

    The browser reads it as soon as it arrives, while the kernel still computes what the first chart shows.
    """

    _esm = script(_HERE / "vega.js", _HERE / "runtime.js")
    source = traitlets.Unicode().tag(sync=True)


@cache
def runtime() -> VegaRuntime:
    """Return this kernel's only `VegaRuntime`."""
    return VegaRuntime(source=bundle_source())


def static_wanted() -> bool:
    """Return True if outputs should include a PNG: set COOKBOOK_STATIC=1 to publish, never in a reader's kernel."""
    return os.environ.get("COOKBOOK_STATIC", "0") == "1"


def to_columns(frame: pd.DataFrame, digits: int = 6) -> Columns:
    """Return columns of plain values, floats rounded to significant digits, missing as None (for JSON).

    Examples
    --------
    >>> import pandas as pd
    >>> to_columns(pd.DataFrame({"x": [1.23456789, float("nan")], "name": ["a", "b"]}))
    {'x': [1.23457, None], 'name': ['a', 'b']}
    """
    return {str(name): _values(frame[name], digits) for name in frame.columns}


def _values(column: pd.Series, digits: int) -> list[Any]:
    if column.dtype.kind == "i":
        return column.tolist()
    if column.dtype.kind == "f" and len(column) > PACKED_ABOVE and (column > 0).all():
        size = 10.0 ** (digits - 1 - np.floor(np.log10(column.to_numpy())))
        return (np.round(column.to_numpy() * size) / size).tolist()
    return [_rounded(value, digits) for value in column.tolist()]


def packed(columns: Columns, _widget: Any = None) -> dict[str, Any]:
    """Return columns as they are sent: large numeric tables as 32-bit floats, which need no parsing.

    Examples
    --------
    >>> packed({"x": [1, 2]}), len(packed({"x": list(range(4096))})["x"])
    ({'x': [1, 2]}, 16384)
    """
    if len(next(iter(columns.values()), [])) <= PACKED_ABOVE:
        return columns
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if any(array.dtype.kind not in "if" for array in arrays.values()):
        return columns
    return {name: array.astype("<f4").tobytes() for name, array in arrays.items()}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value


def digest(columns: Columns, signals: dict[str, Any]) -> str:
    """Return twelve hexadecimal digits over all values rounded to 4 significant digits: equal on every machine."""
    data = {name: [_rounded(value, 4) for value in values] for name, values in columns.items()}
    rounded = {name: _rounded(value, 4) for name, value in signals.items()}
    body = json.dumps([data, rounded], sort_keys=True, default=str)
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def live_spec(chart: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the Vega-Lite spec that reads the dataset `live`, and the first values of its signals.

    The chart's own data are taken out (they travel as columns), its title becomes a signal, and the house
    configuration is put in.
    """
    shell = chart.copy(deep=False)
    if hasattr(shell.data, "head"):
        shell.data = shell.data.head(1)  # thousands of rows would be written out only to be taken out
    spec = shell.to_dict(validate=False)  # the tests validate every chart; a reader need not wait for it
    title = spec.get("title", "")
    text = title.get("text", "") if isinstance(title, dict) else title
    spec["title"] = {**(title if isinstance(title, dict) else {}), "text": {"expr": TITLE_SIGNAL}}
    spec.pop("datasets", None)
    spec.pop("$schema", None)
    spec["data"] = {"name": "live"}
    spec["config"] = theme()
    spec.setdefault("autosize", {"type": "fit", "contains": "content", "resize": True})
    signals = {p["name"]: p.get("value") for p in spec.get("params", []) if "value" in p}
    signals[TITLE_SIGNAL] = " ".join(text) if isinstance(text, list) else text
    spec["params"] = [*spec.get("params", []), {"name": TITLE_SIGNAL, "value": ""}]
    return spec, signals


def to_png(spec: dict[str, Any], columns: Columns, signals: dict[str, Any], width: int = 760) -> bytes:
    """Return a picture of a live chart without a browser (imports vl_convert: for publishing only)."""
    import vl_convert

    shown = {**signals, TITLE_SIGNAL: textwrap.wrap(str(signals.get(TITLE_SIGNAL, "")), _TITLE_LETTERS)}
    names = list(columns)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    own = {**spec, "datasets": {"live": rows}}
    own["params"] = [{**p, "value": shown[p["name"]]} if p["name"] in shown else p for p in spec["params"]]
    if own.get("width") == "container":
        pad = spec.get("padding", {"left": 5, "right": 5})
        own["width"] = width - pad["left"] - pad["right"]
    return vl_convert.vegalite_to_png(own, vl_version=VEGA_LITE, scale=1.25)


def static_bundle(text: str, picture: bytes | None, live: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mime bundle of a widget with its text digest and, for publishing, a PNG."""
    data, metadata = live if isinstance(live, tuple) else (live or {}, {})
    data = {**data, "text/plain": text}
    if picture is not None:
        data["image/png"] = base64.b64encode(picture).decode()
    return data, metadata


class LiveChart(anywidget.AnyWidget):
    """An Altair chart on the page whose data and signals can change in place.

    Parameters
    ----------
    chart : altair.Chart
        Drawn once; all of it reads one frame.
    frame : pandas.DataFrame
        First data.

    Examples
    --------
    >>> import altair as alt, pandas as pd
    >>> frame = pd.DataFrame({"x": [1, 2], "y": [3, 4]})
    >>> live = LiveChart(alt.Chart(frame, title="y grows").mark_line().encode(x="x:Q", y="y:Q"), frame)
    >>> live.update(frame.assign(y=[5, 6]), title="y grew")
    >>> live.title, len(live.frame)
    ('y grew', 2)
    """

    _esm = script(_HERE / "fit.js", _HERE / "vega.js", _HERE / "live.js")
    _css = script(_HERE / "live.css")
    spec = traitlets.Dict().tag(sync=True)
    columns = traitlets.Dict().tag(sync=True, to_json=packed)
    signals = traitlets.Dict().tag(sync=True)
    runtime = traitlets.Instance(VegaRuntime).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(self, chart: Any, frame: pd.DataFrame) -> None:
        spec, signals = live_spec(chart)
        super().__init__(spec=spec, columns=to_columns(frame), signals=signals, runtime=runtime())
        self.frame = frame

    @property
    def title(self) -> str:
        """Return the takeaway written above the chart."""
        return str(self.signals.get(TITLE_SIGNAL, ""))

    def update(self, frame: pd.DataFrame, title: str | None = None, **signals: Any) -> None:
        """Show other data, which arrive in one message, so that the page repaints once.

        Raises
        ------
        ValueError
            If the chart does not have the signal.
        """
        unknown = set(signals) - set(self.signals)
        if unknown:
            raise ValueError(f"unknown signals {sorted(unknown)}; this chart has {sorted(self.signals)}")
        if "rows" in self.signals and "row" in frame:
            signals.setdefault("rows", list(dict.fromkeys(frame["row"])))
        if title is not None:
            signals[TITLE_SIGNAL] = title
        with self.hold_sync():
            self.frame = frame
            self.columns = to_columns(frame)
            self.signals = {**self.signals, **signals}

    def __repr__(self) -> str:
        """Return a text digest that a test can compare: title, rows, and a hash over the rounded values."""
        rows = len(next(iter(self.columns.values()), []))
        return f"<LiveChart {self.title!r} rows={rows} sha={digest(self.columns, self.signals)}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        picture = to_png(self.spec, self.columns, self.signals) if static_wanted() else None
        bundle = static_bundle(repr(self), picture, super()._repr_mimebundle_(**kwargs))
        if picture or not served():
            return bundle
        return kept(bundle, chart_card(self.title, self.spec["title"].get("subtitle"), self.frame))
