"""The documentation that Sphinx builds: small sites made here, and the cookbook's own."""

import ast
import html
import json
import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from syntax import tree_of

import cookbook as cb
from cookbook.charts.card import panel_card
from cookbook.publish.notebook import normalised

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LOADS = re.compile(r"""(?:\bsrc\s*=|<link[^>]*\bhref\s*=|@import|url\(|\bimport\s*\(?)\s*["'(]?\s*(?:https?:)?//""")


def write(folder: Path, name: str, *cells) -> None:
    path = folder / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells), metadata={"language_info": {"name": "python"}}), path)


def shown(words: str, **more: str):
    return new_output("display_data", {"image/png": PIXEL, "text/plain": words, **more})


def article(page: str) -> str:
    """The part of a page that its source wrote."""
    return page.partition("<article")[2].partition("</article>")[0]


HOSTILE = [
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
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, front_page, build_site) -> Path:
    """A site with a notebook for each body of raw HTML, in its text and in its output."""
    folder = tmp_path_factory.mktemp("hostile")
    front_page(folder)
    spoilt = new_output("display_data", {"image/png": '"><script>alert(1)</script>', "text/plain": "<x>"})
    script = new_output("display_data", {"application/javascript": "alert(1)"})
    for at, body in enumerate(HOSTILE):
        raw = new_output("display_data", {"text/html": body, "text/plain": ""})
        cells = (
            new_markdown_cell(f"# Title\n\n**{body}**\n\n{body}\n\nend"),
            new_code_cell("1", outputs=[raw, spoilt, script]),
        )
        write(folder, f"{at:02d}-a", *cells)
    return build_site(folder, folder / "out", strict=False)


@pytest.mark.parametrize("at", range(len(HOSTILE)), ids=HOSTILE)
def test_raw_html_of_a_notebook_runs_nothing_on_its_page(hostile, at):
    runs = re.compile(r"(?i)<(script|style|svg|iframe|form)|\son\w+\s*=|script:|text/html|src=.?(https?:)?//|url\(")
    for name in ("index", f"notebooks/{at:02d}-a"):
        body = article((hostile / f"{name}.html").read_text())
        assert "Title" in body and not [tag for tag in re.findall(r"<[^>]*>", body) if runs.search(tag)]


