"""Specs of the charts of all panels, drawn once when the package is built, so that no panel waits for Altair.

A panel sends a spec once and later only data, title and signals: it depends on the chart's name alone. The build
(`hatch_build.py`) writes `charts/specs.json` beside the JavaScript that draws it. What other code wrote, as after an
edit, is not used: then Altair draws the spec when a panel is shown, as it does in the build.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cookbook import panels
from cookbook.catalog.files import write_text
from cookbook.charts import live

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(live.__file__).parent / "specs.json"
_PACKAGE = Path(__file__).parents[1]
_CODE = ("charts/*.py", "panels/*.py", "topics/*/charts.py", "topics/*/*panel.py")
# States of the charts that a panel does not show by their name alone.
_STATES: dict[str, dict[str, Any]] = {
    "accuracy effects": {"model": "without neighbours"},
    "finetuning phases": {"method": "grpo", "accelerator": "h100-sxm", "devices": 8},
    "training_run hours": {"picture": "curve", "accelerator": "k40"},
}

Spec = dict[str, Any]


@cache
def _code() -> str:
    """Digest of the code that draws charts."""
    files = sorted(path for pattern in _CODE for path in _PACKAGE.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _built() -> dict[str, Spec]:
    """Specs by the names of their charts; none where no build wrote them, or one of other code."""
    try:
        content = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content["specs"] if isinstance(content, dict) and content.get("code") == _code() else {}


def spec_of(chart: str, make: Callable[[pd.DataFrame], Any], frame: pd.DataFrame) -> Spec:
    """Spec of the chart of a name: the one that was built, else what Altair writes of a first frame."""
    return _built().get(chart) or live.live_spec(make(frame))[0]


def drawn(names: Iterable[str] = panels.RECIPES) -> Iterator[tuple[str, Spec]]:
    """Each chart of these panels, as Altair writes it.

    Raises
    ------
    ValueError
        For a chart that its panel shows only in some states, while none of them is known here.
    """
    for name in names:
        panel = getattr(panels, name)()
        for picture, make in panel._charts.items():
            chart = f"{name} {picture}"
            shown = {"picture": picture} if "picture" in panel.values else {}
            panel.reset()
            panel.update(**{**shown, **_STATES.get(chart, {})})
            if panel.view.picture.name != picture:
                raise ValueError(f"{chart} is not shown by its name alone: name a state that shows it in {__name__}")
            yield chart, live.live_spec(make(panel.view.picture.frame))[0]


def write(names: Iterable[str] = panels.RECIPES) -> None:
    """Write the file, whole or not at all."""
    write_text(FILE, json.dumps({"code": _code(), "specs": dict(drawn(names))}, separators=(",", ":")))
    _built.cache_clear()
