"""Altair, imported in half the time.

Where JupyterLab is installed, jsonschema (which Altair imports) loads a grammar of international web addresses that
no chart needs. Hidden for the moment of the import, it is skipped, as on a machine where it is not installed.
"""

from __future__ import annotations

import sys

_SLOW = "rfc3987_syntax"
_hidden = _SLOW not in sys.modules
if _hidden:
    sys.modules[_SLOW] = None  # type: ignore[assignment]
try:
    import altair as alt
finally:
    if _hidden:
        del sys.modules[_SLOW]

__all__ = ["alt"]
