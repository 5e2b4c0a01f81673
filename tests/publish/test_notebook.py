"""The notebook machinery, on small notebooks made here."""

import ast
import base64
import hashlib
import html
import json
import random
import re
import struct
import zlib
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from strict import nbval, spoil

import cookbook as cb
from cookbook.__main__ import main
from cookbook.charts.card import panel_card
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
from cookbook.publish.refresh import BINDER, links, marks, write_links
from cookbook.publish.site import clean, reference, site, slides


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


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[go](javascript:alert(1))",
        "<a href='JaVaScRiPt:alert(1)'>go</a>",
        "<a href='data:text/html,<b>x'>go</a>",
        "<svg onload=alert(1)></svg>",
        "<iframe src='https://example.org'></iframe>",
        "<math><mtext><script>alert(1)</script></mtext></math>",
        "<style>body{background:url(https://example.org)}</style>",
        "<form action='https://example.org'></form>",
        "<p style='background:url(https://example.org/x)'>x</p>",
        "<img src='https://example.org/x.png'>",
        "<script>alert(1)",
        "<scr<script></script>ipt>alert(1)</script>",
        "$\\text{<script>alert(1)</script>}$",
    ],
)
def test_raw_html_of_a_notebook_runs_nothing_on_its_page(tmp_path, body):
    spoilt = nbformat.v4.new_output("display_data", {"image/png": '"><script>alert(1)</script>', "text/plain": "<x>"})
    raw = nbformat.v4.new_output("display_data", {"text/html": body, "text/plain": ""})
    script = nbformat.v4.new_output("display_data", {"application/javascript": "alert(1)"})
    cells = new_markdown_cell(f"# {body}\n\n{body}\n\nend"), new_code_cell("1", outputs=[raw, spoilt, script])
    write(tmp_path / "01-a.ipynb", *cells)
    page = (site(tmp_path, tmp_path / "out") / "01-a.html").read_text()
    tags = re.findall(r"<[^>]*>", page.partition("<main")[2])
    runs = re.compile(r"(?i)<(script|style|svg|iframe|form)|\son\w+\s*=|script:|text/html|src=.?(https?:)?//|url\(")
    assert not [tag for tag in tags if runs.search(tag)]


def test_cleaning_leaves_what_a_lesson_is_made_of():
    kept = (
        '<h1 id="a">A</h1><p class="x">B <a href="https://example.org/?a=1&amp;b=2">c</a> <code>d &lt; e</code></p>'
        '<details><summary>F</summary><img src="data:image/png;base64,iVBORw0=" alt="g"></details>'
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"><mfrac><mi>a</mi><mi>b</mi></mfrac></math>'
        '<ul style="list-style: none;"><li>h</li></ul><a href="02-next.ipynb">next</a>'
    )
    assert clean(kept) == kept


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LOADS = re.compile(r"""(?:\bsrc\s*=|<link[^>]*\bhref\s*=|@import|url\(|\bimport\s*\(?)\s*["'(]?\s*(?:https?:)?//""")


def shown(words: str, **more: str):
    return nbformat.v4.new_output("display_data", {"image/png": PIXEL, "text/plain": words, **more})


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """A site of two pages with formulas, links to recipes and to nowhere, pictures, and panels old and new."""
    folder = tmp_path_factory.mktemp("site")
    told = panel_card(
        {"error": "", "answer": "It needs **5 GB**.", "chips": [], "parts_title": "", "parts": []},
        pd.DataFrame({"part": ["weights"]}),
    )
    new = normalised(new_notebook(cells=[new_code_cell("2", outputs=[shown("It needs 5 GB.", **{"text/html": told})])]))
    write(
        folder / "01-tiny.ipynb",
        new_markdown_cell(
            "# Count\n\n**Will <it> fit?** Time $t < 2$, see [the next recipe](02-next.ipynb).\n\n"
            "**About 40 minutes.** A [file](../data/x.csv).\n\n$$E = \\frac{a}{b}$$"
        ),
        new_code_cell(
            "import math  # $HOME stays as it is",
            outputs=[shown("<Chart rows=3 & more>"), shown("It needs 3 GB. More. [bounds only]\nbars: Fits (rows=2)")],
        ),
        *new.cells,
    )
    write(folder / "02-next.ipynb", new_markdown_cell("# Next\n\n## Then\n\nA zebra."))
    return site(folder, folder / "out")


