"""Recipes as pages: executed notebooks with their cards, folds and pictures, their gallery, and slides of courses."""

import re
from base64 import b64decode
from dataclasses import dataclass
from html import escape
from pathlib import Path

import nbformat
import nh3
from docutils import nodes
from slides import slides
from sphinx import addnodes

from cookbook.charts.card import SAVED_NOTE
from cookbook.publish import offline

CARD = '<div class="ck-card">'
PICTURES = "docs/generated"
ATTRIBUTES = {"class", "id", "style", "role", "title", "align", "scope", "colspan", "rowspan", "tabindex"}
STYLES = {"text-align", "list-style", "list-style-type", "margin", "padding", "width", "height", "background-color"}


def setup(app):
    """Connect the steps of a build."""
    app.connect("config-inited", _gallery)
    app.connect("source-read", _prepare)
    app.connect("doctree-read", _sanitise)
    app.connect("doctree-read", _name_folders)
    app.connect("html-collect-pages", _slides)
    app.connect("html-page-context", _live_panel)
    app.connect("build-finished", _list_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@dataclass(frozen=True)
class Panel:
    """A panel as a notebook stores it: its answer, badges, title of the chart, picture (base64) and code."""

    answer: str
    badges: str
    title: str
    picture: str
    code: str


def _panel(output):
    """Return the panel of an output, which is a picture beside its words; None for anything else."""
    data = output.get("data", {})
    words = data.get("text/plain", "<")
    if "image/png" not in data or words.startswith("<"):
        return None
    first, _, rest = words.partition("\n")
    answer, badges = re.fullmatch(r"(.*?)((?: \[[^\]]*\])*) *", first).groups()
    title = re.match(r"\w+: (.*) \(rows=", rest)
    code = next((line for line in rest.splitlines() if line.startswith("cb.panels.")), "")
    badges = " · ".join(re.findall(r"\[([^\]]*)\]", badges))
    return Panel(answer, badges, title[1] if title else answer, data["image/png"], code)


def _first_panel(notebook):
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return next((panel for output in outputs if (panel := _panel(output))), None)


def _notebooks(folder):
    return [*sorted(folder.glob("notebooks/*.ipynb")), *sorted(folder.glob("notebooks/history/*.ipynb"))]


def _number(stem):
    """Return the number of a recipe and a space; nothing for a page of history."""
    return f"{stem[:2]} " if stem[:2].isdigit() else ""


def _prepare(app, docname, source):
    """Number a recipe's title, join each card with its picture, and fold the cells that the notebook folds."""
    if app.env.doc2path(docname).suffix != ".ipynb":
        return
    notebook = nbformat.reads(source[0], as_version=4)
    notebook.metadata.pop("widgets", None)
    first = notebook.cells[0]
    first.source = re.sub(r"\A# ", f"# {_number(docname.rpartition('/')[2])}", first.source)
    for cell in notebook.cells:
        hidden = cell.metadata.get("jupyter", {})
        fold = "hide-cell" if hidden.get("outputs_hidden") else "hide-input"
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), *([fold] if hidden.get("source_hidden") else [])]
        if "outputs" in cell:
            cell.outputs = list(_with_cards(cell.outputs))
    source[0] = nbformat.writes(notebook)


def _with_cards(outputs):
    """Yield outputs as a page shows them: a panel's card contains its picture, and pictures have alternative text."""
    card = ""
    for output in outputs:
        data = output.get("data", {})
        if set(data) == {"text/html"} and data["text/html"].startswith(CARD):
            card = data["text/html"].replace(SAVED_NOTE, "")
            continue
        if panel := _panel(output):
            badges = f'<p class="ck-badges">{escape(panel.badges)}</p>'
            card = card or f"{CARD}<p>{escape(panel.answer)}</p>{badges}</div>"
            place = card.find("<table") if "<table" in card else card.rindex("</div>")
            output = _html(card[:place] + _image(panel.picture, panel.title) + card[place:])
        elif "image/png" in data:
            words = data.get("text/plain", "")
            chart = re.match(r"<\w+ (['\"])(.*)\1 rows=", words)
            output = _html(_image(data["image/png"], chart[2] if chart else words))
        card = ""
        yield output


def _html(text):
    return nbformat.v4.new_output("display_data", {"text/html": text})


def _image(picture, words):
    return f'<img src="data:image/png;base64,{escape(picture.strip())}" alt="{escape(words)}" loading="lazy">'


