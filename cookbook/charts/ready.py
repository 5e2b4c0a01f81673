"""Specs of charts that stand ready, so that a first picture need not wait until Altair is imported and has written it.

`python -m cookbook prepare` (part of `make lab` and of the image on Binder) keeps the spec of each panel that the
recipes show, under a digest of the frame it is made from and of the code that makes it. Whatever is not found, or
was made by other code, Altair writes as before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cookbook.charts.live import live_spec, to_columns

if TYPE_CHECKING:
    import pandas as pd

STORE = Path(__file__).parent / "ready.json"
_CODE = (Path(__file__).parent, Path(__file__).parents[1] / "panels")
MOST_ROWS = 2000  # of a frame that is looked up; the digest of more takes longer than it saves

Spec = dict[str, Any]


@cache
def _code() -> str:
    """Digest of the code that makes charts; what was made by other code is not used."""
    files = sorted(path for folder in _CODE for path in folder.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _store() -> dict[str, Spec]:
    """What stands ready; nothing where there is no such file, or one of other code or no JSON."""
    try:
        kept = json.loads(STORE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept["specs"] if isinstance(kept, dict) and kept.get("code") == _code() else {}


def _key(chart: str, frame: pd.DataFrame) -> str:
    body = json.dumps([chart, [str(kind) for kind in frame.dtypes], to_columns(frame)], default=str)
    return hashlib.sha256(body.encode()).hexdigest()[:32]


def spec_of(chart: str, frame: pd.DataFrame, make: Callable[[pd.DataFrame], Any]) -> Spec:
    """Spec of a named chart of a frame: the one that stands ready, or what `make` gives."""
    if len(frame) > MOST_ROWS or not _store():
        return live_spec(make(frame))[0]
    return _store().get(_key(chart, frame)) or live_spec(make(frame))[0]


def keep(charts: list[tuple[str, pd.DataFrame, Callable[[pd.DataFrame], Any]]]) -> int:
    """Write the specs of these charts, whole or not at all, in place of what was kept; how many."""
    specs = {_key(chart, frame): live_spec(make(frame))[0] for chart, frame, make in charts if len(frame) <= MOST_ROWS}
    with TemporaryDirectory(prefix=f".{STORE.name}.", suffix=".part", dir=STORE.parent) as folder:
        fresh = Path(folder) / STORE.name
        fresh.write_text(json.dumps({"code": _code(), "specs": specs}), encoding="utf-8")
        fresh.replace(STORE)
    _store.cache_clear()
    return len(specs)
