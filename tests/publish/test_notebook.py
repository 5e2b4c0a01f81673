"""The notebook machinery, on small notebooks made here."""

import base64
import json
import random
import re
import struct
import zlib
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from slides import slides
from strict import nbval, spoil

import cookbook as cb
from cookbook.__main__ import main
from cookbook.publish.notebook import (
    SIGNATURE,
    _chunk,
    code_lines,
    execute,
    lint,
    normalise,
    normalised,
    repack_png,
    run_with,
    student,
    words,
)
from cookbook.publish.offline import opening
from cookbook.publish.offline import table as offline_table
from cookbook.publish.refresh import BINDER, links, marks, write_links


def write(path: Path, *cells) -> Path:
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> Path:
    """A notebook with a parameter, a printed number, a widget and a picture, executed."""
    path = tmp_path_factory.mktemp("executed") / "01-tiny.ipynb"
    write(
        path,
        new_markdown_cell("# Count\n\nThe time is $t = \\frac{M}{\\beta}$ and\n\n$$E = 2 n^3$$\n"),
        new_code_cell("batch = 32  # samples", metadata={"tags": ["parameters"]}),
        new_code_cell("import ipywidgets\nprint('took 3 ms', 2 * batch)\nbatch * 1.5"),
        new_code_cell("ipywidgets.IntSlider(value=batch)"),
        new_code_cell("import os\nos.getenv('COOKBOOK_STATIC')", metadata={"tags": ["nbval-ignore-output"]}),
        new_code_cell(
            "answer = 42",
            metadata={"tags": ["solution"], "jupyter": {"source_hidden": True}, "papermill": {"duration": 1}},
        ),
    )
    return execute(path)


def test_two_runs_are_byte_identical(executed, tmp_path):
    copy = tmp_path / executed.name
    copy.write_bytes(executed.read_bytes())
    assert execute(copy).read_bytes() == executed.read_bytes()


def test_stored_notebook_carries_nothing_of_the_run(executed):
    text = executed.read_text()
    for word in ("widget-view", "papermill", 'widgets":', "injected", "start_time"):
        assert word not in text
    assert "'1'" in text, "charts are asked for a static picture"


def test_failed_run_leaves_the_file_alone(tmp_path):
    path = write(tmp_path / "bad.ipynb", new_code_cell("1 / 0"))
    before = path.read_bytes()
    with pytest.raises(SystemExit, match="ZeroDivisionError: division by zero"):
        main(["dev", "notebooks", str(path)])
    assert path.read_bytes() == before


def test_parameters_reach_the_cells_and_unknown_ones_are_refused(executed):
    outputs = run_with(executed, batch=4).cells
    assert any("8\n" in output.get("text", "") for cell in outputs for output in cell.get("outputs", []))
    with pytest.raises(ValueError, match="no parameter batches; its parameters are: batch"):
        run_with(executed, batches=4)


@pytest.mark.all
def test_strict_nbval_passes_then_notices_one_digit(executed, tmp_path):
    good = nbval(executed)
    assert good.returncode == 0, good.stdout + good.stderr
    spoilt = tmp_path / "01-spoilt.ipynb"
    spoilt.write_text(json.dumps(spoil(json.loads(executed.read_text()))))
    bad = nbval(spoilt)
    assert bad.returncode == 1 and "1 failed" in bad.stdout


@pytest.mark.all
def test_guard_refuses_a_notebook_that_never_ran(tmp_path):
    result = nbval(write(tmp_path / "new.ipynb", new_code_cell("1 + 1")))
    assert result.returncode == 4 and "never executed" in result.stderr + result.stdout


def test_normalise_gives_missing_ids_by_place(tmp_path):
    path = write(tmp_path / "a.ipynb", new_code_cell("1"))
    stored = json.loads(path.read_text())
    del stored["cells"][0]["id"]
    path.write_text(json.dumps({**stored, "nbformat_minor": 4}))
    first = normalise(path).read_bytes()
    path.write_text(json.dumps({**stored, "nbformat_minor": 4}))
    assert normalise(path).read_bytes() == first


