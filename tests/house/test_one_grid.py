"""One way to do each thing about many scenarios: one Pareto front, one bar that shows how far they are."""

from __future__ import annotations

import ast
import io
import itertools
import math
import sys
import time
from typing import Any

import numpy as np
import pytest
from syntax import package_trees

from cookbook.catalog.refusals import code_of
from cookbook.prediction.engine import estimate
from cookbook.prediction.scenario import Coded, Scenario, scenario
from cookbook.progress_bar import progress_bar
from cookbook.topics.sweeps.exploring import pareto_front

FRONT, BARS = {"front", "fronts", "pareto", "dominated"}, {"bar", "progress_bar", "progressbar"}


def test_one_engine_sums_up_the_parts_of_a_step():
    """What is swept or searched goes through `engine.estimate`; no other module calls the terms of a kind."""
    engine = {"step_parts", "memory_parts", "step_seconds", "impossible", "tokens"}
    for name, tree in package_trees().items():
        if name.startswith(("topics/", "panels/")):
            imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            terms = [node for node in imports if (node.module or "").startswith("cookbook.prediction.kinds")]
            used = {alias.name for node in terms for alias in node.names}
            assert not used & {*engine, "transformer_step"}, name


GRID: dict[str, list[Any]] = {
    "model": ["llama2_7b", "gpt3_175b", "mixtral-8x7b"],
    "accelerator": ["h100-sxm", "k40"],
    "devices": [64.0],
    "tp": [1.0, 3.0, 8.0],
    "pp": [1.0, 8.0],
    "global_batch": [64.0, 100.0, None],
    "recompute": ["", "full"],
}


def test_rows_of_a_grid_are_estimated_as_single_rows():
    """Point, interval, memory, bottleneck and evidence alike; reasons in the words for any row."""
    shape = [len(values) for values in GRID.values()]
    rows = dict(zip(GRID, zip(*itertools.product(*GRID.values()), strict=True), strict=True))
    single = estimate(scenario("training_transformer", {name: list(values) for name, values in rows.items()}))
    columns: dict[str, Any] = {}
    for at, name in enumerate(GRID):
        each = scenario("training_transformer", {name: GRID[name]}).columns[name]
        along = [-1 if axis == at else 1 for axis in range(len(shape))]
        columns[name] = (
            Coded(each.codes.reshape(along), each.levels) if isinstance(each, Coded) else each.reshape(along)
        )
    grid = estimate(Scenario("training_transformer", math.prod(shape), columns, np.zeros([1] * len(shape), "<U1")))
    for name in ("point", "low80", "high80", "low90", "high90", "rate", "tokens", "memory_bytes"):
        found = np.broadcast_to(getattr(grid, name), shape).reshape(-1)
        wanted = np.where(single.why == "", getattr(single, name), found)  # tokens are told of refused rows too
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)
    for name in ("fits", "bottleneck", "tier", "why"):
        found, wanted = np.broadcast_to(getattr(grid, name), shape).reshape(-1), getattr(single, name)
        alike = code_of(found) == code_of(wanted) if name == "why" else found == wanted
        assert alike.all(), name
    assert 0.1 < np.isfinite(single.point).mean() < 0.9


def test_one_function_finds_a_pareto_front():
    nodes = [
        (name, node)
        for name, tree in package_trees().items()
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    found = [f"{name}:{node.name}" for name, node in nodes if FRONT & set(node.name.lower().split("_"))]
    assert found == ["topics/sweeps/exploring.py:pareto_front"]


def test_of_equal_points_the_first_row_is_on_the_front_and_what_is_beaten_at_the_same_cost_is_not() -> None:
    costs = np.array([[1, 5, 1], [1, 3, 1], [1, 3, 1], [2, 3, 0], [2, np.nan, 0], [3, 3, 0]], dtype=float)
    assert pareto_front(costs, np.arange(6)).tolist() == [1, 3]
    assert pareto_front(costs, np.array([0, 2, 1, 3, 4, 5])).tolist() == [2, 3]
    with pytest.raises(ValueError, match="more than 1 points"):
        pareto_front(costs, np.arange(6), most=1)


def test_one_function_shows_how_far_a_computation_is():
    """Whatever asks whether standard error is a screen draws on it, and whatever is called a bar of progress."""
    draws, named = set(), set()
    for name, tree in package_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stderr.isatty":
                draws.add(name)
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name.lower().strip("_") in BARS:
                named.add(f"{name}:{node.name}")
    assert draws == {"progress_bar.py"} and named == {"progress_bar.py:progress_bar"}


@pytest.mark.parametrize("name", ["topics/sweeps/chunks.py", "topics/sweeps/sweeping.py", "topics/sweeps/exploring.py"])
def test_pools_are_used_by_what_they_document(name: str) -> None:
    """Retries are those of dask, and a pool ends with its first dead worker: nobody looks inside one."""
    private = {
        ast.unparse(node)
        for node in ast.walk(package_trees()[name])
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert not {each for each in private if not each.startswith("self.")}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_written_over_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    progress_bar(1500, 3000, unit="jobs")
    progress_bar(3, 3, "a matrix product of a name that is far too long for any line of a screen, whatever its width")
    half, whole = screen.getvalue().split("\r")[1:]
    assert half.rstrip() == f"[{'#' * 15}{' ' * 15}] 1,500 of 3,000 jobs" and len(half) == 100
    assert whole.startswith(f"[{'#' * 30}] 3 of 3 a matrix product") and whole[100:] == "\n"


def test_what_is_no_screen_gets_a_line_for_each_name(capsys: pytest.CaptureFixture[str]) -> None:
    progress_bar(2, 9)
    progress_bar(2, 9, "copy")
    assert capsys.readouterr().err == "[2/9] copy\n"


def test_a_bar_waits_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    progress_bar(1, 2, since=time.monotonic())
    assert not screen.getvalue()
    progress_bar(1, 2, since=time.monotonic() - 2)
    assert "1 of 2" in screen.getvalue()