def _sanitise(app, doctree):
    """Remove scripts, forms, frames and outside pictures from HTML that a notebook contains."""
    if Path(doctree["source"]).suffix == ".ipynb":
        for node in list(doctree.findall(nodes.raw)):
            text = _safe(node.astext())
            node.replace_self(nodes.raw("", text, format="html"))


def _name_folders(app, doctree):
    """Keep the words alone of a link to a folder, of which a site has no page."""
    here = Path(doctree["source"]).parent
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link["reftype"] == "myst" and (here / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def _safe(html):
    attributes = {tag: values - {"rel"} for tag, values in nh3.ALLOWED_ATTRIBUTES.items()}
    safe = nh3.clean(
        html,
        attributes=attributes | {"*": ATTRIBUTES, "img": {"src", "alt", "loading"}, "details": {"open"}},
        attribute_filter=_filtered,
        filter_style_properties=STYLES,
        generic_attribute_prefixes={"aria-"},
        url_schemes={"http", "https", "mailto", "data"},
    )
    return safe.replace("<th></th>", "<td></td>")  # a corner of a table is no heading


def _filtered(tag, name, value):
    """Return a value, or None for a picture from elsewhere and a link that contains its page."""
    is_data = value.strip().casefold().startswith("data:")
    return value if name not in {"src", "href"} or (tag == "img") == is_data else None


def _gallery(app, config):
    """Write the cards of the gallery as a substitution of Markdown, and their pictures as files."""
    folder = Path(app.srcdir)
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    cards = [_card(folder, path) for path in _notebooks(folder)]
    config.myst_substitutions["recipes"] = "\n".join(["::::{grid} 1 2 2 3", ":gutter: 3", *cards, "::::"])


def _card(folder, path):
    """Return the card of a notebook: title, decision, answer and picture of its first panel, and minutes."""
    notebook = nbformat.read(path, as_version=4)
    opening, panel = notebook.cells[0].source, _first_panel(notebook)
    question, minutes = re.search(r"(?s)\*\*(.+?)\*\*", opening), re.search(r"(?i)\babout (\d+) minutes", opening)
    title = _number(path.stem) + opening.partition("\n")[0].lstrip("# ")
    lines = [f":::{{grid-item-card}} {title}", f":link: {path.relative_to(folder).with_suffix('').as_posix()}"]
    lines += [":link-type: doc"]
    words = [_safe(question[1])] if question else []
    if panel:
        picture = f"{PICTURES}/{path.stem}.png"
        (folder / picture).write_bytes(b64decode(panel.picture))
        lines += [f":img-top: {picture}", f":img-alt: {panel.title}"]
        words += ["", escape(re.split(r"(?<=[^.]\.) (?=[A-Z\d])", panel.answer)[0]).replace("$", r"\$")]
    return "\n".join(
        [*lines, "", *words, *(["```{card-footer}", f"{minutes[1]} minutes", "```"] if minutes else []), ":::"]
    )


def _slides(app):
    """Yield the slides of each course as a page."""
    for path in sorted(Path(app.srcdir).glob("notebooks/facilitator/*-course.md")):
        yield (
            f"slides-{path.stem}",
            {"title": f"Slides: {path.stem.replace('-', ' ')}", "body": slides(path)},
            "slides.html",
        )


def _live_panel(app, pagename, templatename, context, doctree):
    """Add the panel that answers without a kernel to the page of its recipe, in place of its card."""
    stem = pagename.rpartition("/")[2]
    if doctree is None or not stem.startswith(offline.RECIPE) or app.env.doc2path(pagename).suffix != ".ipynb":
        return
    panel = _first_panel(nbformat.read(app.env.doc2path(pagename), as_version=4))
    if panel and panel.code and offline.opening(panel.code) is not None:
        parts = offline.scripts(panel.code)
        modules = "".join(f'<script type="module">{module}</script>\n' for module in parts["modules"])
        table = f'<script type="application/json" id="ck-table">{parts["table"]}</script>\n'
        place = f'<style>{parts["style"]}</style><div class="ck-live"></div>{CARD}'
        context["body"] = context["body"].replace(CARD, place, 1) + table + modules


def _list_pages(app, error):
    """Write llms.txt: each page with its address and first sentence."""
    if error or app.builder.format != "html":
        return
    lines = [f"# {app.config.project}", ""]
    for name in sorted(app.env.found_docs):
        text = next((node.astext() for node in app.env.get_doctree(name).findall(nodes.paragraph)), "")
        sentence = re.split(r"(?<=[.?!]) ", " ".join(text.split()))[0]
        lines.append(f"- [{app.env.titles[name].astext()}]({app.builder.get_target_uri(name)}): {sentence}")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
