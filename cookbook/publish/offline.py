"""A panel that works on a page without a kernel: every state of a few choices, computed when the page is built.

The table contains what the panel shows in each state. Each word and number is stored once for each value of the
choices on which it depends, so that a thousand states take little space; the page only looks them up (``store.js``).
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from string import digits, printable
from typing import Any

import numpy as np

from cookbook.charts import live
from cookbook.panels.controls import Choice, Control, Slider
from cookbook.panels.shell import HEIGHT, Panel
from cookbook.panels.text import levels
from cookbook.topics.models.panel import DAY, DRAWN, draw, model_zoo

HERE = Path(__file__).parent
# Choices of a reader on a page; the state in which the notebook opens is always among them.
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "model": ("llama3_8b", "llama3_70b", "mixtral_8x7b", "gpt2_xl", "bert_large", "vit_l_16", "resnet50"),
    "batch": (1, 8, 64, 512),
    "precision": ("fp32", "bf16", "fp8"),
    "target_seconds": (2 * DAY, 30 * DAY, 365 * DAY),
    "optimiser": ("adam", "adam-8bit"),
    "recompute": ("none", "full"),
}
RECIPE = "01-"  # the page that has the panel
PICTURES = ("rate", "memory")
LEFT_OUT = ("samples", "compare", "picture")  # of the notebook's panel; all else that it sets holds in every state
SOURCED_BY = ("model", "precision", "optimiser")  # what the sources depend on, beside accelerators
Way = tuple[str | int, ...]
# Digits of a position: the printable characters that JSON and HTML write as they are.
DIGITS = digits + "".join(char for char in printable[len(digits) : -5] if char not in '"\\<')


def opening(code: str) -> dict[str, Any] | None:
    """Return the panel's arguments in the `code` that it prints; None where it is another call, or uses a variable.

    Examples
    --------
    >>> opening('cb.panels.model_zoo(model="resnet50", batch=64)')
    {'model': 'resnet50', 'batch': 64}
    >>> opening("cb.panels.host()") is None
    True
    """
    call = ast.parse(code, mode="eval").body
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "cb.panels.model_zoo":
        return None
    try:
        return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    except ValueError:  # a variable of the notebook
        return None


def scripts(code: str) -> dict[str, Any]:
    """Return what the page of a panel's `code` needs: its `style` and `table`, and `modules`: Vega, then the panel.

    Raises
    ------
    cookbook.charts.live.MissingBundleError
        Where the package was copied instead of installed.
    """
    vega = re.sub(r"export\{(\S+) as default\};?\s*$", r"globalThis.__cookbookEmbed=\1;", live.bundle_source())
    return {"style": Panel._css, "table": table(code), "modules": (vega, f"{Panel._esm}\n{script('offline')}")}


def script(name: str) -> str:
    """Return the script of a page, `name`, after the look-up in its tables."""
    return "\n".join((HERE / f"{part}.js").read_text(encoding="utf-8") for part in ("store", name))


def as_json(content: Any) -> str:
    """Return `content` as JSON that no tag can end."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def axes(panel: Panel) -> dict[str, tuple[Any, ...]]:
    """Return the values of each choice, including those of the state of `panel`."""
    return {
        name: values if panel.values[name] in values else (panel.values[name], *values)
        for name, values in CHOICES.items()
    }


@lru_cache(maxsize=2)
def table(code: str) -> str:
    """Return JSON of all that the panel of a code shows in every state of the choices; no tag can end it.

    Parameters
    ----------
    code : str
        Call of the panel of recipe 01: the state that is shown first.

    Returns
    -------
    str
        `shape` and `specs` as of a panel, `name` and `kept` for its code, `axes` (name and values of each choice, and
        the index of the first state),
        and `fields`, each with its `path`, the choices that it depends on, and the positions of its values in `pool`.
    """
    arguments = {name: value for name, value in (opening(code) or {}).items() if name not in LEFT_OUT}
    fixed = {name: value for name, value in arguments.items() if name not in CHOICES}
    panel = model_zoo(**arguments)
    choices, first = axes(panel), panel.values
    specs = {name: panel._spec(DRAWN[name]([panel._view.kept], None)) for name in PICTURES}
    content = {
        "shape": _shape(panel, choices),
        "specs": specs,
        "name": panel.name,
        "kept": fixed,
        "axes": [[name, values, values.index(first[name])] for name, values in choices.items()],
        **packed(_states(panel, choices), [len(values) for values in choices.values()]),
    }
    return as_json(content)


