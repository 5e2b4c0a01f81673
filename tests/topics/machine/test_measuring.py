"""The button of recipe 11 that measures this machine: progress, a way to stop, and what it says when it is done."""

import threading

import pytest

import cookbook as cb
from cookbook.topics.machine import measuring
from cookbook.topics.machine.report import Report


def replaced(monkeypatch, report, seen=None, before=lambda: None):
    """A run that gives a report at once, having told two cases."""

    def run(device, *, quick, seconds, progress, cancelled):
        progress(1, 2, "matmul 256x256x256")
        before()
        (seen if seen is not None else []).append((device, quick, seconds, cancelled()))
        progress(2, 2, "launch")
        return report

    monkeypatch.setattr(measuring, "run", run)


def test_a_press_measures_and_shows_the_machine(monkeypatch):
    seen = []
    replaced(monkeypatch, cb.measure.own_run(), seen)
    button = cb.panels.measure_here("numpy", seconds=7)
    assert button.report is None and not button.found.children and "Nothing is sent anywhere" in button.said.value
    thread = button.press()
    thread.join(600)
    assert not thread.is_alive() and seen == [("numpy", True, 7.0, False)]
    assert button.report == cb.measure.own_run() and (button.bar.value, button.bar.max) == (2, 2)
    assert "52 results on AMD EPYC, complete" in button.said.value and "models left out" in button.said.value
    (panel,) = button.found.children
    assert panel.answer.startswith("Matmuls in fp32 reach") and "report" in panel.code
    assert not button.start.disabled and button.stop.disabled


def test_while_it_measures_it_can_be_stopped_and_not_begun_again(monkeypatch):
    began, go = threading.Event(), threading.Event()
    seen, button = [], cb.panels.measure_here("numpy")

    def before():
        began.set()
        assert go.wait(600)

    replaced(monkeypatch, cb.measure.own_run(), seen, before)
    thread = button.press()
    assert began.wait(600)
    assert button.start.disabled and not button.stop.disabled and "1 of 2: matmul" in button.said.value
    button.measure()
    button.stop.click()
    go.set()
    thread.join(600)
    assert seen == [("numpy", True, 50.0, True)], "one run, and it was asked to stop"


@pytest.mark.parametrize("seconds", [-1, 0, float("nan"), float("inf"), 86_401, "soon"])
def test_a_button_that_could_not_measure_is_not_made(seconds):
    with pytest.raises(ValueError, match="give a number more than 0 and up to 86,400 s"):
        cb.panels.measure_here("numpy", seconds=seconds)


def test_too_little_is_told_and_shows_no_panel(monkeypatch):
    """Cancelled after one product: no bandwidth, so no machine."""
    one = [row for row in cb.measure.own_run().rows if row["benchmark"] == "matmul"][:1]
    replaced(monkeypatch, Report("cancelled", "2026-01-02 03:04", {}, {"processor": "A <b>", "cores": 2}, one))
    button = cb.panels.measure_here("numpy")
    button.measure()
    assert "cancelled. the report has no matrix product or no memory bandwidth" in button.said.value
    assert "A &lt;b&gt;" in button.said.value and not button.found.children and len(button.report) == 1


def test_what_cannot_be_measured_is_a_sentence():
    button = cb.panels.measure_here("tpu")
    button.measure()
    assert "take one of numpy, cpu, cuda, mps" in button.said.value and button.report is None
    assert not button.start.disabled


def test_a_page_without_a_kernel_says_what_it_is_for():
    data, _ = cb.panels.measure_here("numpy")._repr_mimebundle_()
    assert "works in JupyterLab" in data["text/plain"] and "ck-card" in data["text/html"]
