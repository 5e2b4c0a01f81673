"""Specs of charts that stand ready: those that Altair writes, or none."""

import json
import subprocess
import sys
from textwrap import dedent

import pytest

import cookbook as cb
from cookbook.charts import live, ready
from cookbook.publish.prepare import panels_of

ALONE = """
import sys
from pathlib import Path
from cookbook.charts import ready
ready.STORE = Path(sys.argv[1])
import cookbook as cb
panel = cb.panels.assembly_line()
print("altair" in sys.modules, len(str(panel.specs)) > 1000)
"""


@pytest.fixture
def store(monkeypatch, tmp_path):
    monkeypatch.setattr(ready, "STORE", tmp_path / "ready.json")
    ready._store.cache_clear()
    yield ready.STORE
    ready._store.cache_clear()


def refused(frame):
    raise AssertionError("Altair was asked")


def test_a_spec_that_stands_ready_is_what_altair_writes(store):
    drawing = cb.panels.model_zoo().drawing
    written = live.live_spec(drawing[2](drawing[1]))[0]
    assert ready.keep([drawing]) == 1
    assert ready.spec_of(drawing[0], drawing[1], refused) == json.loads(json.dumps(written))


def test_other_data_another_chart_other_code_and_a_broken_file_are_written_anew(store, monkeypatch):
    name, frame, make = cb.panels.model_zoo().drawing
    ready.keep([(name, frame, make)])
    for other in ((name, frame.iloc[1:]), ("another chart", frame)):
        with pytest.raises(AssertionError, match="was asked"):
            ready.spec_of(*other, refused)
    monkeypatch.setattr(ready, "_code", lambda: "other code")
    ready._store.cache_clear()
    with pytest.raises(AssertionError, match="was asked"):
        ready.spec_of(name, frame, refused)
    monkeypatch.undo()
    for broken in ("", "{", "[]", '{"code": 1}'):
        store.write_text(broken)
        monkeypatch.setattr(ready, "STORE", store)
        ready._store.cache_clear()
        assert ready.spec_of(name, frame, make)["config"]


def test_what_was_kept_stays_whole_where_the_disk_is_full(store):
    code = """
        import resource, sys
        from pathlib import Path
        from cookbook.charts import ready
        ready.STORE, many = Path(sys.argv[1]), {"spec": "x" * 10_000}
        ready.live_spec = lambda _: (many, {})
        import pandas as pd
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
        ready.keep([("a chart", pd.DataFrame({"x": [1.0]}), lambda frame: None)])
    """
    store.write_text("what was kept before")
    run = subprocess.run([sys.executable, "-c", dedent(code), str(store)], capture_output=True, text=True, check=False)
    assert "File too large" in run.stderr and store.read_text() == "what was kept before"
    assert list(store.parent.iterdir()) == [store]


def test_a_first_picture_that_stands_ready_waits_for_no_altair(store):
    for kept, said in ((False, "True True"), (True, "False True")):
        if kept:
            ready.keep([cb.panels.assembly_line().drawing])
        run = subprocess.run([sys.executable, "-c", ALONE, str(store)], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == said


def notebook(path, *sources):
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "metadata": {}, "source": "Text."}, *cells]}))


def test_panels_are_made_as_recipes_make_them_first(tmp_path, capsys):
    first = "panel = cb.panels.assembly_line('gpipe', stages)\npanel"
    notebook(tmp_path / "01-one.ipynb", "stages = 6\nprint(1)", first, "raise RuntimeError('below the first panel')")
    notebook(tmp_path / "02-two.ipynb", "import math\ncb.panels.assembly_line('gpipe', int(math.sqrt(16)))")
    notebook(tmp_path / "03-broken.ipynb", "1 / 0", "cb.panels.assembly_line()")
    notebook(tmp_path / "04-magic.ipynb", "%broken (")
    notebook(tmp_path / "05-none.ipynb", "x = 1")
    notebook(tmp_path / "my own.ipynb", "cb.panels.assembly_line()")
    made = [panel for panel in panels_of(tmp_path)][len(cb.panels._RECIPES) :]
    assert [(panel.name, panel.values["stages"]) for panel in made] == [("assembly_line", 6), ("assembly_line", 4)]
    said = capsys.readouterr()
    assert said.out == "" and "03-broken.ipynb is left out: division by zero" in said.err
    assert "04-magic.ipynb" in said.err