def test_repacked_picture_has_the_same_pixels_and_packs_once():
    rows = b"".join(b"\0" + bytes([shade]) * 300 for shade in range(100))
    head = struct.pack(">IIBBBBB", 100, 100, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b"")]
    loose = base64.b64encode(SIGNATURE + b"".join(_chunk(*chunk) for chunk in chunks)).decode()
    packed = repack_png(loose)
    assert len(packed) < len(loose) / 20 and repack_png(packed) == packed
    data = base64.b64decode(packed)
    assert zlib.decompress(data[data.index(b"IDAT") + 4 :]) == rows
    assert repack_png("R0lGODlh") == "R0lGODlh"


@pytest.mark.parametrize(("alpha", "kind"), [(255, 2), (128, 6)])
def test_an_opaque_picture_loses_its_filter_and_no_pixel(alpha, kind):
    """Rows of differences are summed to plain colours; a picture that can be seen through stays as it is."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), np.uint8)
    pixels[..., 3] = alpha
    lines = np.diff(pixels, axis=1, prepend=np.zeros((5, 1, 4), np.uint8)).reshape(5, -1)
    rows = np.pad(lines, ((0, 0), (1, 0)), constant_values=1).tobytes()
    head = struct.pack(">IIBBBBB", 7, 5, 8, 6, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    whole = SIGNATURE + b"".join(_chunk(*each) for each in chunks)
    data = base64.b64decode(repack_png(base64.b64encode(whole).decode()))
    assert data[25] == kind
    kept = np.frombuffer(zlib.decompress(data[data.index(b"IDAT") + 4 :]), np.uint8).reshape(5, -1)
    if kind == 2:
        assert (kept[:, 0] == 0).all()
        np.testing.assert_array_equal(kept[:, 1:].reshape(5, 7, 3), pixels[..., :3])
    else:
        assert kept.tobytes() == rows


def test_student_copy(executed, tmp_path):
    copy = nbformat.read(student(executed, tmp_path / "out"), as_version=4)
    assert copy.cells[-1].source == "# your turn"
    assert "answer = 42" not in (tmp_path / "out" / executed.name).read_text()
    assert not any(cell.get("outputs") for cell in copy.cells)
    assert copy.cells[0].source.startswith("# Count")


def opened(tmp_path, *cells) -> list[str]:
    """Sources of the cells of a student's copy."""
    path = write(tmp_path / "01-a.ipynb", *cells)
    return [cell.source for cell in nbformat.read(student(path, tmp_path / "out"), as_version=4).cells]


def solution(source: str):
    return new_code_cell(source, metadata={"tags": ["solution"], "jupyter": {"source_hidden": True}})


def test_a_student_keeps_a_check_that_stands_in_its_own_cell(tmp_path):
    check = "cb.check(answer, lambda: 6 * 7)"
    sources = opened(tmp_path, new_code_cell("import cookbook as cb"), solution("answer = 42"), new_code_cell(check))
    assert sources == ["import cookbook as cb", "answer = ...  # your turn", check]


def test_a_student_keeps_the_check_within_a_solution_and_what_it_rests_on(tmp_path):
    source = "base = 6\nfactor = 7\nanswer = base * 7\ncb.check(answer, lambda: base * 7, unit='B')"
    kept = "answer = ...  # your turn\nbase = 6\ncb.check(answer, lambda: base * 7, unit='B')"
    assert opened(tmp_path, solution(source)) == [kept]
    assert opened(tmp_path, solution("rows = [1]\ncb.check(sum(rows) * 2, lambda: 2)")) == [
        "answer = ...  # your turn\ncb.check(answer, lambda: 2)"
    ]


def test_the_blank_of_a_student_is_not_an_answer(tmp_path):
    source = opened(tmp_path, solution("answer = 42\nverdict = cb.check(answer, lambda: 42)"))[0]
    names = {"cb": __import__("cookbook")}
    exec(source, names)
    assert "Not answered yet" in repr(names["verdict"]) and "42" not in source.partition("lambda")[0]


@pytest.mark.parametrize("source", ["%time x = 1", "x = 1", "# words only", "print(3)"])
def test_a_solution_without_a_check_is_a_place_to_write(tmp_path, source):
    assert opened(tmp_path, solution(source), new_markdown_cell("Then.")) == ["# your turn", "Then."]