KEPT = (
    '<p class="x">B <a href="https://example.org/?a=1&amp;b=2" rel="noopener noreferrer">c</a></p>'
    "<p><code>d &lt; e</code></p>"
    f'<details><summary>F</summary><img src="data:image/png;base64,{PIXEL}" alt="g"></details>'
    '<ul style="list-style:none"><li>h</li></ul><table class="dataframe"><tbody><tr><th>i</th></tr></tbody></table>'
    '<p role="status" aria-label="j">k</p>'
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, front_page, build_site) -> Path:
    """A site of two notebooks with formulas, links, pictures and panels, old and new, and one page of reference."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "data").mkdir()
    (folder / "data" / "x.csv").write_text("a\n1\n", encoding="utf-8")
    (folder / "docs").mkdir()
    front_page(folder)
    told = panel_card(
        {"error": "", "answer": "It needs **5 GB**.", "chips": [], "parts_title": "", "parts": []},
        pd.DataFrame({"part": ["weights"]}),
    )
    new = normalised(new_notebook(cells=[new_code_cell("2", outputs=[shown("It needs 5 GB.", **{"text/html": told})])]))
    solution = {"tags": ["solution"], "jupyter": {"source_hidden": True, "outputs_hidden": True}}
    write(
        folder,
        "01-tiny",
        new_markdown_cell(
            "# Count\n\n**Will 3 < 4 fit?** Time $t < 2$, see [the next recipe](02-next.ipynb).\n\n"
            "**About 40 minutes.** A [file](../data/x.csv).\n\n$$E = \\frac{a}{b}$$"
        ),
        new_code_cell(
            "import math  # $HOME stays as it is",
            outputs=[shown("<Chart rows=3 & more>"), shown("It needs $3. More. [bounds only]\nbars: Fits (rows=2)")],
        ),
        *new.cells,
        new_code_cell("answer = 42", metadata=solution),
        new_code_cell("3", outputs=[new_output("display_data", {"text/html": KEPT})]),
    )
    write(folder, "02-next", new_markdown_cell("# Next\n\n## Then\n\nA zebra."))
    return build_site(folder, folder / "out")


def test_site_is_self_contained(pages):
    page = (pages / "notebooks" / "01-tiny.html").read_text()
    assert page.count("<math") == 2 and "<mfrac>" in page and "$HOME" in page
    assert not LOADS.search(page)
    assert 'alt="&lt;Chart rows=3 &amp; more&gt;"' in page.replace("<Chart", "&lt;Chart").replace("more>", "more&gt;")
    assert "It needs $3." in re.sub(r"<img[^>]*>", "", page), "a panel's sentence is text"
    assert 'href="02-next.html"' in page and "01-tiny.html" in (pages / "index.html").read_text()


def test_a_link_to_a_file_leads_to_a_copy_and_pages_lead_to_each_other(pages):
    first, second = ((pages / "notebooks" / name).read_text() for name in ("01-tiny.html", "02-next.html"))
    target = re.search(r'href="\.\./(_downloads/\w+/x\.csv)"', first)[1]
    assert (pages / target).read_text() == "a\n1\n"
    assert re.search(r'href="02-next.html"\s+title="next page"', first)
    assert re.search(r'href="01-tiny.html"\s+title="previous page"', second)


@pytest.mark.all
def test_a_broken_link_stops_the_build(tmp_path, build_site):
    (tmp_path / "index.md").write_text("# Broken\n\n[nowhere](docs/nowhere.md)", encoding="utf-8")
    with pytest.raises(AssertionError, match="cross-reference target not found"):
        build_site(tmp_path, tmp_path / "out")


def test_output_leaves_what_a_lesson_is_made_of(pages):
    assert KEPT in (pages / "notebooks" / "01-tiny.html").read_text()


def test_a_solution_is_folded(pages):
    page = (pages / "notebooks" / "01-tiny.html").read_text()
    folded = re.search(r"(?s)<details[^>]*>(?:(?!</details>).)*answer(?:(?!</details>).)*42", page)
    assert folded and "open" not in folded[0].partition(">")[0] and "Show the code" in folded[0]


def test_the_gallery_says_what_stands_in_the_notebooks(pages):
    first, second = article((pages / "index.html").read_text()).split('class="sd-col')[1:3]
    assert "01 Count" in first and "Will 3 &lt; 4 fit?" in first and "40 minutes" in first
    assert re.search(r'<img alt="Fits"[^>]* src="_images/01-tiny.png"', first) and "It needs $3." in first
    assert "More." not in first and "02 Next" in second and "<img" not in second
    assert (pages / "_images" / "01-tiny.png").read_bytes().startswith(b"\x89PNG")


def test_a_panel_is_a_card_with_its_picture_whether_or_not_one_was_stored(pages):
    page = (pages / "notebooks" / "01-tiny.html").read_text()
    old, new = re.findall(r'(?s)<div class="ck-card">.*?</div>\n</div>', page)
    assert re.search(r'(?s)<p>It needs \$3. More.</p><p class="ck-badges">bounds only</p><img [^>]*alt="Fits"', old)
    assert re.search(r"(?s)<strong>5 GB</strong>.</p>.*<img [^>]*>.*<table>", new) and "rows=" not in old + new
    assert "run all cells" not in new, "a page has no cells to run"


def test_the_search_holds_headings_and_text_of_every_page(pages):
    index = json.loads((pages / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    second = index["docnames"].index("notebooks/02-next")
    assert index["terms"]["zebra"] == second and index["titles"][second] == "02 Next"
    assert [second, "then"] in index["alltitles"]["Then"]
    names = [name for *_, name in index["objects"]["cookbook.formulas.memory"]]
    assert "weight_bytes" in names


def test_the_reference_shows_arguments_units_formulas_and_code(pages):
    page = article((pages / "docs" / "generated" / "cookbook.formulas.memory.html").read_text())
    entry = page.partition('id="cookbook.formulas.memory.weight_bytes"')[2].partition('<dt class="sig sig-object')[0]
    for part in ("Size of one weight, w [B].", "Memory [B].", "<math", "Rajbhandari", "[-]", "weight_bytes(1.5e9, 2)"):
        assert part in html.unescape(re.sub(r"</?(?:span|strong)[^>]*>", "", entry)), part
    address = re.search(r'href="\.\./\.\./(_modules/cookbook/formulas/memory.html)#', entry)[1]
    code = html.unescape(re.sub(r"<[^>]*>", "", (pages / address).read_text()))
    assert "return parameters * bytes_per_weight" in code


def test_a_plain_list_names_every_page_with_its_first_sentence(pages):
    lines = (pages / "llms.txt").read_text().splitlines()
    assert "- [02 Next](notebooks/02-next.html): A zebra." in lines
    assert "- [01 Count](notebooks/01-tiny.html): Will 3 < 4 fit?" in lines
    assert any(line.startswith("- [cb.memory](docs/generated/cookbook.formulas.memory.html): ") for line in lines)


# The site as a whole, in one process.
@pytest.fixture(scope="module")
def whole(root, tmp_path_factory, build_site) -> Path:
    """The cookbook's own site; a warning of Sphinx would be an error."""
    return build_site(root, tmp_path_factory.mktemp("whole") / "site")


@pytest.fixture(scope="module")
def texts(whole) -> dict[str, str]:
    """Every page of the cookbook's own site, by its path."""
    return {
        path.relative_to(whole).as_posix(): path.read_text(encoding="utf-8")
        for path in whole.rglob("*.html")
        if "_static" not in path.parts
    }