def test_site_is_self_contained(pages):
    page = (pages / "01-tiny.html").read_text()
    assert page.count("<math") == 2 and "<mfrac>" in page and "$HOME" in page
    assert not LOADS.search(page)
    assert 'alt="&lt;Chart rows=3 &amp; more&gt;"' in page
    assert "It needs 3 GB." in re.sub(r"<img[^>]*>", "", page), "a panel's sentence is text"
    assert 'href="02-next.html"' in page and "01-tiny.html" in (pages / "index.html").read_text()


def test_a_link_out_of_the_site_becomes_text_and_pages_lead_to_each_other(pages):
    first, second = ((pages / name).read_text().partition("<main")[2] for name in ("01-tiny.html", "02-next.html"))
    assert "A file." in first and "x.csv" not in first
    assert re.search(r'rel="next" href="02-next.html"', first) and 'rel="prev"' not in first
    assert re.search(r'rel="prev" href="01-tiny.html"', second) and 'rel="next"' not in second


def test_the_gallery_says_what_stands_in_the_notebooks(pages):
    entry = (pages / "index.html").read_text().partition('<ul class="gallery">')[2].partition("</li>")[0]
    assert "01 Count" in entry and "Will &lt;it&gt; fit?" in entry and "40 minutes" in entry
    assert f"base64,{PIXEL}" in entry and 'alt="Fits"' in entry and '<p class="line">It needs 3 GB.</p>' in entry


def test_a_panel_is_a_card_with_its_picture_whether_or_not_one_was_stored(pages):
    old, new = re.findall(r'(?s)<div class="ck-card">.*?</div>\n', (pages / "01-tiny.html").read_text())
    assert re.search(r'(?s)<p>It needs 3 GB. More.</p><p class="ck-badges">bounds only</p><img [^>]*alt="Fits"', old)
    assert re.search(r"(?s)<strong>5 GB</strong>.</p>.*<img [^>]*>.*<table>", new) and "rows=" not in old + new
    assert "run all cells" not in new, "a page has no cells to run"


def test_the_search_holds_headings_and_text_of_every_page(pages):
    text = (pages / "index.html").read_text()
    index = json.loads(re.search(r'(?s)id="index">(.*?)</script>', text)[1])
    assert ["Then", "Next", "02-next.html#Then", "A zebra."] in index
    name = next(entry for entry in index if entry[0] == "cb.memory.weight_bytes")
    assert name[2] == "reference-cb-memory.html#weight_bytes" and "memory of the weights" in name[3]


# One site and its table for all that reads them, in one process.
together = pytest.mark.xdist_group("site")
MOST_TABLE, STATES_TRIED = 300_000, 12  # bytes; states of a thousand


@pytest.fixture(scope="module")
def texts(root, tmp_path_factory) -> dict[str, str]:
    """Every page of the cookbook's own site."""
    written = sorted(site(root / "notebooks", tmp_path_factory.mktemp("whole")).glob("*.html"))
    return {path.name: path.read_text(encoding="utf-8") for path in written}


@pytest.mark.all
@together
def test_site_of_the_cookbook_loads_nothing(root, texts):
    """One script, ours, and three more for the panel; the page's own policy names each; every link leads somewhere."""
    script = (root / "cookbook" / "publish" / "site.js").read_text(encoding="utf-8")
    for name, text in texts.items():
        tags = dict.fromkeys(re.findall(r"<script(?! type=.application/json)[^>]*>", text))
        own = name.startswith("01-")
        assert list(tags) == ["<script>", *(['<script type="module">'] if own else [])], name
        scripts = re.findall(r"(?s)<script(?: type=.module.)?>(.*?)</script>", text)
        assert scripts[0] == script and len(scripts) == (3 if own else 1)
        named = [f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts]
        assert f'script-src {" ".join(named)}">' in text
        assert not LOADS.search(re.sub(r"(?s)<script.*?</script>", "", text)), name
        text = re.sub(r"(?s)<script.*?</script>|<pre.*?</pre>|<annotation.*?</annotation>", "", text)
        assert not re.search(r"\$\$|\\frac|\\alpha", text)
        for address in re.findall(r'<a\b[^>]*href="([^"]*)"', text):
            target, _, anchor = html.unescape(address).partition("#")
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (target or name) in texts, f"{name} links to {address}"
                assert not anchor or f'id="{html.escape(anchor)}"' in texts[target or name], f"{name}: {address}"