def test_what_a_solution_prints_is_folded_with_it(executed):
    solved = nbformat.read(executed, as_version=4).cells[-1]
    assert solved.metadata["jupyter"] == {"source_hidden": True, "outputs_hidden": True}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def shown(words: str, **more: str):
    return nbformat.v4.new_output("display_data", {"image/png": PIXEL, "text/plain": words, **more})


MOST_TABLE, STATES_TRIED = 300_000, 12  # bytes; states of a thousand


def looked_up(table: dict, places: list[int]) -> dict[tuple, object]:
    """What the table of a page holds where each choice has the value at this place, by path."""
    found, sizes = {}, [len(values) for _, values, _ in table["axes"]]
    for path, axes, wide, ids, codes in table["fields"]:
        state = 0
        for axis in axes:
            state = state * sizes[axis] + places[axis]
        at = 0
        for digit in codes[state * wide : (state + 1) * wide]:
            at = at * len(table["digits"]) + table["digits"].index(digit)
        at = ids[at] if ids else at
        if at:
            found[tuple(path)] = table["pool"][at]
    return found


@pytest.mark.all
def test_a_page_tells_what_the_panel_tells_in_every_state_tried(root):
    """The table of the page against the panel itself: the first state, and others by chance."""
    recipe = nbformat.read(next(root.glob("notebooks/01-*.ipynb")), as_version=4)
    outputs = [output.get("data", {}) for cell in recipe.cells for output in cell.get("outputs", [])]
    words = next(data["text/plain"] for data in outputs if "image/png" in data)
    raw = offline_table(next(line for line in words.splitlines() if line.startswith("cb.panels.")))
    table, rng = json.loads(raw), random.Random(3)
    assert len(raw.encode()) < MOST_TABLE
    panel = cb.panels.model_zoo(**table["kept"])
    panel.receive({"do": "open", "what": "sources"})
    first = [at for *_, at in table["axes"]]
    others = ([rng.randrange(len(values)) for _, values, _ in table["axes"]] for _ in range(STATES_TRIED))
    for places in [first, *others]:
        told = looked_up(table, places)
        for picture in table["specs"]:
            panel.update(
                **{name: values[at] for (name, values, _), at in zip(table["axes"], places, strict=True)},
                picture=picture,
            )
            shown = panel.shown
            facts = [told[path] for path in sorted(path for path in told if path[0] == "facts")]
            assert (told["headline",], facts) == (shown["headline"], shown["facts"])
            assert told["charts", picture, "signals", "live_title"] == shown["signals"]["live_title"]
            for name, column in panel.columns.items():
                assert [told.get(("charts", picture, "columns", name, at)) for at in range(len(column))] == column
            for at, part in enumerate(shown["parts"]):
                near = pytest.approx(part["value"], rel=1e-5)
                assert {name: told["parts", at, name] for name in part} == part | {"value": near}
            assert [told["sources", "items", at, 0] for at in range(len(shown["sources"]["items"]))] == [
                title for title, *_ in shown["sources"]["items"]
            ]
        if places is first:
            assert words.startswith(panel.shown["headline"].replace("**", ""))  # what the notebook opens with


def test_only_the_panel_of_the_first_recipe_answers_on_a_page():
    assert opening('cb.panels.model_zoo(model="resnet50", batch=64)') == {"model": "resnet50", "batch": 64}
    assert opening("cb.panels.storage()") is None and opening("cb.panels.model_zoo(model=my_model)") is None


COURSE = """# Course of an hour

One sentence to leave with: *count first.*

| time | block | recipe | how | the class leaves with |
|---|---|---|---|---|
| 0:00–0:40 | Need | [01](../01-a.ipynb) | Whole | one number |
| 0:40–0:50 | Break | | Stretch | |
| 0:50–1:00 | Again | [01](../01-a.ipynb) | 25-minute version | |
"""


