"""The panel of the shared cluster: its code gives the run again, and what cannot be is told."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import cookbook as cb


@pytest.fixture
def panel(made_once: Any) -> Any:
    return made_once("cluster")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"policy": "fair", "load": 0.95, "nodes": 4},
        {"policy": "backfill", "service": 16, "night": "by day", "seed": 3},
        {"policy": "static", "share": 5},
        {"policy": "fifo", "share": 4, "mix": "research", "place": "spread"},
        {"service": 16, "policy": "fifo"},
    ],
)
def test_the_code_gives_the_state_again(panel: Any, change: dict[str, Any]) -> None:
    panel.reset()
    panel.update(**change)
    assert not panel.shown["error"], panel.answer
    again, call = panel.code.splitlines()
    assert eval(again, {"cb": cb}).answer == panel.answer
    measures = eval(call, {"cb": cb}).measures
    assert panel._view.headline["idle while jobs wait"] == measures["idle_waiting"]
    assert panel._view.headline["mean wait"] == measures["wait_mean"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": 1}, ["Nodes = 1", "2"]),
        ({"service": 16}, ["static", "requests 16 GPUs", "contradict", "owns 12"]),
        ({"teams": 8}, ["static", "requests 16 GPUs", "contradict", "owns 8"]),
        ({"nodes": 2, "service": 16}, ["service = 16", "no job can run"]),
        ({"load": 3}, ["Load = 3", "0.2 to 1.5"]),
        ({"policy": "luck"}, ["Policy", "static"]),
    ],
)
def test_what_cannot_be_is_told(panel: Any, refuses: Any, change: dict[str, Any], words: list[str]) -> None:
    panel.reset()
    refuses(panel, change, words)


def test_the_hour_moves_the_chart_and_simulates_nothing(panel: Any) -> None:
    run = sys.modules["cookbook.topics.cluster.panel"]._run
    panel.reset()
    before, columns = run.cache_info().misses, panel.columns
    for hour in (0, 30, 168):
        panel.update(hour=hour)
        assert panel.shown["signals"]["hour"] == hour
    assert run.cache_info().misses == before and panel.columns == columns


def test_presets_are_a_readers_words(panel: Any) -> None:
    for index, label in enumerate(panel.shape["presets"]):
        panel.receive({"do": "preset", "index": index})
        assert not panel.shown["error"], label
    assert "service" in panel.answer and panel.values["night"] == "by day"
    panel.reset()


def test_the_table_has_each_class_of_jobs(panel: Any) -> None:
    panel.reset()
    table = panel._view.table()
    assert len(table) == len(cb.table("cluster_jobs")) and next(iter(table)) == "Jobs"
    shares = [int(text.removesuffix(" %")) for text in table["GPU time"]]
    assert abs(sum(shares) - 100) <= len(shares)