def looked_up(table: dict, places: list[int]) -> dict[tuple, object]:
    """What the table of a page holds where each choice has the value at this place, by path."""
    found, sizes = {}, [len(values) for _, values, _ in table["axes"]]
    for path, axes, wide, ids, codes in table["fields"]:
        state = 0
        for axis in axes:
            state = state * sizes[axis] + places[axis]
        at = ids[int(codes[state * wide : (state + 1) * wide], 36) if wide else 0]
        if at:
            found[tuple(path)] = table["pool"][at]
    return found


@pytest.mark.all
@together
def test_a_page_tells_what_the_panel_tells_in_every_state_tried(texts):
    """The table of the page against the panel itself: the first state, and others by chance."""
    page = next(text for name, text in texts.items() if name.startswith("01-"))
    raw = re.search(r'(?s)id="ck-table">(.*?)</script>', page)[1]
    table, rng = json.loads(raw), random.Random(3)
    assert len(raw.encode()) < MOST_TABLE
    panel = cb.panels.model_zoo(**table["kept"])
    panel.receive({"do": "open", "what": "sources"})
    first = [at for *_, at in table["axes"]]
    gallery = re.findall(r'<p class="line">(.*?)</p>', texts["index.html"])
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
            assert panel.shown["headline"].replace("**", "") in gallery  # what the notebook opens with


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


@pytest.mark.all
@together
def test_the_site_has_slides_of_both_courses_and_what_readme_leads_to(root, texts):
    written = {path.stem for path in (root / "docs").glob("*.md")}
    courses = {f"slides-{path.stem}" for path in (root / "notebooks" / "facilitator").glob("*-course.md")}
    assert written
    for name in written | courses:
        assert f'<a href="{name}.html">' in texts["index.html"], name
    votes = {name: texts[f"{name}.html"].count(">Vote</h2>") for name in courses}
    assert votes == {"slides-half-day-course": 9, "slides-one-day-course": 19}
    assert not any("cb.predict_first" in texts[f"{name}.html"] for name in courses)
    assert 'href="accuracy.html"' in texts["about.html"] and 'href="about.html' in texts["accuracy.html"]


def test_readme_is_short_and_starts_at_once(root):
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150 and lines.index("## Start") < 12
    pictures = [line for line in lines[: lines.index("## In a browser")] if line.startswith("![")]
    assert len(pictures) == 1, "one picture; the gallery is folded"


@pytest.mark.all
@together
def test_the_front_page_shows_every_recipe(root, texts):
    for entry in texts["index.html"].partition('<ul class="gallery">')[2].partition("</ul>")[0].split("</li>")[:-1]:
        name = re.search(r'href="([\w-]+)\.html"', entry)[1]
        path = next((root / "notebooks").rglob(f"{name}.ipynb"))
        notebook = nbformat.read(path, as_version=4)
        said = " ".join("".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown").split())
        for kind in ("question", "minutes"):
            assert html.unescape(re.search(f'<p class="{kind}">(.*?)</p>', entry)[1]) in said, (name, kind)
        assert "<img" in entry and '<p class="line">' in entry, name


def test_the_reference_has_every_public_name_with_units_and_code(root):
    pages = {page.name: page for page in reference()}
    for room, module in (("cb", cb), ("cb-planning", cb.planning), ("cb-panels", cb.panels), ("cb-charts", cb.charts)):
        for name in module.__all__:
            if callable(getattr(module, name)):
                assert f'<h2 id="{name}"' in pages[f"reference-{room}"].body, name
    formulas = [name for page in pages.values() for name in page.names]
    paths = sorted((root / "cookbook" / "formulas").glob("[a-z]*.py"))
    assert paths
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                assert node.name in formulas, f"{path.stem}.{node.name}"
    entry = pages["reference-cb-memory"].body.partition('<h2 id="weight_bytes"')[2].partition("<h2")[0]
    for part in ("Size of one weight, w [B].", "Memory [B].", "<math", "Rajbhandari", "memory.py, line", "return"):
        assert part in entry, part
    assert '"""' not in entry and "[-]" in entry


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