@pytest.mark.all
def test_site_of_the_cookbook_loads_nothing(whole, texts):
    """Nothing from elsewhere, no script but Sphinx's, the theme's and the panel's; every link leads somewhere."""
    identifiers = {name: {*re.findall(r'\bid="([^"]*)"', text)} for name, text in texts.items()}
    for name, text in texts.items():
        inline = re.findall(r"(?s)<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", text)
        assert ('id="ck-table"' in text) == name.startswith("notebooks/01-"), name
        assert len(inline) <= (9 if 'id="ck-table"' in text else 6), name
        bare = re.sub(r"(?s)<script.*?</script>", "", text)
        assert not LOADS.search(bare), name
        for source in re.findall(r'<(?:script|link|img)\b[^>]*?(?:src|href)="([^"]*)"', bare):
            target = (whole / name).parent / source.partition("?")[0].partition("#")[0]
            assert source.startswith("data:") or target.exists(), f"{name} loads {source}"
        words = re.sub(r"(?s)<pre.*?</pre>|<code.*?</code>|aria-label=\"[^\"]*\"|alttext=\"[^\"]*\"", "", bare)
        assert not re.search(r"\$\$|\\frac|\\alpha", words), name
        for address in re.findall(r'<a\b[^>]*href="([^"]*)"', bare):
            target, _, anchor = html.unescape(address).partition("#")
            if target.startswith(("http:", "https:", "mailto:")) or target == "answers/index.html":  # `dev answers`
                continue
            path = ((whole / name).parent / target).resolve() if target else whole / name
            assert path.is_file(), f"{name} links to {address}"
            page = path.relative_to(whole).as_posix()
            if not name.startswith("_modules/"):  # code leads to the page of a name that another namespace exports
                assert not anchor or page not in identifiers or anchor in identifiers[page], f"{name}: {address}"
    for style in whole.rglob("*.css"):
        assert not LOADS.search(style.read_text(encoding="utf-8")), style


@pytest.mark.all
def test_every_notebook_guide_and_course_has_a_page(root, texts):
    written = [
        *root.glob("notebooks/**/*.ipynb"),
        *root.glob("notebooks/facilitator/*.md"),
        *root.glob("docs/*.md"),
        *root.glob("docs/contents/*.*"),
        *(root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md")),
    ]
    names = [path.relative_to(root).with_suffix(".html").as_posix() for path in written if ".ipynb_c" not in str(path)]
    assert len(names) > 40 and {*names} <= {*texts}
    linked = {name for text in texts.values() for name in re.findall(r'href="(?:\.\./)*([\w./-]+\.html)', text)}
    assert not [name for name in names if not any(name.endswith(each) for each in linked)]


@pytest.mark.all
def test_the_site_has_slides_of_both_courses(texts):
    votes = {name: texts[f"slides-{name}.html"].count(">Vote</h2>") for name in ("half-day-course", "one-day-course")}
    assert votes == {"half-day-course": 9, "one-day-course": 19}
    for name in votes:
        assert f'href="../../slides-{name}.html"' in texts["docs/contents/teaching.html"], name
        assert "cb.predict_first" not in texts[f"slides-{name}.html"]


@pytest.mark.all
def test_the_front_page_shows_every_recipe(root, texts):
    entries = article(texts["index.html"]).split('class="sd-col')[1:]
    assert len(entries) == len([*root.glob("notebooks/*.ipynb"), *root.glob("notebooks/history/*.ipynb")])
    for entry in entries:
        name = re.search(r'href="(notebooks/[\w/-]+)\.html"', entry)[1]
        notebook = nbformat.read(root / f"{name}.ipynb", as_version=4)
        question = re.search(r"(?s)\*\*(.+?)\*\*", notebook.cells[0].source)[1]
        minutes = re.search(r"(?i)about (\d+) minutes", notebook.cells[0].source)[1]
        text = " ".join(html.unescape(re.sub(r"<[^>]*>", "", entry)).split())
        assert " ".join(question.split()) in text and f"{minutes} minutes" in text, name
        answer = next(
            output.data["text/plain"]
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {}) and not output.data["text/plain"].startswith("<")
        )
        assert "<img" in entry and " ".join(answer.split())[:40] in text, name


@pytest.mark.all
def test_the_reference_has_every_public_name(root, texts):
    reference = "".join(text for name, text in texts.items() if name.startswith("docs/generated/"))
    for module in (cb, cb.planning, cb.panels, cb.charts):
        for name in module.__all__:
            if callable(getattr(module, name)):
                assert f'id="{module.__name__}.{name}"' in reference, name
    paths = sorted((root / "cookbook" / "formulas").glob("[a-z]*.py"))
    assert paths
    for path in paths:
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                assert f'id="cookbook.formulas.{path.stem}.{node.name}"' in reference, f"{path.stem}.{node.name}"
