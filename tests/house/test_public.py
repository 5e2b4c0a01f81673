"""Public names are a promise: their arguments, in order and with their defaults, change only on purpose.

`public.txt` is what this version promises. After a change that keeps the promise (a new name, a new optional argument)
or breaks it by the policy of CONTRIBUTING, write it anew: ``python tests/house/test_public.py``.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import cookbook
from cookbook import panels, planning

PROMISED = Path(__file__).with_name("public.txt")
NAMESPACES = {"cb": cookbook, "cb.planning": planning, "cb.panels": panels}


def written(name: str, called: Callable) -> list[str]:
    """Return a line for `name` and one for each argument; annotations are not promised, names and defaults are."""
    lines, mark = [name], ""
    for parameter in inspect.signature(called).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and mark != "*":
            mark = "*"
            lines.append("    *")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        mark = "*" if star == "*" else mark
        value = parameter.default
        default = "" if value is parameter.empty else f" = {getattr(value, '__name__', repr(value))}"
        lines.append(f"    {star}{parameter.name}{default}")
    return lines


def own(module: ModuleType) -> list[str]:
    """Return the public names that a module defines, for one that lists none."""
    return sorted(name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)


def promised(spaces: dict[str, ModuleType] = NAMESPACES) -> list[str]:
    """Return what namespaces offer now, in the order of their names, and after them what their modules do."""
    lines: list[str] = []
    for space, module in spaces.items():
        modules = {}
        for name in getattr(module, "__all__", own(module)):
            value = getattr(module, name)
            if name.startswith("_"):
                continue
            if isinstance(value, ModuleType):
                modules[f"{space}.{name}"] = value
            elif callable(value):
                lines += written(f"{space}.{name}", value)
            else:
                lines.append(f"{space}.{name}: {type(value).__name__}")
        lines += promised({name: value for name, value in modules.items() if value not in NAMESPACES.values()})
    return lines


def kept(before: list[str], after: list[str]) -> list[str]:
    """Return the lines of `before` that `after` lacks: a name, an argument or a default that a caller may rely on."""
    return [line[2:] for line in difflib.ndiff(before, after) if line.startswith("- ")]


def test_public_names_are_those_that_were_promised():
    before, after = PROMISED.read_text(encoding="utf-8").splitlines(), promised()
    assert before == after, "\n".join(
        [
            "Public names changed; broken promises: " + (", ".join(kept(before, after)) or "none"),
            *difflib.unified_diff(before, after, "promised", "now", lineterm="", n=2),
        ]
    )


def renamed(model, accelerator="h100-sxm", *, batch=1): ...


@pytest.mark.parametrize(
    ("other", "lost"),
    [
        (lambda model, accelerator="h100-sxm", *, batch=1, seed=0: None, []),
        (lambda model, device="h100-sxm", *, batch=1: None, ["    accelerator = 'h100-sxm'"]),
        (lambda model, accelerator="h100-sxm", *, batch=2: None, ["    batch = 1"]),
        (lambda model, accelerator, *, batch=1: None, ["    accelerator = 'h100-sxm'"]),
    ],
    ids=["one more", "renamed", "another default", "a default less"],
)
def test_a_broken_promise_is_named(other, lost):
    assert kept(written("f", renamed), written("f", other)) == lost


if __name__ == "__main__":
    PROMISED.write_text("\n".join(promised()) + "\n", encoding="utf-8")