def test_slides_ask_and_do_not_tell(tmp_path):
    opening = new_markdown_cell("# A\n\n**Which GPU, for `x`?**\n\nYou will be able to\n\n1. *count* bytes;\n2. *buy*.")
    (tmp_path / "facilitator").mkdir()
    write(tmp_path / "01-a.ipynb", opening, question("forty"), question("fifty"))
    page = "One sentence to leave with: *bytes.*\n\n## Questions to ask aloud\n\n- Why? (Because.)\n\n## Votes\n"
    (tmp_path / "facilitator" / "01-a.md").write_text(page, encoding="utf-8")
    course = tmp_path / "facilitator" / "short-course.md"
    course.write_text(COURSE, encoding="utf-8")
    found = slides(course)
    heads = re.findall(r"<h\d[^>]*>(.*?)</h\d>", found)
    block = ["Vote", "Discuss", "To keep"]
    assert heads == [
        "Course of an hour",
        "Schedule",
        "Need (0:00–0:40)",
        "Vote",
        *block,
        "Break, until 0:50",
        "Again (0:50–1:00)",
        *block,
    ]
    assert "Which GPU, for <code>x</code>?" in found and "<li><em>count</em> bytes</li>" in found
    assert "<li>forty</li><li>none</li>" in found and "so it is" not in found and "Because" not in found
    assert "<p>You leave with: one number.</p>" in found and found.count("<section") == len(heads)
    course.write_text("# Nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="has no schedule"):
        slides(course)


def test_readme_is_short_and_starts_at_once(root):
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150 and lines.index("## Start") < 12
    pictures = [line for line in lines[: lines.index("## In a browser")] if line.startswith("![")]
    assert len(pictures) == 1, "one picture; the gallery is folded"


def test_text_that_a_kernel_sent_in_pieces_is_stored_as_one():
    def printed(text, name="stdout"):
        return nbformat.v4.new_output("stream", name=name, text=text)

    pieces = [
        printed("a"),
        printed("\n"),
        printed("b\n", "stderr"),
        printed("c"),
        shown("d"),
        printed("e"),
        printed("f"),
    ]
    cell = normalised(new_notebook(cells=[new_code_cell("1", outputs=pieces)])).cells[0]
    assert [each.get("text", "d") for each in cell.outputs] == ["a\n", "b\n", "c", "d", "ef"]


def test_a_card_and_its_picture_are_stored_apart_and_once():
    both = shown("It fits.", **{"text/html": "<p>It fits.</p>"})
    cell = normalised(new_notebook(cells=[new_code_cell("1", outputs=[both])])).cells[0]
    assert [set(output.data) for output in cell.outputs] == [{"text/html"}, {"image/png", "text/plain"}]
    before = nbformat.writes(new_notebook(cells=[cell]))
    assert nbformat.writes(normalised(new_notebook(cells=[cell]))).count("text/html") == before.count("text/html") == 1


GOOD = (
    new_markdown_cell("# Count layers\n\nWords."),
    new_code_cell("import cookbook as cb"),
    new_markdown_cell("## Then\n\n[the source paper](x.md) ![a plot of time](x.png)"),
    new_code_cell("cb.si('1 s')"),
)


def problems(tmp_path, *cells, name="00-page.ipynb"):
    return " | ".join(lint(write(tmp_path / name, *cells)))


def test_lint_accepts_a_page_in_budget(tmp_path):
    assert problems(tmp_path, *GOOD) == ""


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (new_markdown_cell("# Again"), "2 headings of level 1"),
        (new_markdown_cell("#### Deep"), "a level is skipped"),
        (new_markdown_cell("![](x.png)"), "no alternative text"),
        (new_markdown_cell("<img src='x.png'>"), "<img> has no alternative text"),
        (new_markdown_cell("[here](x.md)"), "does not say where it leads"),
        (new_markdown_cell("Click here."), "click here"),
        (new_code_cell("\n".join(["x = 1"] * 11)), "longest is 11"),
        (new_code_cell("\n".join(f"import math as m{i}" for i in range(4))), "5 import lines"),
        (new_code_cell("from cookbook.units import si"), "no deeper"),
        (new_code_cell("import ipywidgets"), "needs only"),
        (new_code_cell("slider.observe(f)"), "widget plumbing (observe)"),
        (new_code_cell("def f():\n" + "\n".join(["    x = 1"] * 8)), "function f is longer"),
        (new_code_cell("batch = g()  # u", metadata={"tags": ["parameters"]}), "not a plain literal"),
        (new_code_cell("batch = 3", metadata={"tags": ["parameters"]}), "does not say its unit"),
        (new_code_cell("x", metadata={"tags": ["solution"]}), "is not folded"),
        (new_code_cell("x", outputs=[nbformat.v4.new_output("error", ename="E")]), "stores an error: E"),
        (new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", {"image/png": ""})]), "no words"),
        (new_code_cell("x" * 300_000), "at most 300"),
        (new_code_cell("%matplotlib"), "not plain Python"),
        (new_markdown_cell("It costs 5 USD."), "says USD; write $"),
        (new_code_cell("x", outputs=[nbformat.v4.new_output("stream", text="3 kUSD")]), "says USD; write $"),
        (new_markdown_cell("Rent of \\$3 and \\$4."), "a bare dollar sign"),
    ],
)
def test_lint_names_the_problem(tmp_path, cell, said):
    assert said in problems(tmp_path, *GOOD, cell)