def _states(panel: Panel, choices: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Yield what the panel shows in each state, in the order of the choices."""
    sources = dict[tuple[Any, ...], Any]()
    panel.receive({"do": "open", "what": "sources"})
    for place in itertools.product(*choices.values()):
        state = dict(zip(choices, place, strict=True))
        by = tuple(state[name] for name in SOURCED_BY)
        if by not in sources:
            panel.update(**state)
            sources[by] = panel.shown["sources"]
        view = draw({**panel.values, **state, "picture": PICTURES[0]}, None)
        headline, facts = levels(view.answer)
        drawn = {name: view.picture if name == PICTURES[0] else DRAWN[name]([view.kept], None) for name in PICTURES}
        yield {
            "headline": headline,
            "facts": facts,
            "chips": view.chips,
            "parts_title": view.parts_title,
            "parts": [asdict(part) | {"value": float(f"{part.value:.6g}")} for part in view.parts],
            "sources": sources[by],
            "charts": {
                name: {
                    "signals": {**chart.signals, live.TITLE_SIGNAL: chart.title},
                    "columns": live.to_columns(chart.frame),
                }
                for name, chart in drawn.items()
            },
        }


def _shape(panel: Panel, choices: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the controls of a page: each choice as buttons, with the words of the panel's own control."""
    controls = [_choice(panel._controls[name], values) for name, values in choices.items()]
    views = panel._controls["picture"]
    assert isinstance(views, Choice)
    few = Choice(
        "picture",
        views.label,
        views.group,
        tuple(option for option in views.options if option[0] in PICTURES),
        place="picture",
    )
    return {
        "title": panel.shape["title"],
        "height": HEIGHT,
        "pick": "",
        "binder": "",
        "presets": [],
        "page": True,
        "controls": [control.describe() for control in (*controls, few)],
    }


def _choice(control: Control, values: Sequence[Any]) -> Choice:
    """Return buttons in place of a box or a slider; a button sends the index of its value."""
    tips = {value: tip for value, _, tip in control.options} if isinstance(control, Choice) else {}
    words = [control.text(value) if isinstance(control, Slider) else control.told(value) for value in values]
    options = tuple(
        (str(at), word, tips.get(value, "")) for at, (value, word) in enumerate(zip(values, words, strict=True))
    )
    return Choice(control.name, control.label, control.group, options, tooltip=control.tooltip)


def _leaves(node: Any, path: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Yield every text, number and null of nested mappings and lists, with its path."""
    if isinstance(node, Mapping):
        for name, member in node.items():
            yield from _leaves(member, (*path, name))
    elif isinstance(node, (list, tuple)):
        for at, member in enumerate(node):
            yield from _leaves(member, (*path, at))
    else:
        yield path, node


def packed(states: Iterable[Any], sizes: Sequence[int]) -> dict[str, Any]:
    """Return the leaves of all `states`, each over the choices that it depends on.

    Parameters
    ----------
    states : iterable
        Nested mappings and lists, one per state in the order of the product of the choices.
    sizes : sequence of int
        Number of values of each choice.

    Returns
    -------
    dict
        `digits`, those of positions; `pool`, all distinct values, the first of which means "absent"; `fields`, each
        with a path, the choices that change it, the number of digits per entry, the positions in the pool of the
        values that it takes (none where entries are positions in the pool themselves), and, state by state of those
        choices, the position of its value.

    Examples
    --------
    >>> found = packed([{"a": "x"}, {"a": "x"}, {"a": "y"}, {}], [2, 2])
    >>> found["pool"], found["fields"]
    ([None, 'x', 'y'], [[['a'], [0, 1], 1, [], '1120']])
    """
    positions = {json.dumps(None): 0}
    pool: list[Any] = [None]

    def position(leaf: Any) -> int:
        at = positions.setdefault(json.dumps(leaf), len(pool))
        if at == len(pool):
            pool.append(leaf)
        return at

    by_state = [{path: position(leaf) for path, leaf in _leaves(state)} for state in states]
    fields = []
    for path in dict.fromkeys(path for state in by_state for path in state):
        at = np.array([state.get(path, 0) for state in by_state]).reshape(tuple(sizes))
        for axis in range(at.ndim):
            if (at == at.take([0], axis)).all():
                at = at.take([0], axis)
        axes = [axis for axis in range(at.ndim) if at.shape[axis] > 1]
        fields.append([list(path), axes, *_coded(at.ravel(), len(pool))])
    return {"digits": DIGITS, "pool": pool, "fields": fields}


def _coded(at: np.ndarray, size: int) -> tuple[int, list[int], str]:
    """Return digits per entry, positions in a pool of a `size`, and entries: in whichever way they are shorter."""
    values, indices = np.unique(at, return_inverse=True)
    few, direct = _written(indices.ravel(), len(values)), _written(at, size)
    if len(values) == 1 or len(few) + len(str(values.tolist())) < len(direct):
        return len(few) // at.size, values.tolist(), few
    return len(direct) // at.size, [], direct


def _written(numbers: np.ndarray, size: int) -> str:
    """Return numbers below a `size` in as many digits each as the largest takes.

    >>> _written(np.array([0, 3, 41]), 42), _written(np.zeros(3, dtype=int), 1)
    ('03F', '')
    """
    width, rest, columns = 0, size - 1, []
    while rest:
        columns.append(numbers // len(DIGITS) ** width % len(DIGITS))
        width, rest = width + 1, rest // len(DIGITS)
    return "".join(DIGITS[digit] for entry in zip(*columns[::-1], strict=True) for digit in entry)
