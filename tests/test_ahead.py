"""The state that a reader probably asks for next: drawn ahead, and what the panel then says."""

import asyncio

import pytest

import cookbook as cb
from cookbook.panels.ahead import next_stop
from cookbook.panels.controls import Slider

BATCH = Slider("batch", "Batch", "Workload", stops=(1.0, 2.0, 4.0, 8.0), optional=True)
MOVED = {"model_zoo": "batch", "storage": "accelerators", "accelerators": "batch", "host": "batch",
         "training_run": "tokens", "where_to_run": "runs", "serving": "users", "assembly_line": "stages",
         "finetuning": "devices", "accuracy": "band", "clinic": "stretches", "cluster": "load", "crossbar": "rows",
         "measurements": "most_devices", "scaling": "devices", "stack": "power", "this_machine": "batch"}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "expected"), [
    (1, 2, 4.0), (8, 4, 2.0), (4, 8, None), (2, 1, None), (2, 2, None), (2, 3, None), (None, 2, None), (2, None, None),
    ("lots", 2, None),
])  # fmt: skip
def test_the_next_stop_lies_in_the_direction_of_the_move(before, now, expected):
    assert next_stop(BATCH, before, now) == expected


def moved(name: str):
    """A panel whose slider was moved by one stop, and the message that moves it by another."""
    panel = getattr(cb.panels, name)()
    control = MOVED[name]
    slider = panel._controls[control]
    at = slider._nearest(panel.values[control])
    step = 1 if at + 2 < len(slider.stops) else -1
    panel.receive({"do": "set", "values": {control: slider.stops[at + step]}, "seq": 1})
    return panel, control, slider.stops[at + 2 * step]


@pytest.mark.parametrize("name", MOVED)
def test_what_is_drawn_ahead_is_what_the_panel_then_shows(name):
    panel, control, stop = moved(name)
    before = {"shown": panel.shown, "values": panel.values, "answer": panel.answer, "columns": panel.columns}
    panel._ahead.draw(control, stop)
    ahead = panel.coming
    assert before == {"shown": panel.shown, "values": panel.values, "answer": panel.answer, "columns": panel.columns}
    assert (ahead["name"], ahead["raw"], ahead["turn"]) == (control, stop, panel.shown["turn"])
    panel.receive({"do": "set", "values": {control: stop}, "seq": 2})
    assert panel.shown == ahead["shown"]
    assert panel.columns == (before["columns"] if ahead["columns"] is None else ahead["columns"])


def test_what_was_drawn_ahead_is_not_drawn_again(monkeypatch):
    panel, control, stop = moved("model_zoo")
    panel._ahead.draw(control, stop)
    drawn, draw = [], panel._draw
    monkeypatch.setattr(panel, "_draw", lambda *state: drawn.append(state) or draw(*state))
    panel.receive({"do": "set", "values": {control: stop}, "seq": 2})
    assert drawn == []
    panel.pin()
    panel.receive({"do": "set", "values": {control: stop}, "seq": 3})
    assert drawn, "a pinned scenario changes the view"


def test_a_state_without_an_answer_is_not_sent_ahead():
    panel, control, _ = moved("model_zoo")
    panel._ahead.draw(control, -1.0)
    assert panel.coming == {}
    panel.update(model="no such network")
    panel._ahead.draw(control, 2.0)
    assert panel.coming == {}


def test_memory_that_runs_out_ahead_is_no_traceback(monkeypatch):
    panel, control, stop = moved("model_zoo")

    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(panel, "_draw", exhausted)
    panel._ahead.draw(control, stop)
    assert panel.coming == {}


def test_a_kernel_that_waits_thinks_ahead_and_one_in_a_script_does_not():
    panel, control, stop = moved("model_zoo")
    assert panel.coming == {}

    async def waits() -> None:
        come = asyncio.get_running_loop().create_future()
        panel.observe(lambda change: come.set_result(change.new), "coming")
        panel.receive({"do": "set", "values": {control: stop}, "seq": 2})
        assert (await asyncio.wait_for(come, 60))["shown"]["answer"] != panel.shown["answer"]

    asyncio.run(waits())
