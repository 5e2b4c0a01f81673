"""Files are written whole or not at all, sources are never overwritten, and downloads hold no formulas."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from cookbook.__main__ import main
from cookbook.catalog.files import check_target, csv_text, safe_cell, write_bytes, write_csv, write_text, writing

SLOW = """
import sys, time
from cookbook.catalog.files import writing
with writing(sys.argv[1]) as file:
    for line in range(10**6):
        file.write(f"{line}\\n" * 1000)
        file.flush()
        print("writing", flush=True)
        time.sleep(0.01)
"""


def test_a_writer_killed_half_way_leaves_the_old_file_whole(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old\n")
    with subprocess.Popen([sys.executable, "-c", SLOW, target], stdout=subprocess.PIPE, text=True) as process:
        assert [process.stdout.readline() for _ in range(3)] == ["writing\n"] * 3
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and target.read_text() == "old\n"


NOTEBOOK = """
import sys, time
import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from cookbook.publish import notebook
cells = [new_code_cell("x = 1", id=f"cell-{n}") for n in range(200)]
real = notebook.nbformat.writes
while True:
    notebook.write(new_notebook(cells=cells), sys.argv[1])
    print("stored", flush=True)
"""


@pytest.mark.all
def test_a_notebook_being_stored_is_whole_whenever_its_writer_is_killed(tmp_path):
    target = tmp_path / "a.ipynb"
    for wait in (0.0, 0.003, 0.01):
        with subprocess.Popen([sys.executable, "-c", NOTEBOOK, target], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "stored\n"
            time.sleep(wait)
            process.kill()
        text = target.read_text()
        assert text.endswith("}\n") and text.count('"cell_type"') == 200


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    target = write_text(tmp_path / "a.txt", "old")
    with pytest.raises(ZeroDivisionError), writing(target) as file:
        file.write("new")
        file.write(str(1 / 0))
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link_and_rights_are_kept(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink() and real.read_text() == "new" and real.stat().st_mode & 0o777 == 0o640
    fresh = write_bytes(tmp_path / "fresh.png", b"\x89")
    assert fresh.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_device_is_written_directly():
    assert write_text("/dev/null", "x" * 100) == Path("/dev/null") and not Path("/dev/null").is_file()


def test_rows_are_written_in_the_order_of_the_columns(tmp_path):
    table = write_csv(tmp_path / "t.csv", ["a", "b"], [{"b": 1, "a": "x, y"}, {"a": "z"}])
    assert table.read_bytes() == b'a,b\n"x, y",1\nz,\n'


def test_what_cannot_be_written_is_told_before(tmp_path):
    source = write_text(tmp_path / "in.csv", "a\n1\n")
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    for name in ("in.csv", "link.csv", "hard.csv", "../" + tmp_path.name + "/in.csv"):
        with pytest.raises(ValueError, match="is the file that is read"):
            check_target(tmp_path / name, source)
    with pytest.raises(ValueError, match=r"folder .*nowhere does not exist"):
        check_target(tmp_path / "nowhere" / "out.csv", source)
    with pytest.raises(ValueError, match="is a folder"):
        check_target(tmp_path, source)
    assert check_target(tmp_path / "out.csv", source) == tmp_path / "out.csv"


@pytest.mark.parametrize("name", ["in.csv", "link.csv", "hard.csv", "nowhere/out.csv"])
def test_predict_tells_a_bad_output_before_it_reads_anything(tmp_path, monkeypatch, name):
    from cookbook.prediction import answer

    source = write_text(tmp_path / "in.csv", "id,model\n1,resnet50\n")
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    monkeypatch.setattr(answer, "answer_blocks", lambda *given: pytest.fail("it was computed first"))
    with pytest.raises(SystemExit, match=r"is the file that is read|does not exist"):
        main(["predict", "--kind", "training_classic", str(source), str(tmp_path / name)])
    assert source.read_text() == "id,model\n1,resnet50\n"


def test_student_refuses_to_take_the_place_of_the_notebooks(tmp_path, monkeypatch):
    from nbformat.v4 import new_markdown_cell, new_notebook

    from cookbook.publish.notebook import write

    folder = tmp_path / "notebooks"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "a.png").write_bytes(b"png")
    before = write(new_notebook(cells=[new_markdown_cell("# A", id="a")]), folder / "01-a.ipynb").read_bytes()
    (tmp_path / "other").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    for out in ("notebooks", "other", "build/../notebooks", str(folder)):
        with pytest.raises(SystemExit, match="is the file that is read"):
            main(["dev", "student", "--out", out])
    assert (folder / "01-a.ipynb").read_bytes() == before
    main(["dev", "student", "--out", "build/deep"])
    assert (tmp_path / "build/deep/images/a.png").read_bytes() == b"png"
    main(["dev", "student", "--out", "build/deep", "notebooks/01-a.ipynb"])


@pytest.mark.parametrize("text", ["{}", "", "[]", "not json", '{"cells": 3}', '{"cells": [], "nbformat": 4}', "null"])
@pytest.mark.parametrize("command", ["student", "notebooks", "lint-notebooks"])
def test_what_is_no_notebook_is_told_in_one_sentence(tmp_path, command, text):
    path = write_text(tmp_path / "a.ipynb", text)
    with pytest.raises(SystemExit, match="is not a Jupyter notebook") as ended:
        main(["dev", command, str(path)])
    assert "\n" not in str(ended.value) and path.read_text() == text


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("+SUM(A1)", "'+SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("\r=x", "'\r=x"),
        (" =x", "' =x"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        ("-1_0", "'-1_0"),
        ("H100", "H100"),
        ("", ""),
        (-5.0, -5.0),
        (None, None),
        ("a=b", "a=b"),
        ("-inf", "-inf"),
    ],
)
def test_cells_that_a_spreadsheet_would_run_are_text(cell, safe):
    assert safe_cell(cell) == safe


def test_a_download_is_safe_in_its_cells_and_headings():
    frame = pd.DataFrame({"=name": ["=HYPERLINK(1)", "-4"], "x": [-1.5, 2.0], "kind": pd.Categorical(["@a", "b"])})
    assert csv_text(frame) == "'=name,x,kind\n'=HYPERLINK(1),-1.5,'@a\n-4,2.0,b\n"
    assert frame.columns[0] == "=name" and frame.iloc[0, 0] == "=HYPERLINK(1)"