def test_lint_takes_money_as_the_house_writes_it(tmp_path):
    told = [nbformat.v4.new_output("stream", text="$2.50/h")]
    money = new_markdown_cell("From <span>\\$</span>2.50/h to <span>\\$</span>3.")
    assert problems(tmp_path, *GOOD, money, new_code_cell("hourly_usd", outputs=told)) == ""


def question(answer: str) -> nbformat.NotebookNode:
    options = {answer: "so it is", "none": "not so"}
    return new_code_cell(f"cb.predict_first('How many?', {options!r}, answer={answer!r})")


def test_lint_finds_an_answer_in_the_headline_above_its_question(tmp_path):
    said = "2 GPUs serve 40 users for $0.178. TPOT is 9 ms.\nx: 7"
    panel = new_code_cell("cb.panels.serving()", outputs=[shown(said)])
    said = problems(tmp_path, *GOOD, panel, question("about 40"))
    assert "gives its answer away: 40" in said
    for other in ([question("about 41")], [question("9 ms")], [question("many"), question("about 40")]):
        assert "away" not in problems(tmp_path, *GOOD, panel, *other), "a number, the headline, the next question"


def test_lint_counts_folded_checks_neither_as_prose_nor_as_code_to_follow(tmp_path):
    folded = {"tags": ["check"], "jupyter": {"source_hidden": True}}
    checks = [new_code_cell("\n".join(["x = 1"] * 9), metadata=folded) for _ in range(6)]
    assert problems(tmp_path, *GOOD, *checks) == ""
    wrapped = new_code_cell("x = (\n" + "\n".join(["    1 +"] * 12) + "\n    1\n)", metadata=folded)
    assert "longest" not in problems(tmp_path, *GOOD, wrapped)
    assert "longest is 11" in problems(tmp_path, *GOOD, new_code_cell("\n".join(["x = 1"] * 11), metadata=folded))


def test_lint_holds_recipes_to_length_and_parameters(tmp_path):
    said = problems(tmp_path, *GOOD, name="01-page.ipynb")
    assert "4 cells; a recipe has 22 to 36" in said and "words; a recipe has 600" in said
    assert "0 cells tagged parameters" in said


def test_counting():
    assert code_lines("# why\n\nx = 1\ny = 2  # unit\n") == 2
    assert words(["One two `code here` $a + b$ three.\n```\nnot counted\n```\n[four five](address)"]) == 5


def test_binder_links_are_pinned_and_only_the_marked_region_changes(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "00-start-here.ipynb").touch()
    start, end = marks(BINDER)
    (tmp_path / "README.md").write_text(f"before\n{start}\nold\n{end}\nafter\n")
    text = write_links(tmp_path / "README.md", "owner/name", "v1.2.3").read_text()
    link = "https://mybinder.org/v2/gh/owner/name/v1.2.3?urlpath=lab%2Ftree%2Fnotebooks%2F00-start-here.ipynb"
    assert text == f"before\n{start}\n- [00-start-here]({link})\n{end}\nafter\n"


@pytest.mark.parametrize(("repo", "tag"), [("name", "v1"), ("owner/name", "main"), ("owner/na me", "v1")])
def test_binder_links_refuse_what_is_not_pinned(repo, tag):
    with pytest.raises(ValueError, match=r"REPO is|TAG is"):
        links(repo, tag, [])


def test_command_line_says_plainly_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="no notebooks found"):
        main(["dev", "student"])
    with pytest.raises(SystemExit, match=r"README\.md"):
        main(["dev", "binder-links", "owner/name", "v1.0"])
