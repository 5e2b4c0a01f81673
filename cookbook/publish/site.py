"""Static pages of all recipes that open from disk with no network: formulas become MathML, pictures are embedded."""

import html
import re
from pathlib import Path
from typing import Any

import bleach
import nbformat
from bleach.css_sanitizer import CSSSanitizer
from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from cookbook.catalog.printed import write_text
from cookbook.publish.notebook import read

STYLE = Path(__file__).with_name("site.css")
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<nav><a href="index.html">Deep Learning Cookbook</a></nav>
<main>
{body}
</main>
</body>
</html>
"""


# What a page may hold: text, tables, pictures and formulas. Scripts, styles, forms and frames of a cell are left out.
TEXT = """a abbr acronym b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2
h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span strong sub summary sup table tbody td tfoot
th thead tr tt u ul var"""
MATHML = """math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr
mtd mstyle mpadded mphantom mfenced menclose mmultiscripts mprescripts none"""
EVERYWHERE = """class id title role lang dir scope align valign colspan rowspan open start aria-label aria-hidden
tabindex alt width height border style"""
FORMULA = """display xmlns displaystyle mathvariant stretchy fence form separator accent lspace rspace linethickness
columnalign rowspacing columnspacing minsize maxsize movablelimits scriptlevel largeop symmetric notation close
separators depth voffset"""
UNSEEN = re.compile(r"(?is)<(script|style|noscript|template|iframe|object|svg)\b.*?(</\1\s*>|\Z)")
PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+|(?![a-z][a-z0-9+.-]*:|//)\S+", re.I)


class MathMLRenderer(IPythonRenderer):
    """Markdown to HTML with formulas as MathML, which browsers draw without any script."""

    def block_math(self, body: str) -> str:
        """Formula on a line of its own; `body` is LaTeX."""
        return convert(body.strip(), display="block")

    def inline_math(self, body: str) -> str:
        """Formula within a line; `body` is LaTeX."""
        return convert(body.strip())


class OfflineExporter(HTMLExporter):
    """nbconvert's bare template, with formulas and pictures inside the page."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Markdown `source` of the cell in `context` as HTML."""
        renderer = MathMLRenderer(
            escape=False,
            embed_images=True,
            path=context["resources"]["metadata"].get("path", ""),
            attachments=context["cell"].get("attachments", {}),
            exclude_anchor_links=True,
        )
        return MarkdownWithMath(renderer=renderer).render(source)


def site(notebooks: str | Path = "notebooks", out: str | Path = "build/site") -> Path:
    """Write one page for each notebook of the folder `notebooks`, and an index, into the folder `out`."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    style = STYLE.read_text(encoding="utf-8") + HtmlFormatter(style="default").get_style_defs(".highlight")
    entries = []
    for path in sorted(Path(notebooks).glob("*.ipynb")):
        title, body = page(path)
        write_text(out / f"{path.stem}.html", PAGE.format(title=html.escape(title), style=style, body=body))
        entries.append(f'<li><a href="{path.stem}.html">{html.escape(title)}</a></li>')
    index = "<h1>Deep Learning Cookbook</h1>\n<ul>\n" + "\n".join(entries) + "\n</ul>"
    write_text(out / "index.html", PAGE.format(title="Deep Learning Cookbook", style=style, body=index))
    return out


def page(path: str | Path) -> tuple[str, str]:
    """Title and HTML body of the notebook at `path`."""
    path = Path(path)
    notebook = read(path)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [shown for output in cell.outputs for shown in _with_words(output)]
    resources = {"metadata": {"name": path.stem, "path": str(path.parent)}}
    body, _ = OfflineExporter(template_name="basic", embed_images=True).from_notebook_node(notebook, resources)
    body = re.sub(r'(href="\d\d-[\w-]+)\.ipynb', r"\1.html", clean(body))
    first = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), path.stem)
    return first.splitlines()[0].lstrip("# "), body


def clean(body: str) -> str:
    """The HTML of `body` without what could run: scripts, handlers of events, links to anything but pages and mail."""
    style = CSSSanitizer(allowed_css_properties=["text-align", "list-style", "list-style-type", "margin", "padding"])
    return bleach.clean(
        UNSEEN.sub("", body), tags={*TEXT.split(), *MATHML.split()}, attributes=_allowed, css_sanitizer=style,
        strip=True, protocols=["http", "https", "mailto", "data"],
    )  # fmt: skip


def _allowed(tag: str, name: str, value: str) -> bool:
    if name == "href":
        return tag == "a" and not value.strip().casefold().startswith("data:")
    if name == "src":
        return tag == "img" and PICTURE.fullmatch(value) is not None
    formula = tag in MATHML.split() and name in FORMULA.split()
    return formula or name in EVERYWHERE.split()


def _with_words(output: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """A picture gets its text as alternative; a sentence is also printed above it, since no panel will say it here."""
    if "image/png" not in output.get("data", {}):
        return [output]
    words = output["data"].get("text/plain", "")
    output["metadata"] = nbformat.from_dict({"image/png": {"alt": words}})
    if words.startswith("<"):
        return [output]
    return [nbformat.v4.new_output("stream", name="stdout", text=words), output]
